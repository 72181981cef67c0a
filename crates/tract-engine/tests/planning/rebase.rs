use tract_core::{CommitId, Draft, Op, Priority, StoreExt as _, block_on};
use tract_engine::plan::Request;
use tract_engine::{
    Error, MergeOptions, Rebase, RebaseStep, RebaseTarget, Rebased, Refusal, Repo, RepoOptions,
    Result,
};

use crate::fixture::{Fixture, merge, sharing, tool};

fn run(desk: &Fixture, rebase: &Rebase) -> Result<Rebased> {
    block_on(desk.repo.rebase(&desk.branch, rebase))
}

#[track_caller]
fn done(desk: &Fixture, rebase: Rebase) -> Rebased {
    let preview = block_on(desk.repo.preview_rebase(&desk.branch, &rebase)).unwrap();
    let before = desk.head();
    assert_eq!(preview.before, before, "a preview writes nothing");
    match run(desk, &rebase) {
        Ok(rebased) => {
            assert_eq!(desk.head(), Some(rebased.head));
            assert_eq!((&rebased.left_out, &rebased.steps), (&preview.left_out, &preview.steps));
            rebased
        }
        Err(error) => panic!("{error}: {:?}", error.notes()),
    }
}

/// Checks that a rebase is refused, says why, and writes nothing.
#[track_caller]
fn refused(desk: &Fixture, rebase: &Rebase) -> Refusal {
    let (before, log) = (desk.head(), log(desk));
    match run(desk, rebase) {
        Err(Error::Refused(refusal)) => {
            assert_eq!((desk.head(), self::log(desk)), (before, log));
            assert!(!refusal.notes().is_empty() && !refusal.to_string().is_empty());
            refusal
        }
        other => panic!("expected a refusal, found {other:?}"),
    }
}

fn log(desk: &Fixture) -> usize {
    let query = tract_core::store::LogQuery { limit: 10_000, ..Default::default() };
    block_on(desk.repo.store().ref_log(desk.repo.name(), &query)).unwrap().len()
}

fn onto(desk: &Fixture) -> Rebase {
    Rebase::Onto { onto: desk.head().unwrap(), plan: None }
}

fn pick(commits: &[CommitId]) -> Rebase {
    Rebase::Pick { targets: commits.iter().copied().map(Into::into).collect(), from: None }
}

fn drop_of(commits: &[CommitId]) -> Rebase {
    Rebase::Drop { commits: commits.to_vec() }
}

/// Two branches that share one message.
fn forked() -> (Fixture, Fixture, CommitId) {
    sharing("first")
}

#[test]
fn a_rebase_repeats_every_operation_on_the_new_base() {
    let (desk, side, first) = forked();
    desk.user("main");
    let call = side.call("k");
    let result = side.result("k", "found");
    let small = side.user("small talk");
    side.edit(first, "FIRST");
    side.mark(small, Priority::Skip);
    let summary = side.compress(&[call, result], "looked");
    side.edit(summary, "looked it up");
    side.go(Request::tools([tool("x", "")]));
    let wrong = side.user("wrong");
    side.revert(&[wrong]);
    side.go(Request::note("a note"));
    let old = side.head();
    let rebased = done(&side, onto(&desk));
    assert_eq!(rebased.made.len(), 11);
    assert_eq!(side.shown(), ["user: FIRST", "user: main", "assistant: looked it up"]);
    assert_eq!(side.tool_names(), ["x"]);
    for (from, made) in &rebased.made {
        let made = block_on(side.repo.require_commit(*made)).unwrap();
        assert_eq!(made.origin.picked_from, *from);
    }
    // One undo reverts it; only the branch moved.
    block_on(side.repo.undo(&side.branch)).unwrap();
    assert_eq!(side.head(), old);
    assert_eq!(desk.shown(), ["user: first", "user: main"]);
}

