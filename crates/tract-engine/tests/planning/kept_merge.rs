//! Merges that are kept until their conflicts are decided.

use std::collections::BTreeMap;
use std::sync::Barrier;

use tract_core::{CommitId, Draft, Priority, RefName, RefTarget, block_on};
use tract_engine::plan::{ConflictKind, MergeConflict, Resolution, ResolutionKind};
use tract_engine::{
    Error, KeptMerge, MergeOptions, MergeProgress, Merged, PendingRequest, Refusal, Repo,
};

use crate::fixture::Fixture;
use crate::support;

fn refs(desk: &Fixture) -> BTreeMap<RefName, RefTarget> {
    support::refs(&desk.repo).into_iter().collect()
}

/// Two branches that edited the same messages: `texts` of them, and marked one.
fn edited(texts: usize) -> (Fixture, Fixture, Vec<CommitId>) {
    let desk = Fixture::new();
    let ids: Vec<CommitId> = (0..=texts).map(|n| desk.user(&format!("text {n}"))).collect();
    let side = desk.fork("side", ids[texts]);
    for id in &ids[..texts] {
        desk.edit(*id, "ours");
        side.edit(*id, "theirs");
    }
    desk.mark(ids[texts], Priority::Pinned);
    side.mark(ids[texts], Priority::Skip);
    side.user("behind");
    (desk, side, ids)
}

#[track_caller]
fn keep(desk: &Fixture, side: &Fixture) -> KeptMerge {
    let source = side.head().unwrap();
    match block_on(desk.repo.merge_or_keep(&desk.branch, source, &MergeOptions::default())) {
        Ok(MergeProgress::Kept(kept)) => *kept,
        other => panic!("expected a kept merge, found {other:?}"),
    }
}

fn resolve(
    repo: &Repo,
    id: &str,
    how: impl Fn(&MergeConflict) -> Option<Resolution> + Send + Sync + 'static,
) -> tract_engine::Result<MergeProgress> {
    block_on(repo.resolve_merge(id, how))
}

/// Decides the conflict of one message.
fn one(slot: CommitId, how: Resolution) -> impl Fn(&MergeConflict) -> Option<Resolution> {
    move |conflict| (conflict.slot == Some(slot)).then(|| how.clone())
}

#[track_caller]
fn still_open(progress: MergeProgress) -> Vec<Option<CommitId>> {
    match progress {
        MergeProgress::Kept(kept) => kept.open().map(|open| open.conflict.slot).collect(),
        other => panic!("expected open conflicts, found {other:?}"),
    }
}

#[test]
fn a_kept_merge_is_decided_one_by_one_and_written_once() {
    let (desk, side, ids) = edited(3);
    let head = desk.head();
    let kept = keep(&desk, &side);
    assert_eq!((kept.conflicts.len(), kept.head, kept.open().count()), (4, head, 4));
    let version = &kept.conflicts[0];
    assert_eq!((version.conflict.kind, version.legal.len()), (ConflictKind::Version, 4));
    assert_eq!(desk.head(), head, "the branch stays");
    let waiting = block_on(desk.repo.pending()).unwrap();
    assert_eq!(waiting, std::slice::from_ref(&kept.pending));
    assert!(waiting[0].request.describe().ends_with("0 of 4 conflicts decided"));
    let id = &kept.pending.id;

    let open = still_open(resolve(&desk.repo, id, one(ids[0], Resolution::Theirs)).unwrap());
    assert_eq!(open.len(), 3);
    let text = Resolution::Text("agreed".to_owned());
    assert_eq!(still_open(resolve(&desk.repo, id, one(ids[1], text)).unwrap()).len(), 2);
    // The beginning of a name will do, and a decision can be changed.
    resolve(&desk.repo, &id[..8], one(ids[0], Resolution::Both)).unwrap();
    assert_eq!(desk.head(), head);
    let again = block_on(desk.cold().repo.kept_merge(id)).unwrap();
    let decided = again.conflicts.iter().filter_map(|one| Some(one.resolution.as_ref()?.kind()));
    let mut decided: Vec<ResolutionKind> = decided.collect();
    decided.sort();
    assert_eq!(decided, [ResolutionKind::Both, ResolutionKind::Text]);
    assert!(again.new.is_empty() && again.outdated.is_empty());

    // A call decides all that it answers, and the merge is written when nothing is open.
    let done = resolve(&desk.repo, id, |_| Some(Resolution::Ours)).unwrap();
    assert!(matches!(done, MergeProgress::Merged(Merged::Commit(_))), "{done:?}");
}

