use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tract_core::{Commit, CommitId, Draft, Op, Priority, block_on};
use tract_engine::plan::{ConflictKind, Request, Selection};
use tract_engine::{Error, MergeOptions, Merged, Refusal};
use tract_hooks::{BeforeMerge, Hooks, MergeAction};

use crate::fixture::{Fixture, forked, merge, tool, try_merge};

#[track_caller]
fn conflicts(desk: &Fixture, side: &Fixture) -> Vec<(ConflictKind, Option<CommitId>)> {
    let before = desk.head();
    match try_merge(desk, side) {
        Err(Error::Refused(Refusal::Conflicts(conflicts))) => {
            assert_eq!(desk.head(), before);
            let notes = Refusal::Conflicts(conflicts.clone()).notes();
            assert!(notes.len() > conflicts.len(), "each is named, and the way out");
            conflicts.into_iter().map(|conflict| (conflict.kind, conflict.slot)).collect()
        }
        other => panic!("expected conflicts, found {other:?}"),
    }
}

#[test]
fn fast_forward_and_nothing_to_merge() {
    let (desk, side, _) = forked();
    assert_eq!(try_merge(&desk, &side).unwrap(), Merged::NothingToMerge);
    let head = side.user("d");
    assert_eq!(try_merge(&desk, &side).unwrap(), Merged::FastForward { head });
    assert_eq!(desk.head(), Some(head));
    assert_eq!(try_merge(&desk, &side).unwrap(), Merged::NothingToMerge);
    desk.user("e");
    assert_eq!(try_merge(&desk, &side).unwrap(), Merged::NothingToMerge);
    let new = desk.on("new");
    assert_eq!(try_merge(&new, &side).unwrap(), Merged::FastForward { head });
}

#[test]
fn a_merge_commit_is_made_where_it_is_asked_for() {
    let (desk, side, _) = forked();
    side.user("d");
    let source = side.head().unwrap();
    let options = MergeOptions { no_fast_forward: true, ..MergeOptions::default() };
    let merged = block_on(desk.repo.merge(&desk.branch, source, &options)).unwrap();
    let Merged::Commit(commit) = merged else { panic!("a commit") };
    assert_eq!(commit.parents.len(), 2);
    assert_eq!(commit.op, Op::Merge { sources: vec![source] });
    assert_eq!(desk.view_id(), side.view_id());
}

#[test]
fn a_change_of_one_side_is_merged() {
    let (desk, side, [a, b, c]) = forked();
    desk.edit(a, "A");
    desk.user("ours");
    side.mark(b, Priority::Skip);
    side.revert(&[c]);
    side.user("theirs");
    merge(&desk, &side);
    assert_eq!(desk.shown(), ["user: A", "user: ours", "user: theirs"]);
    // An edit and an annotation of one message are two fields.
    let (desk, side, [a, ..]) = forked();
    desk.edit(a, "A");
    side.mark(a, Priority::Pinned);
    merge(&desk, &side);
    let row = *desk.history().view().get(a).unwrap();
    assert!(row.mark.is_some() && row.version != a);
}

#[test]
fn both_edited_is_a_conflict_unless_they_say_the_same() {
    let (desk, side, [a, b, _]) = forked();
    desk.edit(a, "same");
    side.edit(a, "same");
    desk.edit(b, "ours");
    side.edit(b, "theirs");
    assert_eq!(conflicts(&desk, &side), [(ConflictKind::Version, Some(b))]);
    side.edit(b, "ours");
    merge(&desk, &side);
    assert_eq!(desk.shown(), ["user: same", "assistant: ours", "user: c"]);
}

#[test]
fn both_annotated_is_a_conflict_unless_they_say_the_same() {
    let (desk, side, [a, b, _]) = forked();
    desk.mark(a, Priority::Skip);
    side.mark(a, Priority::Skip);
    desk.mark(b, Priority::Skip);
    side.mark(b, Priority::Pinned);
    assert_eq!(conflicts(&desk, &side), [(ConflictKind::Mark, Some(b))]);
}

