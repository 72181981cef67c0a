use tract_core::{
    AuthorKind, Blob, CallRef, Content, Draft, JsonText, Op, Part, Priority, Role, block_on,
};
use tract_engine::plan::Request;
use tract_engine::{Error, Refusal};

use crate::fixture::Fixture;

#[test]
fn a_result_binds_to_the_nearest_open_call() {
    let desk = Fixture::new();
    let first = desk.call("c1");
    desk.result("c1", "one");
    let second = desk.call("c1");
    let answer = desk.result("c1", "two");
    let Op::Append { answers, .. } = desk.commit(answer).op else { panic!("an append") };
    assert_eq!(answers, Some(CallRef { slot: second, index: 0 }));
    assert_ne!(first, second);
}

#[test]
fn results_of_one_message_answer_each_its_call_in_any_order() {
    let desk = Fixture::new();
    let call = desk.go(Draft::assistant("").call("a", "f", "{}").call("b", "g", "{}"));
    desk.result("b", "2");
    desk.result("a", "1");
    let answers: Vec<_> = desk.history().view().rows().filter_map(|row| row.answers).collect();
    assert_eq!(answers, [CallRef { slot: call, index: 1 }, CallRef { slot: call, index: 0 }]);
}

#[test]
fn a_result_without_a_call_is_refused_with_the_open_calls() {
    let desk = Fixture::new();
    let call = desk.call("c1");
    let refusal = desk.refused(Draft::tool_result("c9", "x"));
    let Refusal::NoOpenCall { call_id, open } = &refusal else { panic!("{refusal}") };
    assert_eq!(call_id, "c9");
    assert_eq!(open.len(), 1);
    let note = format!("open calls: \"c1\" grep ({})", call.short());
    assert_eq!(refusal.notes(), [note]);
    let answer = desk.result("c1", "ok");
    let refusal = desk.refused(Draft::tool_result("c1", "again"));
    assert_eq!(refusal, Refusal::AlreadyAnswered { call_id: "c1".into(), by: answer });
    assert_eq!(desk.refused(Draft::tool_result("c9", "x")).notes(), ["no call is open"]);
}

#[test]
fn an_import_keeps_orphans() {
    let desk = Fixture::new();
    desk.go(Request::Import(Draft::tool_result("gone", "late")));
    assert_eq!(desk.history().view().rows().next().unwrap().answers, None);
}

#[test]
fn a_call_far_back_is_found() {
    let desk = Fixture::new();
    let call = desk.call("c1");
    for n in 0..700 {
        desk.user(&n.to_string());
    }
    desk.result("c1", "late");
    let last = *desk.cold().history().view().rows().next_back().unwrap();
    assert_eq!(last.answers, Some(CallRef { slot: call, index: 0 }));
}

#[test]
fn any_version_names_its_message() {
    let desk = Fixture::new();
    let first = desk.user("one");
    let second = desk.edit(first, "two");
    let third = desk.edit(second, "three");
    desk.edit(first, "four");
    assert_eq!(desk.shown(), ["user: four"]);
    desk.mark(third, Priority::Skip);
    assert_eq!(desk.shown(), [""; 0]);
}

#[test]
fn an_edit_keeps_kind_role_calls_and_answer() {
    let desk = Fixture::new();
    let developer = desk.go(Draft { role: Some(Role::Developer), ..Draft::system("be brief") });
    desk.edit(developer, "be long");
    let call = desk.go(Draft::assistant("let me see").call("c1", "grep", "{}"));
    let answer = desk.go(Draft::tool_result("c1", "found").tool_name("grep").is_error(true));
    desk.edit(call, "searching");
    let other = Draft::tool_result("other", "found nothing");
    desk.go(Request::edit(answer, &other));
    let compiled = block_on(desk.repo.compile(desk.head())).unwrap();
    let answer = compiled.messages().last().unwrap();
    let Content::ToolResult(answer) = &answer.content else { panic!("a result") };
    assert_eq!((answer.call_id.as_str(), answer.is_error), ("c1", true));
    assert_eq!(answer.name.as_deref(), Some("grep"));
    assert_eq!(
        desk.shown(),
        ["developer: be long", "assistant: searching[c1]", "tool: found nothing"]
    );
}

#[test]
fn an_edit_of_another_kind_is_refused() {
    let desk = Fixture::new();
    let user = desk.user("hello");
    let refusal = desk.refused(Request::edit(user, &Draft::assistant("hello")));
    assert_eq!(refusal.code(), "other_kind");
    assert_eq!(
        refusal,
        Refusal::OtherKind { target: user, expected: "user".into(), found: "assistant".into() }
    );
}

