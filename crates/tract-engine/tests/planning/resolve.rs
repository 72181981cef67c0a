use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tract_core::{Commit, CommitId, Draft, Priority, block_on};
use tract_engine::plan::{ConflictKind, Request, Resolution, ResolutionKind};
use tract_engine::{Error, MergeOptions, Merged, Refusal};

use crate::fixture::{Fixture, forked, tool};

fn try_with(
    desk: &Fixture,
    side: &Fixture,
    resolution: &Resolution,
) -> tract_engine::Result<Merged> {
    let resolution = resolution.clone();
    let options = MergeOptions::default().resolve(move |_| Some(resolution.clone()));
    block_on(desk.repo.merge(&desk.branch, side.head().unwrap(), &options))
}

/// Merges with one resolution for all conflicts; what the merge wrote, reverted, gives ours.
#[track_caller]
fn merge_with(desk: &Fixture, side: &Fixture, resolution: Resolution) -> Commit {
    let (before, tools) = (desk.view_id(), desk.history().toolset());
    let head = desk.head();
    let merged = match try_with(desk, side, &resolution) {
        Ok(Merged::Commit(commit)) => commit,
        Ok(other) => panic!("expected a merge commit, found {other:?}"),
        Err(error) => panic!("{error}: {:?}", error.notes()),
    };
    let trial = desk.on("trial");
    trial.force(desk.head().unwrap());
    let mut written = Vec::new();
    let mut at = desk.head();
    while at != head {
        let commit = block_on(desk.repo.require_commit(at.unwrap())).unwrap();
        written.push(commit.id());
        at = commit.parent();
    }
    assert!(written.contains(&merged.id()));
    trial.revert(&written);
    assert_eq!((trial.view_id(), trial.history().toolset()), (before, tools));
    merged
}

/// Checks that a resolution is refused, that the legal ones are named, and nothing is written.
#[track_caller]
fn illegal(desk: &Fixture, side: &Fixture, resolution: Resolution, kind: ConflictKind) {
    let head = desk.head();
    match try_with(desk, side, &resolution) {
        Err(Error::Refused(refusal @ Refusal::IllegalResolution { .. })) => {
            let notes = refusal.notes();
            let Refusal::IllegalResolution { conflict, resolution: found, legal } = refusal else {
                return;
            };
            assert_eq!((conflict.kind, found), (kind, resolution.kind()));
            assert!(!legal.contains(&found) && legal.contains(&ResolutionKind::Ours));
            assert!(notes[0].contains("ours, theirs"), "{notes:?}");
        }
        other => panic!("expected an illegal resolution, found {other:?}"),
    }
    assert_eq!(desk.head(), head);
}

fn edited() -> (Fixture, Fixture, [CommitId; 3]) {
    let (desk, side, ids) = forked();
    desk.edit(ids[0], "ours");
    side.edit(ids[0], "theirs");
    side.user("d");
    (desk, side, ids)
}