#[test]
fn an_empty_rebase_makes_no_commit() {
    let (desk, side, _) = forked();
    let head = desk.user("main");
    assert_eq!(done(&side, onto(&desk)).made, []);
    assert_eq!(side.head(), Some(head), "forwarded");
    let more = side.user("more");
    let entries = log(&side);
    let again = done(&side, onto(&desk));
    assert_eq!((again.made.len(), again.head), (0, more));
    assert_eq!(log(&side), entries, "no ref moved");
    // A plan that picks all in order is empty as well.
    let plan = Some(vec![RebaseStep::Pick(more)]);
    assert_eq!(done(&side, Rebase::Onto { onto: head, plan }).head, more);
    assert_eq!(log(&side), entries);
}

#[test]
fn rebased_messages_show_once_after_a_merge() {
    let (desk, side, _) = forked();
    desk.user("main");
    let found = side.user("found");
    let copy = side.fork("copy", found);
    done(&side, onto(&desk));
    merge(&side, &copy);
    assert_eq!(side.shown(), ["user: first", "user: main", "user: found"]);
}

#[test]
fn a_picked_result_brings_its_turn_and_shows_once_after_a_merge() {
    let (desk, side, _) = forked();
    let thought = side.go(Draft::reasoning("hm"));
    let call = side.go(Draft::assistant("").call("k1", "f", "{}").call("k2", "f", "{}"));
    let one = side.result("k1", "one");
    let two = side.result("k2", "two");
    side.user("more");
    desk.user("main");
    for target in [one, call, two] {
        let trial = desk.fork(&format!("trial-{}", target.short()), desk.head().unwrap());
        let picked = done(&trial, pick(&[target]));
        let from: Vec<CommitId> = picked.made.iter().filter_map(|(from, _)| *from).collect();
        assert_eq!(from, [thought, call, one, two]);
    }
    done(&desk, pick(&[one]));
    let both = ["user: first", "user: main", "assistant: [k1,k2]", "tool: one", "tool: two"];
    assert_eq!(desk.shown(), both);
    merge(&desk, &side);
    assert_eq!(desk.shown()[..5], both);
    assert_eq!(desk.shown()[5..], ["user: more"]);
    assert_eq!(refused(&desk, &pick(&[one])), Refusal::NothingToPick);
}

#[test]
fn a_pick_of_an_edit_needs_its_message_as_it_was() {
    let (desk, side, first) = forked();
    let edit = side.edit(first, "side");
    let own = side.user("own");
    let of_own = side.edit(own, "OWN");
    desk.user("main");
    done(&desk, pick(&[edit]));
    assert_eq!(desk.shown(), ["user: side", "user: main"]);
    let Refusal::Replay(list) = refused(&desk, &pick(&[of_own])) else { panic!("a replay") };
    assert!(matches!(list[0], (commit, Refusal::NotVisible { .. }) if commit == of_own));
    desk.edit(first, "changed here");
    let Refusal::Replay(list) = refused(&desk, &pick(&[edit])) else { panic!("a replay") };
    assert!(matches!(list[0], (commit, Refusal::ChangedHere { .. }) if commit == edit));
}

#[test]
fn all_commits_that_cannot_be_repeated_are_named_and_nothing_is_written() {
    let (desk, side, first) = forked();
    desk.edit(first, "ours");
    let edit = side.edit(first, "theirs");
    side.user("fine");
    side.mark(first, Priority::Pinned);
    desk.mark(first, Priority::Skip);
    let Refusal::Replay(list) = refused(&side, &onto(&desk)) else { panic!("a replay") };
    assert_eq!(list.len(), 2);
    assert_eq!(list[0].0, edit);
}

#[test]
fn a_dropped_turn_goes_with_all_that_belongs_to_it() {
    let desk = Fixture::new();
    desk.user("a");
    desk.go(Draft::reasoning("hm"));
    let call = desk.call("k");
    let result = desk.result("k", "x");
    desk.edit(result, "y");
    desk.mark(call, Priority::Pinned);
    desk.user("b");
    let dropped = done(&desk, drop_of(&[result]));
    assert_eq!(desk.shown(), ["user: a", "user: b"]);
    assert_eq!((dropped.made.len(), dropped.left_out.len()), (1, 5));
    // The first message can go, the last that is left cannot.
    let root = history(&desk);
    done(&desk, drop_of(&[*root.last().unwrap()]));
    assert_eq!(desk.shown(), ["user: b"]);
    assert_eq!(refused(&desk, &drop_of(&[desk.head().unwrap()])), Refusal::EmptyBranch);
}