#[test]
fn removed_here_and_edited_there_is_a_conflict() {
    let (desk, side, [_, _, c]) = forked();
    desk.revert(&[c]);
    side.edit(c, "C");
    assert_eq!(conflicts(&desk, &side), [(ConflictKind::Presence, Some(c))]);
    assert_eq!(conflicts(&side, &desk), [(ConflictKind::Presence, Some(c))]);
}

#[test]
fn both_compressed_shows_text_once() {
    let (desk, side, [a, b, c]) = forked();
    desk.compress(&[a, b], "ab");
    let theirs = side.compress(&[b, c], "bc");
    assert_eq!(conflicts(&desk, &side), [(ConflictKind::Summary, Some(theirs))]);
    assert_eq!(desk.shown(), ["assistant: ab", "user: c"]);
    // The same range with the same words is one summary.
    let (desk, side, [a, b, _]) = forked();
    desk.compress(&[a, b], "ab");
    side.compress(&[a, b], "ab");
    side.user("d");
    merge(&desk, &side);
    assert_eq!(desk.shown(), ["assistant: ab", "user: c", "user: d"]);
}

#[test]
fn a_summary_comes_whole_at_its_first_source() {
    let (desk, side, [a, b, _]) = forked();
    desk.user("ours");
    let inner = side.compress(&[b], "b.");
    side.compress(&[a, inner], "ab");
    side.user("theirs");
    merge(&desk, &side);
    assert_eq!(desk.shown(), ["assistant: ab", "user: c", "user: ours", "user: theirs"]);
}

#[test]
fn compress_on_one_side_and_an_edit_of_a_source_on_the_other_conflict() {
    let (desk, side, [a, b, _]) = forked();
    desk.edit(b, "B");
    side.compress(&[a, b], "ab");
    assert_eq!(conflicts(&desk, &side), [(ConflictKind::Summary, Some(b))]);
    assert_eq!(conflicts(&side, &desk), [(ConflictKind::Presence, Some(b))]);
    let (desk, side, [a, b, _]) = forked();
    desk.mark(a, Priority::Pinned);
    side.compress(&[a, b], "ab");
    assert_eq!(conflicts(&desk, &side), [(ConflictKind::Summary, Some(a))]);
}

#[test]
fn a_summary_reverted_there_gives_its_sources_their_places() {
    let desk = Fixture::new();
    let a = desk.user("a");
    let b = desk.says("b");
    desk.user("c");
    let summary = desk.compress(&[a, b], "ab");
    let side = desk.fork("side", desk.head().unwrap());
    desk.user("d");
    side.revert(&[summary]);
    merge(&desk, &side);
    assert_eq!(desk.shown(), ["user: a", "assistant: b", "user: c", "user: d"]);
}

/// Two branches that answered one call; the call, and both answers.
fn answered(ours: &str, theirs: &str) -> (Fixture, Fixture, [CommitId; 3]) {
    let desk = Fixture::new();
    let call = desk.call("c1");
    let side = desk.fork("side", call);
    let ids = [call, desk.result("c1", ours), side.result("c1", theirs)];
    (desk, side, ids)
}

#[test]
fn both_answered_one_call() {
    let (desk, side, [call, ..]) = answered("ours", "theirs");
    assert_eq!(conflicts(&desk, &side), [(ConflictKind::Answer, Some(call))]);
    // Alike on both is kept, once.
    let (desk, side, _) = answered("same", "same");
    side.user("continue");
    merge(&desk, &side);
    assert_eq!(desk.shown(), ["assistant: [c1]", "tool: same", "user: continue"]);
}

#[test]
fn answered_here_and_taken_away_there_is_a_conflict() {
    let desk = Fixture::new();
    desk.user("a");
    let call = desk.call("c1");
    let side = desk.fork("side", call);
    desk.result("c1", "ours");
    side.revert(&[call]);
    assert_eq!(conflicts(&desk, &side), [(ConflictKind::Answer, Some(call))]);
    assert_eq!(conflicts(&side, &desk), [(ConflictKind::Answer, Some(call))]);
}

