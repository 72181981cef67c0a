//! An edit that is decided later than it was asked for replaces nothing that came in between.

use tract_core::{CommitId, Draft, Priority, block_on};
use tract_engine::plan::Request;
use tract_engine::{Error, Refusal};
use tract_hooks::{BeforeCommit, CommitAction, Hooks};

use crate::fixture::Fixture;

/// Asks for an edit that a handler defers; gives the name of what waits.
fn deferred(desk: &Fixture, target: CommitId, text: &str) -> String {
    write_deferred(desk, Request::edit_text(target, text))
}

fn write_deferred(desk: &Fixture, request: Request) -> String {
    let ask = |_: &BeforeCommit| CommitAction::Defer("a person decides".into());
    let asking = desk.repo.with_hooks(Hooks::new().on("ask", ask));
    match block_on(asking.write_one(&desk.branch, request)) {
        Err(Error::Deferred(deferred)) => deferred.id,
        other => panic!("expected that it is deferred, found {other:?}"),
    }
}

#[track_caller]
fn is_refused(desk: &Fixture, id: &str, target: CommitId, version: CommitId) {
    let before = desk.head();
    for decided in [
        block_on(desk.repo.approve(id)),
        block_on(desk.repo.edit_pending(id, "another text")),
        block_on(desk.cold().repo.approve(id)),
    ] {
        match decided {
            Err(Error::Refused(refusal)) => {
                assert_eq!(refusal, Refusal::ChangedSince { target, version });
                assert!(refusal.to_string().contains(&version.short()), "{refusal}");
                assert_eq!(refusal.code(), "changed_since");
            }
            other => panic!("expected a refusal, found {other:?}"),
        }
    }
    assert_eq!(desk.head(), before);
    assert_eq!(block_on(desk.repo.pending()).unwrap().len(), 1, "it still waits");
}

#[test]
fn an_edit_that_came_between_is_not_replaced_by_one_that_is_approved_later() {
    let desk = Fixture::new();
    let a = desk.user("a");
    let first = desk.edit(a, "a, first");
    for target in [a, first] {
        let id = deferred(&desk, target, "a, deferred");
        let between = desk.edit(a, "a, corrected");
        is_refused(&desk, &id, target, between);
        assert_eq!(desk.shown(), ["user: a, corrected"]);
        // Where the message says again what it said, the edit is what was asked for.
        desk.revert(&[between]);
        block_on(desk.repo.approve(&id)).unwrap();
        assert_eq!(desk.shown(), ["user: a, deferred"]);
        let approved = desk.head().unwrap();
        desk.revert(&[approved]);
    }
}

#[test]
fn an_edit_that_was_reverted_meanwhile_is_not_edited_on() {
    let desk = Fixture::new();
    let a = desk.user("a");
    let edit = desk.edit(a, "a, first");
    let id = deferred(&desk, edit, "a, first and more");
    desk.revert(&[edit]);
    is_refused(&desk, &id, edit, a);
    block_on(desk.repo.reject(&id, "too late")).unwrap();
    assert_eq!(desk.shown(), ["user: a"]);
}

#[test]
fn a_change_of_priority_does_not_invalidate_a_deferred_edit() {
    let desk = Fixture::new();
    let a = desk.user("a");
    let id = deferred(&desk, a, "a, deferred");
    desk.mark(a, Priority::Pinned);
    let b = desk.user("b");
    desk.edit(b, "b, corrected");
    block_on(desk.repo.approve(&id)).unwrap();
    assert_eq!(desk.shown(), ["user: a, deferred", "user: b, corrected"]);
    assert!(desk.history().view().get(a).unwrap().mark.is_some(), "it is still pinned");
}

#[test]
fn an_edit_deferred_within_a_larger_write_replaces_the_version_that_it_names() {
    let desk = Fixture::new();
    let a = desk.user("a");
    let hooks = Hooks::new().on("ask", |commit: &BeforeCommit| {
        match commit.draft.content.text().as_str() {
            "second" => CommitAction::Defer("a person decides".into()),
            _ => CommitAction::Pass,
        }
    });
    let asking = desk.repo.with_hooks(hooks);
    let requests = vec![Draft::user("b").into(), Request::edit_text(a, "second")];
    let options = tract_engine::WriteOptions::default();
    let error = block_on(asking.write(&desk.branch, requests, &options)).unwrap_err();
    let Error::Deferred(deferred) = error else { panic!("{error:?}") };
    block_on(desk.repo.approve(&deferred.id)).unwrap();
    assert_eq!(desk.shown(), ["user: second"]);
}

#[test]
fn an_edit_that_is_made_while_a_handler_decides_on_another_is_not_replaced() {
    let desk = Fixture::new();
    let a = desk.user("a");
    let (writer, branch) = (desk.repo.clone(), desk.branch.clone());
    let hooks = Hooks::new().on("slow", move |_: &BeforeCommit| {
        block_on(writer.edit(&branch, a, "a, meanwhile")).unwrap();
        CommitAction::Approve
    });
    let asking = desk.repo.with_hooks(hooks);
    match block_on(asking.edit(&desk.branch, a, "a, decided")) {
        Err(Error::Refused(Refusal::ChangedSince { target, version })) => {
            assert_eq!((target, Some(version)), (a, desk.head()));
        }
        other => panic!("expected a refusal, found {other:?}"),
    }
    assert_eq!(desk.shown(), ["user: a, meanwhile"]);
}

#[test]
fn a_deferred_message_joins_the_one_that_it_was_asked_after_and_no_other() {
    for between in [false, true] {
        let desk = Fixture::new();
        let a = desk.says("a");
        let mut draft = Draft::assistant("and more of it");
        draft.joins_previous = true;
        let id = write_deferred(&desk, draft.into());
        if between {
            desk.says("b");
        }
        block_on(desk.repo.approve(&id)).unwrap();
        let head = desk.head().unwrap();
        let approved = block_on(desk.repo.commit(head)).unwrap().unwrap();
        let joined = if between { None } else { Some(a) };
        assert_eq!(approved.record().joins, joined, "another message came between: {between}");
    }
}