#[test]
fn a_message_is_inserted_between_turns_only() {
    let desk = Fixture::new();
    let a = desk.user("a");
    let call = desk.call("k");
    let result = desk.result("k", "x");
    let draft = || Box::new(Draft::system("forgotten"));
    let inside = refused(&desk, &Rebase::Insert { after: call.into(), draft: draft() });
    assert_eq!(inside, Refusal::InsideTurn { call });
    done(&desk, Rebase::Insert { after: a.into(), draft: draft() });
    assert_eq!(desk.shown(), ["user: a", "system: forgotten", "assistant: [k]", "tool: x"]);
    done(&desk, Rebase::Insert { after: desk.head().unwrap().into(), draft: draft() });
    assert_eq!(desk.shown().len(), 5);
    let gone = refused(&desk, &Rebase::Insert { after: result.into(), draft: draft() });
    assert_eq!(gone, Refusal::NotInRange { target: result });
}

#[test]
fn a_commit_that_a_later_merge_brings_back_is_not_dropped() {
    let desk = Fixture::new();
    desk.user("kept");
    let unwanted = desk.user("unwanted");
    let edit = desk.edit(unwanted, "unwanted, edited");
    let before = desk.fork("before", history(&desk)[2]);
    let topic = desk.fork("topic", edit);
    before.user("from before");
    topic.user("from topic");
    merge(&desk, &before);
    desk.user("between");
    let (head, shown) = (desk.head(), desk.shown());
    done(&desk, drop_of(&[unwanted]));
    assert_eq!(desk.shown(), ["user: kept", "user: from before", "user: between"]);
    block_on(desk.repo.undo(&desk.branch)).unwrap();
    assert_eq!((desk.head(), desk.shown()), (head, shown));
    merge(&desk, &topic);
    desk.user("last");
    let later = refused(&desk, &drop_of(&[unwanted]));
    assert_eq!(later, Refusal::MergedLater { target: unwanted.min(edit) });
    // The branch itself would be left with less than what it merged.
    assert_eq!(refused(&desk, &drop_of(&[edit])), Refusal::MergedLater { target: edit });
    // So it is in the plan of a rebase, and for a first message.
    let root = *history(&desk).last().unwrap();
    assert_eq!(refused(&desk, &drop_of(&[root])), Refusal::MergedLater { target: root });
    let range = history(&desk).into_iter().rev().skip(1);
    let plan = range.map(|id| match id == unwanted || id == edit {
        true => RebaseStep::Drop(id),
        false => RebaseStep::Pick(id),
    });
    let plan = Some(plan.collect());
    let later = refused(&desk, &Rebase::Onto { onto: root, plan });
    assert_eq!(later, Refusal::MergedLater { target: unwanted.min(edit) });
}

#[test]
fn a_message_inserted_after_a_summary_is_shown_next_to_it() {
    let desk = Fixture::new();
    let [_, two, three, _, five] = ["1", "2", "3", "4", "5"].map(|text| desk.user(text));
    let near = desk.compress(&[two, three], "2-3");
    desk.user("6");
    let far = desk.compress(&[near, five], "2-3, 5");
    desk.edit(far, "2, 3, 5");
    let shown = ["user: 1", "assistant: 2, 3, 5", "user: 4", "user: 6"];
    assert_eq!(desk.shown(), shown);
    let after = |slot| RebaseTarget::Message { slot, head: desk.head().unwrap() };
    let insert = |slot, text: &str| Rebase::Insert {
        after: after(slot),
        draft: Box::new(Draft::user(text)),
    };
    done(&desk, insert(far, "new"));
    assert_eq!(desk.shown()[..3], ["user: 1", "assistant: 2, 3, 5", "user: new"]);
    assert_eq!(desk.shown()[3..], ["user: 4", "user: 6"]);
    // A summary of the last messages.
    let only = Fixture::new();
    let rows = ["a", "b"].map(|text| only.user(text));
    let all = only.compress(&rows, "a, b");
    let head = only.head().unwrap();
    let at_end = Rebase::Insert {
        after: RebaseTarget::Message { slot: all, head },
        draft: Box::new(Draft::user("c")),
    };
    done(&only, at_end);
    assert_eq!(only.shown(), ["assistant: a, b", "user: c"]);
}