#[test]
fn tools_are_merged_by_what_they_are() {
    let (desk, side, _) = forked();
    desk.user("x");
    side.go(Request::tools([tool("grep", "finds")]));
    merge(&desk, &side);
    assert_eq!(desk.tool_names(), ["grep"]);
    desk.go(Request::tools([tool("grep", "finds"), tool("ls", "lists")]));
    side.go(Request::tools([tool("cat", "prints")]));
    assert_eq!(conflicts(&desk, &side), [(ConflictKind::Tools, None)]);
    side.go(Request::tools([tool("grep", "finds"), tool("ls", "lists")]));
    merge(&desk, &side);
    assert_eq!(desk.tool_names(), ["grep", "ls"]);
}

#[test]
fn a_merge_adds_no_message() {
    let (desk, side, _) = forked();
    desk.user("d");
    side.mark(side.head().unwrap(), Priority::Important);
    let shown = desk.shown();
    merge(&desk, &side);
    assert_eq!(desk.shown(), shown);
}

#[test]
fn merge_then_revert_then_merge_leaves_their_rows_out() {
    let (desk, side, _) = forked();
    desk.user("ours");
    side.user("theirs");
    let merged = merge(&desk, &side);
    desk.revert(&[merged.id()]);
    assert_eq!(try_merge(&desk, &side).unwrap(), Merged::NothingToMerge);
    side.user("more");
    merge(&desk, &side);
    assert_eq!(desk.shown(), ["user: a", "assistant: b", "user: c", "user: ours", "user: more"]);
}

#[test]
fn criss_cross_is_conservative() {
    let (desk, side, [a, ..]) = forked();
    desk.edit(a, "ours");
    side.user("d");
    let (left, right) = (desk.head().unwrap(), side.head().unwrap());
    // Both merge the other one's head: two best common ancestors, which differ on `a`.
    merge(&desk, &side);
    block_on(side.repo.merge(&side.branch, left, &MergeOptions::default())).unwrap();
    desk.edit(a, "once");
    side.edit(a, "twice");
    assert_eq!(conflicts(&desk, &side), [(ConflictKind::Version, Some(a))]);
    // Where the bases differ, even what only one side changed since counts as changed on both.
    let again = side.fork("again", right);
    block_on(again.repo.merge(&again.branch, left, &MergeOptions::default())).unwrap();
    let back = again.edit(a, "a");
    assert_eq!(conflicts(&desk, &again), [(ConflictKind::Version, Some(a))]);
    assert!(back != left);
    // And what says the same on both is not a conflict, regardless of the bases.
    again.edit(a, "once");
    merge(&desk, &again);
    assert_eq!(desk.shown(), ["user: once", "assistant: b", "user: c", "user: d"]);
}

#[test]
fn merge_result_does_not_depend_on_planner() {
    // What a merge did is in its record: folding it asks no handler, and reads no other line.
    let (desk, side, [a, ..]) = forked();
    desk.edit(a, "A");
    side.user("theirs");
    let merged = merge(&desk, &side);
    let base = block_on(desk.repo.fold(merged.parent())).unwrap();
    let changes = block_on(desk.repo.changes(&merged)).unwrap();
    let folded = tract_compile::fold(base.view(), &merged, &changes).unwrap();
    assert_eq!(folded, *desk.history().view());
    // Another planner's merge of the same heads folds as well, and to what it says.
    let mut record = merged.record().clone();
    record.changes = tract_core::Changes::List(Vec::new());
    let other = Commit::seal(record).unwrap();
    let folded = tract_compile::fold(base.view(), &other, &[]).unwrap();
    assert_eq!(folded, *base.view());
}

#[test]
fn edit_after_merge_is_judged_from_the_old_side_head() {
    let (desk, side, [a, ..]) = forked();
    side.user("theirs");
    desk.user("ours");
    merge(&desk, &side);
    side.edit(a, "A");
    merge(&desk, &side);
    assert_eq!(desk.shown(), ["user: A", "assistant: b", "user: c", "user: ours", "user: theirs"]);
}

#[test]
fn revert_of_a_commit_that_came_by_merge() {
    let (desk, side, [a, ..]) = forked();
    desk.user("ours");
    let there = side.user("theirs");
    let edit = side.edit(a, "A");
    merge(&desk, &side);
    desk.revert(&[edit]);
    desk.revert(&[there]);
    assert_eq!(desk.shown(), ["user: a", "assistant: b", "user: c", "user: ours"]);
}

