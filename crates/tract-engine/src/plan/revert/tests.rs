//! The work of a revert grows with the number of reverted changes, not with its square.

use tract_core::{CommitId, Draft};
use tract_testkit::visits;

use super::super::tests::{Fixture, is_near_linear};
use crate::plan::{Details, Request, Selection};

/// Checks that reverting what `make` builds visits each message a few times.
#[track_caller]
fn is_cheap(size: usize, cascade: bool, make: impl Fn(&Fixture, usize) -> CommitId) {
    let visits = |size: usize| {
        let desk = Fixture::new();
        let targets = vec![make(&desk, size)];
        visits::take();
        desk.go(Request::Revert { targets, cascade, details: Details::default() });
        visits::take()
    };
    is_near_linear(visits, size);
}

#[test]
fn a_revert_of_a_summary_looks_at_each_message_a_few_times() {
    is_cheap(1_000, false, |desk, size| {
        desk.write((0..size).map(|n| Draft::user(format!("{n}")).into()).collect());
        let all = Selection::Range { from: None, to: None };
        desk.go(Request::compress(all, "all"))
    });
}

#[test]
fn a_cascade_through_edits_of_one_message_looks_at_each_a_few_times() {
    is_cheap(100, true, |desk, size| {
        let message = desk.go(Draft::user("0").into());
        let edit = |n: usize| Request::edit_text(message, format!("{n}"));
        let edits = desk.write((1..=size).map(edit).collect());
        edits[0]
    });
}

#[test]
fn a_cascade_through_summaries_of_summaries_looks_at_each_a_few_times() {
    is_cheap(100, true, |desk, size| {
        let message = desk.go(Draft::user("0").into());
        let mut summaries = vec![message];
        for n in 0..size {
            let newest = vec![summaries[n]];
            summaries.push(desk.go(Request::compress(Selection::Targets(newest), format!("{n}"))));
        }
        summaries[1]
    });
}

#[test]
fn a_cascade_to_many_answers_looks_at_each_a_few_times() {
    is_cheap(100, true, |desk, size| {
        let id = |n: usize| format!("c{n}");
        let calls = |draft: Draft, n: usize| draft.call(id(n), "grep", "{}");
        let call = desk.go((0..size).fold(Draft::assistant(""), calls).into());
        desk.write((0..size).map(|n| Draft::tool_result(id(n), "found").into()).collect());
        call
    });
}