#[test]
fn a_message_is_not_inserted_between_two_that_one_merge_added() {
    let (desk, side, first) = forked();
    desk.user("main");
    let found = side.user("found");
    let last = side.user("last of the side");
    merge(&desk, &side);
    desk.user("more");
    let insert = |slot| Rebase::Insert {
        after: RebaseTarget::Message { slot, head: desk.head().unwrap() },
        draft: Box::new(Draft::user("new")),
    };
    assert_eq!(refused(&desk, &insert(found)), Refusal::InsideMerge { target: found });
    done(&desk, insert(last));
    let shown = desk.shown();
    assert_eq!(shown[2..], ["user: found", "user: last of the side", "user: new", "user: more"]);
    done(&desk, insert(first));
    assert_eq!(desk.shown()[..3], ["user: first", "user: new", "user: main"]);
    let nowhere = CommitId::from_bytes([9; 32]);
    assert!(matches!(refused(&desk, &insert(nowhere)), Refusal::NotVisible { .. }));
}

#[test]
fn a_plan_reorders_drops_and_inserts_and_must_name_every_commit_once() {
    let (desk, side, _) = forked();
    desk.user("main");
    let [one, two, three] = ["one", "two", "three"].map(|text| side.user(text));
    let base = desk.head().unwrap();
    let with = |plan: Vec<RebaseStep>| Rebase::Onto { onto: base, plan: Some(plan) };
    use RebaseStep::{Drop, Insert, Pick};
    let missing = refused(&side, &with(vec![Pick(one), Pick(two)]));
    assert_eq!(missing, Refusal::IncompletePlan { target: three });
    let twice = refused(&side, &with(vec![Pick(one), Drop(one), Pick(two), Pick(three)]));
    assert_eq!(twice, Refusal::IncompletePlan { target: one });
    let other = refused(&side, &with(vec![Pick(base)]));
    assert_eq!(other, Refusal::NotInRange { target: base });
    done(
        &side,
        with(vec![Pick(three), Insert(Box::new(Draft::user("new"))), Drop(two), Pick(one)]),
    );
    let shown = ["user: first", "user: main", "user: three", "user: new", "user: one"];
    assert_eq!(side.shown(), shown);
}

#[test]
fn a_merge_on_the_branch_is_merged_again_with_its_resolutions() {
    let (desk, side, first) = forked();
    let topic = desk.fork("topic", first);
    topic.edit(first, "topic");
    topic.user("from topic");
    side.edit(first, "side");
    let theirs = |_: &_| Some(tract_engine::plan::Resolution::Theirs);
    let options = MergeOptions::default().resolve(theirs);
    block_on(side.repo.merge(&side.branch, topic.head().unwrap(), &options)).unwrap();
    side.user("last");
    desk.user("main");
    done(&side, onto(&desk));
    let shown = ["user: topic", "user: main", "user: from topic", "user: last"];
    assert_eq!(side.shown(), shown);
}