#[test]
fn a_message_hidden_by_a_merged_summary_names_it() {
    let (desk, side, [a, b, _]) = forked();
    desk.user("ours");
    let summary = side.compress(&[a, b], "ab");
    merge(&desk, &side);
    let refusal = desk.refused(Request::edit_text(a, "x"));
    assert_eq!(refusal, Refusal::NotVisible { target: a, hidden_by: Some(summary) });
    // Taking back their summary gives our rows their old places.
    desk.revert(&[summary]);
    assert_eq!(desk.shown(), ["user: a", "assistant: b", "user: c", "user: ours"]);
}

#[test]
fn long_lines_are_merged_over_their_fork() {
    let desk = Fixture::new();
    for n in 0..300 {
        desk.user(&n.to_string());
    }
    let side = desk.fork("side", desk.head().unwrap());
    for n in 0..200 {
        desk.go(Draft::assistant(n.to_string()));
        side.user(&n.to_string());
    }
    merge(&desk, &side.cold());
    assert_eq!(desk.shown().len(), 700);
}

#[track_caller]
fn are_pinned(desk: &Fixture, targets: Vec<CommitId>) {
    let refusal = desk.refused(Request::compress(Selection::Targets(targets), "t"));
    assert!(matches!(refusal, Refusal::NothingLeft { .. }), "it is pinned: {refusal}");
}

#[test]
fn a_pin_on_one_of_two_equal_summaries_survives_their_merge() {
    let (desk, side, ids) = forked();
    let ours = desk.compress(&ids[..2], "s");
    let theirs = side.compress(&ids[..2], "s");
    assert_ne!(ours, theirs);
    side.mark(theirs, Priority::Pinned);
    merge(&desk, &side);
    are_pinned(&desk, vec![ours]);
    // Set to different priorities on both sides: a choice is needed.
    let (desk, side, ids) = forked();
    let ours = desk.compress(&ids[..2], "s");
    desk.mark(ours, Priority::Important);
    let theirs = side.compress(&ids[..2], "s");
    side.mark(theirs, Priority::Pinned);
    assert_eq!(conflicts(&desk, &side), [(ConflictKind::Mark, Some(ours))]);
}

#[test]
fn a_pin_on_one_of_two_equal_results_survives_their_merge() {
    let (desk, side, [call, ours, theirs]) = answered("same", "same");
    assert_ne!(ours, theirs);
    side.mark(theirs, Priority::Pinned);
    merge(&desk, &side);
    are_pinned(&desk, vec![call, ours]);
}

#[test]
fn tools_that_a_merge_brings_in_come_back_after_those_of_one_commit() {
    let (desk, side, _) = forked();
    side.go(Request::tools(vec![tool("theirs", "t")]));
    desk.user("d");
    merge(&desk, &side);
    assert_eq!(desk.tool_names(), ["theirs"]);
    desk.go(Draft::user("once").tools(vec![tool("once", "o")]).unwrap());
    assert_eq!(desk.tool_names(), ["once"]);
    desk.user("after");
    assert_eq!(desk.tool_names(), ["theirs"]);
    // A handle that has nothing cached plans the same.
    desk.go(Draft::user("once more").tools(vec![tool("once", "o")]).unwrap());
    desk.cold().user("after that");
    assert_eq!(desk.tool_names(), ["theirs"]);
}

#[test]
fn handlers_are_asked_about_a_merge_once_however_often_the_race_is_lost() {
    let (desk, side, _) = forked();
    side.user("d");
    desk.user("e");
    let questions = Arc::new(AtomicUsize::new(0));
    let (count, other) = (Arc::clone(&questions), desk.cold());
    let hooks = Hooks::new().on("slow", move |_: &BeforeMerge| {
        count.fetch_add(1, Ordering::SeqCst);
        // The branch moves while the handler thinks.
        other.user("meanwhile");
        MergeAction::Approve
    });
    let repo = desk.repo.with_hooks(hooks);
    let source = side.head().unwrap();
    let merged = block_on(repo.merge(&desk.branch, source, &MergeOptions::default())).unwrap();
    assert!(matches!(merged, Merged::Commit(_)), "{merged:?}");
    assert_eq!(questions.load(Ordering::SeqCst), 1);
    assert_eq!(desk.shown().last().unwrap(), "user: d");
}