#[test]
fn an_edit_that_changes_calls_is_refused() {
    let desk = Fixture::new();
    let call = desk.call("c1");
    // Before it is answered, arguments may change but no call may go.
    assert_eq!(desk.refused(Request::edit(call, &Draft::assistant("none"))).code(), "other_calls");
    let other = Draft::assistant("").call("c1", "grep", r#"{"pattern":"y"}"#);
    desk.go(Request::edit(call, &other));
    desk.result("c1", "y");
    let again = Draft::assistant("").call("c1", "grep", r#"{"pattern":"z"}"#);
    let refusal = desk.refused(Request::edit(call, &again));
    assert_eq!(refusal, Refusal::OtherCalls { target: call, calls: vec!["c1".into()] });
}

#[test]
fn edit_drops_verbatim() {
    let desk = Fixture::new();
    let mut draft = Draft::assistant("hi").part(Part::Reasoning {
        text: "hm".into(),
        signature: Some("sig".into()),
        encrypted: None,
    });
    draft.verbatim = Some(Blob::seal(r#"{"role":"assistant","content":"hi","x":1}"#));
    draft.form = Some("anthropic-1".into());
    let message = desk.go(draft);
    let mut follow = Draft::assistant("more");
    follow.joins_previous = true;
    let joined = desk.go(follow);
    let edited = desk.edit(message, "ho");
    let edit = desk.commit(edited);
    assert_eq!((edit.verbatim, edit.form.as_deref()), (None, None));
    let compiled = block_on(desk.repo.compile(desk.head())).unwrap();
    let first = compiled.messages().next().unwrap();
    assert_eq!(first.content, Content::assistant("ho"), "what was signed goes with the text");
    let second = desk.commit(desk.edit(joined, "less"));
    assert_eq!(second.joins, Some(message), "an edit copies joins");
}

#[test]
fn only_messages_can_be_edited() {
    let desk = Fixture::new();
    let user = desk.user("a");
    let mark = desk.mark(user, Priority::Pinned);
    let refusal = desk.refused(Request::edit_text(mark, "b"));
    assert_eq!(refusal, Refusal::NoMessage { target: mark, op: "annotate".into() });
    let elsewhere = desk.fork("side", user);
    let other = elsewhere.user("only there");
    let refusal = desk.refused(Request::edit_text(other, "b"));
    assert_eq!(refusal, Refusal::NotVisible { target: other, hidden_by: None });
    let unknown = tract_core::CommitId::from_bytes([7; 32]);
    let error = desk.try_do(Request::edit_text(unknown, "b")).unwrap_err();
    assert!(matches!(error, Error::Collected { .. }), "{error}");
}

#[test]
fn annotate_marks_many_at_once() {
    let desk = Fixture::new();
    let ids = [desk.user("a"), desk.says("b"), desk.user("c")];
    let edited = desk.edit(ids[1], "B");
    let marked = desk.go(Request::annotate([ids[0], ids[1], edited], Priority::Skip));
    let changes = block_on(desk.repo.changes(&desk.commit(marked))).unwrap();
    assert_eq!(changes.len(), 2, "each message once");
    assert_eq!(desk.shown(), ["user: c"]);
    assert_eq!(desk.refused(Request::annotate([], Priority::Skip)).code(), "no_targets");
}

#[test]
fn more_than_64_changes_are_in_a_blob() {
    let desk = Fixture::new();
    let ids: Vec<_> = (0..100).map(|n| desk.user(&n.to_string())).collect();
    let marked = desk.go(Request::annotate(ids.clone(), Priority::Skip));
    assert!(matches!(desk.commit(marked).changes, tract_core::Changes::Blob(_)));
    assert_eq!(desk.shown(), [""; 0]);
    let back = desk.cold();
    back.revert(&[marked]);
    assert_eq!(back.shown().len(), 100);
}

#[test]
fn a_note_leaves_no_row() {
    let desk = Fixture::new();
    desk.user("a");
    let json = JsonText::new(r#"{"step":1}"#).unwrap();
    let details =
        tract_engine::plan::Details { origin: AuthorKind::Tool.into(), ..Default::default() };
    let note = desk.go(Request::Note { content: Some(json), details });
    assert_eq!(desk.history().view().len(), 1);
    assert_eq!(desk.commit(note).op, Op::Note);
}

#[test]
fn a_session_slice_is_a_note_row_edited_in_place() {
    let desk = Fixture::new();
    let slice = desk.go(Draft::note(r#"{"n":1}"#).unwrap());
    desk.go(Request::edit(slice, &Draft::note(r#"{"n":2}"#).unwrap()));
    assert_eq!(desk.shown(), [""; 0], "no model sees it");
    assert_eq!(desk.history().view().len(), 1);
}

#[test]
fn a_batch_is_all_or_nothing() {
    let desk = Fixture::new();
    let drafts = [Draft::user("a"), Draft::tool_result("unasked", "b")];
    let error = block_on(desk.repo.append_all(&desk.branch, drafts)).unwrap_err();
    assert_eq!(error.code(), "no_open_call");
    assert_eq!(desk.head(), None);
    let drafts = [Draft::assistant("").call("c", "f", "{}"), Draft::tool_result("c", "b")];
    let commits = block_on(desk.repo.append_all(&desk.branch, drafts)).unwrap();
    assert_eq!(desk.head(), Some(commits[1].id()));
    assert!(commits[0].batch.is_some() && commits[0].batch == commits[1].batch);
    let dated = desk.commit(desk.go(Draft::user("then").at(1)));
    assert_eq!((dated.created_at, dated.batch), (Some(1), None));
}