#[test]
fn model_messages_are_rebased_in_the_neutral_form() {
    let (desk, side, _) = forked();
    desk.user("main");
    let mut draft = Draft::assistant("signed");
    draft.form = Some("anthropic-1".to_owned());
    draft.verbatim = Some(tract_core::Blob::seal(br#"{"signature":"s"}"#.to_vec()));
    side.go(draft);
    done(&side, onto(&desk));
    let made = block_on(side.repo.require_commit(side.head().unwrap())).unwrap();
    assert_eq!((&made.form, made.verbatim), (&None, None));
    assert!(matches!(made.op, Op::Append { slot: Some(_), .. }));
}

#[test]
fn a_message_that_a_summary_hides_is_not_picked_next_to_it() {
    let (desk, side, first) = forked();
    let second = desk.user("second");
    desk.compress(&[first, second], "both");
    side.user("of the side");
    let (head, shown) = (desk.head(), desk.shown());
    let by = head.unwrap();
    assert_eq!(refused(&desk, &pick(&[second])), Refusal::Hidden { target: second, by });
    assert_eq!((desk.head(), desk.shown()), (head, shown));
}

#[test]
fn a_reset_moves_the_branch_and_an_undo_moves_it_back() {
    let (desk, side, first) = forked();
    let head = desk.user("main");
    let elsewhere = side.user("side");
    assert_eq!(block_on(desk.repo.reset(&desk.branch, first)).unwrap(), Some(head));
    assert_eq!(desk.head(), Some(first));
    block_on(desk.repo.undo(&desk.branch)).unwrap();
    assert_eq!(desk.head(), Some(head));
    block_on(desk.repo.reset(&desk.branch, elsewhere)).unwrap();
    assert_eq!(desk.shown(), side.shown());
    let nowhere = CommitId::from_bytes([9; 32]);
    assert!(block_on(desk.repo.reset(&desk.branch, nowhere)).is_err());
    assert_eq!(desk.head(), Some(elsewhere));
}

#[test]
fn two_handles_that_rebase_and_append_at_once_lose_nothing() {
    let (desk, side, _) = forked();
    let other = Repo::new(desk.repo.store().clone(), RepoOptions::default());
    let branch = side.branch.clone();
    let appending = std::thread::spawn(move || {
        for n in 0..40 {
            block_on(other.append(&branch, Draft::user(format!("side {n}")))).unwrap();
        }
    });
    for n in 0..12 {
        desk.user(&format!("main {n}"));
        run(&side, &onto(&desk)).unwrap();
    }
    appending.join().unwrap();
    run(&side, &onto(&desk)).unwrap();
    let shown = side.cold().shown();
    for text in
        (0..40).map(|n| format!("user: side {n}")).chain((0..12).map(|n| format!("user: main {n}")))
    {
        assert_eq!(shown.iter().filter(|shown| **shown == text).count(), 1, "{text}");
    }
    assert_eq!(shown.len(), 53);
}

#[test]
fn bad_requests_are_refused_and_write_nothing() {
    let (desk, side, first) = forked();
    let own = side.user("own");
    desk.user("main");
    let nowhere = CommitId::from_bytes([9; 32]);
    assert_eq!(refused(&desk, &pick(&[])), Refusal::NoTargets);
    assert_eq!(refused(&desk, &drop_of(&[])), Refusal::NoTargets);
    assert_eq!(refused(&desk, &drop_of(&[own])), Refusal::NotInRange { target: own });
    assert_eq!(refused(&desk, &pick(&[first])), Refusal::NothingToPick);
    let before = desk.head();
    for rebase in [pick(&[nowhere]), Rebase::Onto { onto: nowhere, plan: None }] {
        assert!(matches!(run(&desk, &rebase), Err(Error::Collected { .. })));
    }
    assert_eq!(desk.head(), before);
    side.user("more");
    merge(&side, &desk);
    let merged = side.head().unwrap();
    let Refusal::Replay(list) = refused(&desk, &pick(&[merged])) else { panic!("a replay") };
    assert!(matches!(&list[0].1, Refusal::CannotReplay { op, .. } if op == "merge"));
}

/// The commits of a branch, newest first.
fn history(desk: &Fixture) -> Vec<CommitId> {
    let commits = block_on(desk.repo.store().walk_all(desk.repo.name(), desk.head().unwrap()));
    commits.unwrap().iter().map(|commit| commit.id()).collect()
}
