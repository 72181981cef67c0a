use tract_core::{AuthorKind, Blob, Commit, CommitId, Content, Draft, Op, Priority, block_on};
use tract_engine::Refusal;
use tract_engine::plan::{Details, Request};

use crate::fixture::{Fixture, all, merge, sharing, tool};
use crate::support::is_clean;

fn cascade(desk: &Fixture, targets: &[CommitId]) -> Commit {
    let request =
        Request::Revert { targets: targets.to_vec(), cascade: true, details: Details::default() };
    desk.try_do(request).unwrap()
}

/// Checks that a commit is not reverted because of what another one did since.
#[track_caller]
fn superseded(desk: &Fixture, target: CommitId, by: CommitId) {
    let refusal = desk.refused(Request::revert([target]));
    assert_eq!(refusal, Refusal::Superseded { target, by: vec![by] });
}

#[test]
fn revert_head_restores() {
    let desk = Fixture::new();
    let a = desk.user("a");
    desk.call("c1");
    let b = desk.says("b");
    type Step = fn(&Fixture, tract_core::CommitId, tract_core::CommitId) -> tract_core::CommitId;
    let steps: [Step; 7] = [
        |desk, _, _| desk.user("new"),
        |desk, a, _| desk.edit(a, "A"),
        |desk, a, _| desk.mark(a, Priority::Skip),
        |desk, a, b| desk.compress(&[a, b], "ab"),
        |desk, _, _| desk.go(Request::tools([tool("grep", "finds")])),
        |desk, _, _| desk.result("c1", "found"),
        |desk, _, _| desk.go(Draft::user("x").tools(vec![tool("ls", "lists")]).unwrap()),
    ];
    for step in steps {
        let (before, tools) = (desk.view_id(), desk.tool_names());
        let done = step(&desk, a, b);
        let after = desk.view_id();
        let undone = desk.revert(&[done]);
        assert_eq!((desk.view_id(), desk.tool_names()), (before, tools));
        let again = desk.revert(&[undone]);
        assert_eq!(desk.view_id(), after, "revert_of_revert_restores");
        desk.revert(&[again]);
        assert_eq!(desk.view_id(), before);
    }
}

#[test]
fn revert_superseded_names_the_commit() {
    let desk = Fixture::new();
    let a = desk.user("a");
    let first = desk.edit(a, "b");
    let second = desk.edit(a, "c");
    let refusal = desk.refused(Request::revert([first]));
    assert_eq!(refusal, Refusal::Superseded { target: first, by: vec![second] });
    assert!(refusal.notes()[0].contains(&second.short()));
    // An append edited later.
    superseded(&desk, a, second);
    // A revert done already.
    let undone = desk.revert(&[second]);
    superseded(&desk, second, undone);
    let mark = desk.mark(a, Priority::Pinned);
    let remark = desk.mark(a, Priority::Skip);
    superseded(&desk, mark, remark);
}

#[test]
fn cascade_reverts_what_depends_on_it() {
    let desk = Fixture::new();
    let a = desk.user("a");
    let view = desk.view_id();
    let first = desk.edit(a, "b");
    let second = desk.edit(a, "c");
    let summary = desk.compress(&[a], "s");
    let fixed = desk.edit(summary, "t");
    let done = cascade(&desk, &[first]);
    let Op::Revert { targets, cascade: true } = &done.op else { panic!("a cascade") };
    assert_eq!(*targets, [fixed, summary, second, first], "newest first");
    assert_eq!(desk.view_id(), view);
}

#[test]
fn order_of_targets_does_not_matter() {
    let desk = Fixture::new();
    let a = desk.user("a");
    let before = desk.view_id();
    let edits = [desk.edit(a, "b"), desk.edit(a, "c"), desk.edit(a, "d")];
    desk.revert(&[edits[0], edits[2], edits[1]]);
    assert_eq!(desk.view_id(), before);
}

#[test]
fn an_old_edit_of_another_message_is_free() {
    let desk = Fixture::new();
    let a = desk.user("a");
    let edit = desk.edit(a, "A");
    let b = desk.says("b");
    desk.edit(b, "B");
    desk.mark(a, Priority::Important);
    desk.revert(&[edit]);
    assert_eq!(desk.shown(), ["user: a", "assistant: B"]);
    let history = desk.history();
    assert!(history.view().get(a).unwrap().mark.is_some(), "another field of it stays");
}

#[test]
fn a_call_with_answers_is_not_taken_from_under_them() {
    let desk = Fixture::new();
    let call = desk.call("c1");
    let answer = desk.result("c1", "found");
    superseded(&desk, call, answer);
    cascade(&desk, &[call]);
    assert_eq!(desk.shown(), [""; 0]);
}