#[test]
fn the_last_decision_writes_the_merge_with_all_resolutions() {
    let (desk, side, ids) = edited(2);
    let before = refs(&desk);
    let kept = keep(&desk, &side);
    let id = kept.pending.id.clone();
    resolve(&desk.repo, &id, one(ids[0], Resolution::Theirs)).unwrap();
    resolve(&desk.repo, &id, one(ids[1], Resolution::Text("agreed".to_owned()))).unwrap();
    let almost = refs(&desk);
    let done = resolve(&desk.repo, &id, one(ids[2], Resolution::Ours)).unwrap();
    let MergeProgress::Merged(Merged::Commit(merged)) = done else { panic!("{done:?}") };
    assert_eq!(desk.shown(), ["user: theirs", "user: agreed", "user: text 2", "user: behind"]);
    let metadata = merged.metadata.as_ref().unwrap().as_str().to_owned();
    for word in ["ours", "theirs", "text"] {
        assert!(metadata.contains(&format!(r#""resolution":"{word}""#)), "{metadata}");
    }
    assert_eq!(block_on(desk.repo.pending()).unwrap(), []);
    let decision = block_on(desk.repo.decision(&id)).unwrap().unwrap();
    assert_eq!((decision.commit, &*decision.record.action), (Some(merged.id()), "resolve"));
    assert!(decision.request.conflicts().unwrap().iter().all(|one| one.resolution.is_some()));
    for error in [
        resolve(&desk.repo, &id, |_| None).map(drop).unwrap_err(),
        block_on(desk.repo.abort_merge(&id, "")).map(drop).unwrap_err(),
        block_on(desk.repo.approve(&id)).map(drop).unwrap_err(),
        block_on(desk.repo.kept_merge(&id)).map(drop).unwrap_err(),
    ] {
        assert_eq!(error.code(), "already_decided");
    }
    // Each verb is one operation: undo goes back decision by decision, and redo forward.
    let end = refs(&desk);
    block_on(desk.repo.undo(&desk.branch)).unwrap();
    assert_eq!(refs(&desk).get(&desk.branch), almost.get(&desk.branch));
    assert_eq!(block_on(desk.repo.kept_merge(&id)).unwrap().open().count(), 1);
    assert_eq!(block_on(desk.repo.decision(&id)).unwrap(), None);
    block_on(desk.repo.redo(&desk.branch)).unwrap();
    assert_eq!(refs(&desk), end);
    for open in [1, 2, 3] {
        block_on(desk.repo.undo(&desk.branch)).unwrap();
        assert_eq!(block_on(desk.repo.kept_merge(&id)).unwrap().open().count(), open);
    }
    block_on(desk.repo.undo(&desk.branch)).unwrap();
    assert_eq!(refs(&desk), before, "the merge was never kept");
    assert_eq!(block_on(desk.repo.kept_merge(&id)).unwrap_err().code(), "unknown_pending");
    for _ in 0..4 {
        block_on(desk.repo.redo(&desk.branch)).unwrap();
    }
    assert_eq!(refs(&desk), end);
}

#[test]
fn decisions_that_still_fit_hold_when_the_branch_has_moved() {
    let (desk, side, ids) = edited(3);
    let id = keep(&desk, &side).pending.id;
    resolve(&desk.repo, &id, one(ids[0], Resolution::Theirs)).unwrap();
    resolve(&desk.repo, &id, one(ids[1], Resolution::Theirs)).unwrap();
    // One decided message changes again, one open conflict goes, and a new one comes.
    desk.edit(ids[1], "ours again");
    desk.edit(ids[2], "theirs");
    desk.mark(ids[0], Priority::Important);
    side.user("not brought in");
    let kept = block_on(desk.repo.kept_merge(&id)).unwrap();
    assert_eq!(kept.head, desk.head());
    let of = |slot: CommitId, kind: ConflictKind| {
        let found = kept.conflicts.iter();
        found.clone().find(|one| one.conflict.slot == Some(slot) && one.conflict.kind == kind)
    };
    let first = of(ids[0], ConflictKind::Version).unwrap();
    assert_eq!(first.resolution, Some(Resolution::Theirs), "it still fits");
    assert_eq!(of(ids[1], ConflictKind::Version).unwrap().resolution, None, "it is open again");
    assert_eq!(of(ids[2], ConflictKind::Version), None, "both sides say the same");
    assert!(kept.new.iter().any(|new| new.slot == Some(ids[1])), "{:?}", kept.new);
    assert!(kept.outdated.iter().any(|old| old.slot == Some(ids[1])), "{:?}", kept.outdated);
    let done = resolve(&desk.repo, &id, |conflict| {
        Some(match conflict.kind {
            ConflictKind::Mark => Resolution::Theirs,
            _ => Resolution::Ours,
        })
    });
    assert!(matches!(done, Ok(MergeProgress::Merged(Merged::Commit(_)))), "{done:?}");
    // All conflicts of the call were decided by the call, those decided before too.
    assert_eq!(desk.shown(), ["user: ours", "user: ours again", "user: theirs", "user: behind"]);
}

#[test]
fn an_illegal_resolution_names_the_legal_ones_and_writes_nothing() {
    let (desk, side, ids) = edited(1);
    let id = keep(&desk, &side).pending.id;
    let before = refs(&desk);
    match resolve(&desk.repo, &id, one(ids[1], Resolution::Both)) {
        Err(Error::Refused(Refusal::IllegalResolution { legal, .. })) => {
            assert_eq!(legal, [ResolutionKind::Ours, ResolutionKind::Theirs]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(still_open(resolve(&desk.repo, &id, |_| None).unwrap()).len(), 2);
    assert_eq!(refs(&desk), before, "nothing decided, nothing written");
    let error = block_on(desk.repo.approve(&id)).unwrap_err();
    assert!(matches!(&error, Error::Refused(Refusal::Conflicts(open)) if open.len() == 2));
    assert_eq!(block_on(desk.repo.edit_pending(&id, "x")).unwrap_err().code(), "no_text");
    assert_eq!(refs(&desk), before);
}

#[test]
fn a_merge_is_given_up_and_the_branch_stays() {
    let (desk, side, ids) = edited(1);
    let (head, id) = (desk.head(), keep(&desk, &side).pending.id);
    resolve(&desk.repo, &id, one(ids[0], Resolution::Ours)).unwrap();
    let given_up = block_on(desk.repo.abort_merge(&id, "not now")).unwrap();
    assert_eq!((given_up.commit, desk.head()), (None, head));
    assert_eq!(given_up.record.reason.as_deref(), Some("not now"));
    assert_eq!(block_on(desk.repo.pending()).unwrap(), []);
    let error = resolve(&desk.repo, &id, |_| Some(Resolution::Ours)).unwrap_err();
    assert_eq!(error.code(), "already_decided");
    block_on(desk.repo.undo(&desk.branch)).unwrap();
    assert_eq!(block_on(desk.repo.kept_merge(&id)).unwrap().open().count(), 1);
    // Rejecting it as a pending approval does the same.
    block_on(desk.repo.reject(&id, "no")).unwrap();
    assert_eq!(block_on(desk.repo.decision(&id)).unwrap().unwrap().record.action, "abort");
}

#[test]
fn a_merge_without_open_conflicts_is_not_kept() {
    let (desk, side, _) = edited(1);
    let ours = MergeOptions::default().resolve(|_| Some(Resolution::Ours));
    let source = side.head().unwrap();
    let done = block_on(desk.repo.merge_or_keep(&desk.branch, source, &ours)).unwrap();
    assert!(matches!(done, MergeProgress::Merged(Merged::Commit(_))), "{done:?}");
    let done = block_on(desk.repo.merge_or_keep(&desk.branch, source, &ours)).unwrap();
    assert_eq!(done, MergeProgress::Merged(Merged::NothingToMerge));
    assert_eq!(block_on(desk.repo.pending()).unwrap(), []);
}

#[test]
fn only_a_merge_is_resolved() {
    let desk = Fixture::new();
    let request = PendingRequest::Append(Box::new(Draft::user("hello")));
    let waits = block_on(desk.repo.defer(&desk.branch, request, "test", "a person")).unwrap();
    let before = refs(&desk);
    for error in [
        resolve(&desk.repo, &waits.id, |_| None).map(drop).unwrap_err(),
        block_on(desk.repo.abort_merge(&waits.id, "")).map(drop).unwrap_err(),
        block_on(desk.repo.kept_merge(&waits.id)).map(drop).unwrap_err(),
    ] {
        assert_eq!(error.code(), "not_a_merge");
    }
    let error = resolve(&desk.repo, "m-none", |_| None).unwrap_err();
    assert_eq!(error.code(), "unknown_pending");
    assert_eq!(refs(&desk), before);
}

#[test]
fn a_merge_that_a_handler_deferred_is_resolved_too() {
    let (desk, side, _) = edited(1);
    let source = side.head().unwrap();
    let request = PendingRequest::Merge {
        source,
        no_fast_forward: false,
        details: Default::default(),
        conflicts: None,
    };
    let waits = block_on(desk.repo.defer(&desk.branch, request, "a handler", "look")).unwrap();
    let error = block_on(desk.repo.approve(&waits.id)).unwrap_err();
    assert_eq!(error.code(), "merge_conflicts");
    let done = resolve(&desk.repo, &waits.id, |_| Some(Resolution::Theirs)).unwrap();
    assert!(matches!(done, MergeProgress::Merged(Merged::Commit(_))), "{done:?}");
    assert_eq!(desk.shown(), ["user: theirs", "user: behind"]);
}

#[test]
fn of_two_that_decide_one_conflict_at_once_exactly_one_wins() {
    for round in 0..40 {
        let (desk, side, ids) = edited(2);
        let id = keep(&desk, &side).pending.id;
        let completes = round % 2 == 0;
        if completes {
            let but_the_last = one(ids[2], Resolution::Ours);
            resolve(&desk.repo, &id, but_the_last).unwrap();
            resolve(&desk.repo, &id, one(ids[0], Resolution::Ours)).unwrap();
        }
        let open = if completes { ids[1] } else { ids[0] };
        let start = Barrier::new(2);
        let decide = |how: Resolution| {
            let cold = desk.cold();
            start.wait();
            resolve(&cold.repo, &id, one(open, how))
        };
        let [ours, theirs] = std::thread::scope(|scope| {
            let other = scope.spawn(|| decide(Resolution::Theirs));
            let mine = decide(Resolution::Ours);
            [mine, other.join().unwrap()]
        });
        let text = match block_on(desk.repo.kept_merge(&id)) {
            Ok(kept) => {
                assert!(!completes);
                let found = kept.conflicts.iter().find(|one| one.conflict.slot == Some(open));
                found.unwrap().resolution.clone().unwrap()
            }
            Err(error) => {
                assert_eq!(error.code(), "already_decided");
                assert!(completes);
                match desk.shown()[1].as_str() {
                    "user: ours" => Resolution::Ours,
                    _ => Resolution::Theirs,
                }
            }
        };
        // Deciding after the other has, without a race, changes the decision of an open merge.
        match (&ours, &theirs) {
            (Ok(_), Err(error)) | (Err(error), Ok(_)) => {
                assert!(["conflict", "already_decided"].contains(&error.code()), "{error}");
                let winner = if ours.is_ok() { Resolution::Ours } else { Resolution::Theirs };
                assert_eq!(text, winner);
            }
            (Ok(_), Ok(_)) => assert!(!completes, "both completed the merge"),
            (Err(ours), Err(theirs)) => panic!("{ours}; {theirs}"),
        }
    }
}