#[test]
fn two_versions_of_a_message_are_resolved_in_four_ways() {
    let (desk, side, _) = edited();
    let merged = merge_with(&desk, &side, Resolution::Ours);
    assert_eq!(desk.shown(), ["user: ours", "assistant: b", "user: c", "user: d"]);
    let metadata = merged.metadata.as_ref().unwrap().as_str();
    assert!(metadata.contains(r#""kind":"version""#), "{metadata}");
    assert!(metadata.contains(r#""resolution":"ours""#), "{metadata}");

    let (desk, side, _) = edited();
    merge_with(&desk, &side, Resolution::Theirs);
    assert_eq!(desk.shown(), ["user: theirs", "assistant: b", "user: c", "user: d"]);

    let (desk, side, _) = edited();
    merge_with(&desk, &side, Resolution::Both);
    let both = ["user: ours", "assistant: b", "user: c", "user: theirs", "user: d"];
    assert_eq!(desk.shown(), both);

    let (desk, side, [a, ..]) = edited();
    merge_with(&desk, &side, Resolution::Text("agreed".into()));
    assert_eq!(desk.shown(), ["user: agreed", "assistant: b", "user: c", "user: d"]);
    // The text is an edit of the message, written in the same operation.
    let head = block_on(desk.repo.require_commit(desk.head().unwrap())).unwrap();
    assert_eq!(head.op, tract_core::Op::Edit { target: a });
    block_on(desk.repo.undo(&desk.branch)).unwrap();
    assert_eq!(desk.shown(), ["user: ours", "assistant: b", "user: c"]);
}

#[test]
fn both_versions_of_a_message_are_edited_apart() {
    let (desk, side, [a, ..]) = forked();
    desk.edit(a, "ours");
    let theirs = side.edit(a, "theirs");
    merge_with(&desk, &side, Resolution::Both);
    desk.edit(theirs, "second");
    desk.edit(a, "first");
    assert_eq!(desk.shown(), ["user: first", "assistant: b", "user: c", "user: second"]);
    // Merged again, nothing comes twice.
    side.user("d");
    merge_with(&desk, &side, Resolution::Both);
    let shown = ["user: first", "assistant: b", "user: c", "user: second", "user: d"];
    assert_eq!(desk.shown(), shown);
}

#[test]
fn both_is_refused_where_their_version_has_no_name_of_its_own() {
    let (desk, side, _) = forked();
    let own = side.user("own");
    let pick = tract_engine::Rebase::Pick { targets: vec![own.into()], from: None };
    desk.user("ours");
    block_on(desk.repo.rebase(&desk.branch, &pick)).unwrap();
    desk.edit(own, "OWN");
    illegal(&desk, &side, Resolution::Both, ConflictKind::Version);
    merge_with(&desk, &side, Resolution::Theirs);
    assert!(desk.shown().contains(&"user: own".to_owned()));
}

#[test]
fn two_priorities_are_resolved_by_one_side() {
    let marked = || {
        let (desk, side, ids) = forked();
        desk.mark(ids[1], Priority::Skip);
        side.mark(ids[1], Priority::Pinned);
        (desk, side)
    };
    let (desk, side) = marked();
    merge_with(&desk, &side, Resolution::Ours);
    assert_eq!(desk.shown(), ["user: a", "user: c"]);
    let (desk, side) = marked();
    merge_with(&desk, &side, Resolution::Theirs);
    assert_eq!(desk.shown(), ["user: a", "assistant: b", "user: c"]);
    let (desk, side) = marked();
    illegal(&desk, &side, Resolution::Both, ConflictKind::Mark);
    illegal(&desk, &side, Resolution::Text("x".into()), ConflictKind::Mark);
}

#[test]
fn a_message_that_one_side_removed_and_the_other_edited_is_resolved() {
    let removed = ["user: a", "user: c"].as_slice();
    let edited = ["user: a", "assistant: B", "user: c"].as_slice();
    let agreed = ["user: a", "assistant: t", "user: c"].as_slice();
    for (is_removed_here, ours, theirs) in [(true, removed, edited), (false, edited, removed)] {
        for (resolution, shown) in [
            (Resolution::Ours, ours),
            (Resolution::Theirs, theirs),
            (Resolution::Both, edited),
            (Resolution::Text("t".into()), agreed),
        ] {
            let (desk, side, [_, b, _]) = forked();
            let (removing, editing) = if is_removed_here { (&desk, &side) } else { (&side, &desk) };
            removing.revert(&[b]);
            editing.edit(b, "B");
            merge_with(&desk, &side, resolution.clone());
            assert_eq!(desk.shown(), shown, "{resolution:?}, removed here: {is_removed_here}");
        }
    }
}

#[test]
fn an_edit_under_a_summary_is_resolved_for_the_summary_or_for_the_edit() {
    // Our summary hides what they edited.
    let hidden_here = || {
        let (desk, side, [a, b, _]) = forked();
        desk.compress(&[a, b], "ab");
        side.edit(b, "B");
        (desk, side)
    };
    let (desk, side) = hidden_here();
    merge_with(&desk, &side, Resolution::Ours);
    assert_eq!(desk.shown(), ["assistant: ab", "user: c"]);
    let (desk, side) = hidden_here();
    merge_with(&desk, &side, Resolution::Theirs);
    assert_eq!(desk.shown(), ["user: a", "assistant: B", "user: c"]);
    let (desk, side) = hidden_here();
    illegal(&desk, &side, Resolution::Both, ConflictKind::Presence);
    // Their summary hides what we edited.
    let hidden_there = || {
        let (side, desk) = hidden_here();
        side.user("d");
        (desk, side)
    };
    let (desk, side) = hidden_there();
    merge_with(&desk, &side, Resolution::Ours);
    assert_eq!(desk.shown(), ["user: a", "assistant: B", "user: c", "user: d"]);
    let (desk, side) = hidden_there();
    merge_with(&desk, &side, Resolution::Theirs);
    assert_eq!(desk.shown(), ["assistant: ab", "user: c", "user: d"]);
    let (desk, side) = hidden_there();
    illegal(&desk, &side, Resolution::Both, ConflictKind::Summary);
}

#[test]
fn two_summaries_that_overlap_are_resolved_by_one_and_nothing_is_lost() {
    let overlapping = || {
        let (desk, side, [a, b, c]) = forked();
        desk.compress(&[a, b], "ab");
        let d = side.user("d");
        side.compress(&[b, c, d], "bcd");
        (desk, side)
    };
    let (desk, side) = overlapping();
    merge_with(&desk, &side, Resolution::Ours);
    assert_eq!(desk.shown(), ["assistant: ab", "user: c", "user: d"]);
    let (desk, side) = overlapping();
    merge_with(&desk, &side, Resolution::Theirs);
    assert_eq!(desk.shown(), ["user: a", "assistant: bcd"]);
    let (desk, side) = overlapping();
    illegal(&desk, &side, Resolution::Both, ConflictKind::Summary);
    illegal(&desk, &side, Resolution::Text("x".into()), ConflictKind::Summary);
}

#[test]
fn two_answers_to_one_call_are_resolved() {
    let answered = || {
        let desk = Fixture::new();
        desk.user("a");
        let call = desk.call("k");
        let side = desk.fork("side", call);
        desk.result("k", "ours");
        side.result("k", "theirs");
        side.says("done");
        (desk, side)
    };
    for (resolution, shown) in [
        (Resolution::Ours, "tool: ours"),
        (Resolution::Theirs, "tool: theirs"),
        (Resolution::Text("t".into()), "tool: t"),
    ] {
        let (desk, side) = answered();
        merge_with(&desk, &side, resolution.clone());
        assert_eq!(desk.shown()[2..], [shown, "assistant: done"], "{resolution:?}");
    }
    let (desk, side) = answered();
    illegal(&desk, &side, Resolution::Both, ConflictKind::Answer);
}

#[test]
fn an_answer_whose_call_the_other_side_removed_is_resolved() {
    let pair = || {
        let desk = Fixture::new();
        desk.user("a");
        let call = desk.call("k");
        let side = desk.fork("side", call);
        desk.result("k", "x");
        side.revert(&[call]);
        side.user("d");
        (desk, side)
    };
    let (desk, side) = pair();
    merge_with(&desk, &side, Resolution::Ours);
    assert_eq!(desk.shown(), ["user: a", "assistant: [k]", "tool: x", "user: d"]);
    let (desk, side) = pair();
    merge_with(&desk, &side, Resolution::Theirs);
    assert_eq!(desk.shown(), ["user: a", "user: d"]);
    let (side, desk) = pair();
    merge_with(&desk, &side, Resolution::Ours);
    assert_eq!(desk.shown(), ["user: a", "user: d"]);
    let (side, desk) = pair();
    merge_with(&desk, &side, Resolution::Theirs);
    assert_eq!(desk.shown(), ["user: a", "assistant: [k]", "user: d", "tool: x"]);
}

#[test]
fn versions_of_a_message_with_calls_cannot_both_stay() {
    let (desk, side, _) = forked();
    let call = desk.call("k");
    let other = desk.fork("other", call);
    desk.edit(call, "ours");
    other.edit(call, "theirs");
    illegal(&desk, &other, Resolution::Both, ConflictKind::Version);
    drop(side);
}

#[test]
fn two_sets_of_tools_are_joined_by_name() {
    let tooled = || {
        let (desk, side, _) = forked();
        desk.go(Request::tools([tool("x", "ours"), tool("y", "y")]));
        side.go(Request::tools([tool("x", "theirs"), tool("z", "z")]));
        (desk, side)
    };
    for (resolution, names) in [
        (Resolution::Ours, vec!["x", "y"]),
        (Resolution::Theirs, vec!["x", "z"]),
        (Resolution::Both, vec!["x", "y", "z"]),
    ] {
        let (desk, side) = tooled();
        merge_with(&desk, &side, resolution);
        assert_eq!(desk.tool_names(), names);
        desk.user("d");
        assert_eq!(desk.tool_names(), names, "they stay in force");
    }
    let (desk, side) = tooled();
    illegal(&desk, &side, Resolution::Text("x".into()), ConflictKind::Tools);
}

#[test]
fn conflicts_that_are_left_open_are_reported_and_each_is_asked_about_once() {
    let (desk, side, [a, b, _]) = forked();
    desk.edit(a, "A");
    desk.edit(b, "B");
    side.edit(a, "a2");
    side.edit(b, "b2");
    let head = desk.head();
    let questions = Arc::new(AtomicUsize::new(0));
    let count = questions.clone();
    let options = MergeOptions::default().resolve(move |conflict| {
        count.fetch_add(1, Ordering::Relaxed);
        (conflict.slot == Some(a)).then_some(Resolution::Theirs)
    });
    match block_on(desk.repo.merge(&desk.branch, side.head().unwrap(), &options)) {
        Err(Error::Refused(Refusal::Conflicts(open))) => {
            assert_eq!(open.iter().map(|open| open.slot).collect::<Vec<_>>(), [Some(b)]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(desk.head(), head);
    assert_eq!(questions.load(Ordering::Relaxed), 2);
    let options = MergeOptions::default();
    let preview = desk.repo.preview_merge(&desk.branch, side.head().unwrap(), &options);
    match block_on(preview) {
        Err(Error::Refused(Refusal::Conflicts(open))) => assert_eq!(open.len(), 2),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_preview_writes_nothing() {
    let (desk, side, _) = edited();
    let head = desk.head();
    let options = MergeOptions::default().resolve(|_| Some(Resolution::Both));
    let preview = block_on(desk.repo.preview_merge(&desk.branch, side.head().unwrap(), &options));
    let Ok(Merged::Commit(commit)) = preview else { panic!("{preview:?}") };
    assert_eq!(desk.head(), head);
    assert_eq!(block_on(desk.repo.commit(commit.id())).unwrap(), None);
}

#[test]
fn histories_without_a_common_commit_are_merged_only_when_asked_for() {
    let desk = Fixture::new();
    desk.user("here");
    let other = desk.on("other");
    other.user("there");
    let source = other.head().unwrap();
    let merge = |options: MergeOptions| block_on(desk.repo.merge(&desk.branch, source, &options));
    let refused = merge(MergeOptions::default());
    assert!(matches!(refused, Err(Error::Refused(Refusal::Unrelated))), "{refused:?}");
    merge(MergeOptions { allow_unrelated: true, ..MergeOptions::default() }).unwrap();
    assert_eq!(desk.shown(), ["user: here", "user: there"]);
}

#[test]
fn metadata_of_the_caller_stays_next_to_the_resolutions() {
    let (desk, side, _) = edited();
    let details = tract_engine::plan::Details {
        metadata: Some(tract_core::JsonText::new(r#"{"ticket":7}"#).unwrap()),
        ..Default::default()
    };
    let options =
        MergeOptions { details, ..MergeOptions::default() }.resolve(|_| Some(Resolution::Ours));
    let merged = block_on(desk.repo.merge(&desk.branch, side.head().unwrap(), &options)).unwrap();
    let Merged::Commit(commit) = merged else { panic!("a commit") };
    let metadata = commit.metadata.as_ref().unwrap().as_str();
    assert!(metadata.starts_with(r#"{"resolutions":[{"#), "{metadata}");
    assert!(metadata.ends_with(r#""ticket":7}"#), "{metadata}");
}

#[test]
fn conflicts_are_described_with_texts_and_numbers() {
    let (desk, side, [a, ..]) = forked();
    desk.edit(a, "ours");
    side.go(Draft::user("more"));
    side.edit(a, "theirs");
    let (ours, theirs) = (desk.head(), side.head().unwrap());
    let Err(Error::Refused(Refusal::Conflicts(conflicts))) =
        block_on(desk.repo.merge(&desk.branch, theirs, &MergeOptions::default()))
    else {
        panic!("conflicts")
    };
    let described = block_on(desk.repo.describe_conflicts(ours, theirs, &conflicts)).unwrap();
    assert_eq!(described.len(), 1);
    assert_eq!(described[0].ours.text.as_deref(), Some("ours"));
    assert_eq!(described[0].theirs.text.as_deref(), Some("theirs"));
    assert_eq!((described[0].ours.number, described[0].theirs.number), (Some(1), Some(1)));
}

/// Ours marks a call and answers it; theirs answered it and summarized both. No answer stays
/// without its call, so that the merge can be reverted, and that reverted again.
#[test]
fn a_summary_of_theirs_takes_our_answer_along_with_its_call() {
    let desk = Fixture::new();
    let question = desk.user("What is the weather?");
    let call = desk.call("c1");
    let theirs = desk.fork("theirs", call);
    let answer = theirs.result("c1", "rain");
    let summary = theirs.compress(&[question, call, answer], "It rains.");
    desk.revert(&[question]);
    desk.result("c1", "sun");
    desk.mark(call, Priority::Skip);
    let options = MergeOptions::default().resolve(|_| Some(Resolution::Theirs));
    let merged = block_on(desk.repo.merge(&desk.branch, theirs.head().unwrap(), &options));
    let Merged::Commit(merged) = merged.unwrap() else { panic!("a merge commit") };
    let rows = |desk: &Fixture| desk.history().view().rows().copied().collect::<Vec<_>>();
    let after = rows(&desk);
    assert_eq!(after.iter().map(|row| row.slot).collect::<Vec<_>>(), [summary]);
    let back = desk.revert(&[merged.id()]);
    desk.revert(&[back]);
    assert_eq!(rows(&desk), after);
}