#[test]
fn a_call_and_its_answer_are_reverted_together() {
    let desk = Fixture::new();
    let call = desk.call("c1");
    let answer = desk.result("c1", "found");
    desk.revert(&[call, answer]);
    assert_eq!(desk.history().view().len(), 0);
}

#[test]
fn sources_return_in_their_edited_version_and_place() {
    let desk = Fixture::new();
    desk.user("a");
    let b = desk.says("b");
    desk.user("c");
    desk.edit(b, "B");
    let summary = desk.compress(&[b], "s");
    desk.user("d");
    desk.revert(&[summary]);
    assert_eq!(desk.shown(), ["user: a", "assistant: B", "user: c", "user: d"]);
}

#[test]
fn a_commit_of_another_line_is_not_visible() {
    let (desk, side, _) = sharing("a");
    let other = side.user("there");
    let refusal = desk.refused(Request::revert([other]));
    assert_eq!(refusal, Refusal::NotVisible { target: other, hidden_by: None });
    assert_eq!(desk.refused(Request::revert([])).code(), "no_targets");
}

#[test]
fn revert_of_a_changed_result_is_an_edit_back_to_the_original() {
    let desk = Fixture::new();
    desk.call("c1");
    let original = Content::tool_result("c1", "a very long listing");
    let kept = Blob::seal(original.to_blob().unwrap());
    let mut draft = Draft::tool_result("c1", "short").origin(AuthorKind::Hook);
    draft.keeps = vec![kept];
    let result = desk.go(draft);
    let done = desk.revert(&[result]);
    assert_eq!(desk.commit(done).op, Op::Edit { target: result });
    assert_eq!(desk.shown().last().unwrap(), "tool: a very long listing");
    desk.revert(&[done]);
    assert_eq!(desk.shown().last().unwrap(), "tool: short");
}

#[test]
fn tools_that_were_replaced_are_not_reverted() {
    let desk = Fixture::new();
    desk.user("a");
    let first = desk.go(Request::tools([tool("one", "1")]));
    let second = desk.go(Request::tools([tool("two", "2")]));
    superseded(&desk, first, second);
    desk.revert(&[second]);
    assert_eq!(desk.tool_names(), ["one"]);
}

#[test]
fn a_merge_is_reverted_whole() {
    let (desk, side, a) = sharing("a");
    side.user("there");
    side.edit(a, "A");
    desk.says("here");
    let before = desk.view_id();
    let merged = merge(&desk, &side);
    assert_eq!(desk.shown(), ["user: A", "assistant: here", "user: there"]);
    desk.revert(&[merged.id()]);
    assert_eq!(desk.view_id(), before, "merge_then_revert_is_ours");
}

#[test]
fn an_answer_does_not_come_back_without_its_call_or_next_to_another() {
    let desk = Fixture::new();
    let call = desk.call("c1");
    let answer = desk.result("c1", "one");
    let back = desk.revert(&[answer]);
    let other = desk.result("c1", "two");
    superseded(&desk, back, other);
    desk.revert(&[other]);
    let gone = desk.revert(&[call]);
    superseded(&desk, back, gone);
    cascade(&desk, &[back]);
    assert_eq!(desk.shown(), ["assistant: [c1]", "tool: one"]);
}

#[test]
fn a_summary_of_many_messages_and_answers_is_reverted_to_what_it_replaced() {
    let desk = Fixture::new();
    let mut requests: Vec<Request> = Vec::new();
    for n in 0..2000 {
        let id = format!("c{n}");
        requests.push(Draft::assistant("").call(id.as_str(), "grep", "{}").into());
        requests.push(Draft::tool_result(id.as_str(), format!("{n}")).into());
    }
    let options = tract_engine::WriteOptions::default();
    block_on(desk.repo.write(&desk.branch, &requests, &options)).unwrap();
    let before = desk.view_id();
    let summary = desk.go(Request::compress(all(), "all of it"));
    assert_eq!(desk.shown(), ["assistant: all of it"]);
    desk.revert(&[summary]);
    assert_eq!(desk.view_id(), before);
    is_clean(&desk.repo);
}

#[test]
fn targets_are_reverted_in_the_order_in_which_they_come_free() {
    let desk = Fixture::new();
    let a = desk.user("0");
    let edits: Vec<CommitId> = (1..40).map(|n| desk.edit(a, &n.to_string())).collect();
    // Oldest first: each is blocked by the one after it, until that is reverted.
    let revert = desk.revert(&edits);
    assert_eq!(desk.shown(), ["user: 0"]);
    let Op::Revert { targets, .. } = &desk.commit(revert).op else { panic!("a revert") };
    assert!(targets.iter().eq(edits.iter().rev()), "newest first");
}
