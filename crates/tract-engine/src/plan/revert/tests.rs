//! What a revert looks at grows with what it reverts, not with its square.

use std::sync::Arc;

use tract_core::{CommitId, Draft, RefName, block_on};

use super::super::visits;
use crate::plan::{Details, Request, Selection};
use crate::repo::{Repo, RepoOptions};
use crate::write::WriteOptions;

struct Desk {
    repo: Repo,
    branch: RefName,
}

impl Desk {
    fn new() -> Self {
        let repo = Repo::new(Arc::new(tract_core::memory()), RepoOptions::new());
        block_on(repo.init()).expect("a store in memory");
        Self { repo, branch: RefName::branch("main").expect("a name") }
    }

    fn write(&self, requests: Vec<Request>) -> Vec<CommitId> {
        let made = block_on(self.repo.write(&self.branch, requests, &WriteOptions::new()));
        made.expect("nothing is refused").iter().map(tract_core::Commit::id).collect()
    }

    fn go(&self, request: Request) -> CommitId {
        self.write(vec![request])[0]
    }

    /// Returns how much a revert looks at.
    fn visits_of_revert(&self, target: CommitId, cascade: bool) -> usize {
        visits::take();
        self.go(Request::Revert { targets: vec![target], cascade, details: Details::default() });
        visits::take()
    }
}

/// Four times the size: a quadratic cost would be sixteen times as large.
#[track_caller]
fn is_near_linear(visits: impl Fn(usize) -> usize, size: usize) {
    let (small, large) = (visits(size), visits(4 * size));
    assert!(small > size, "{small} for {size}: nothing is counted");
    assert!(large < 8 * small, "{small} for {size}, {large} for {}", 4 * size);
}

#[test]
fn a_revert_of_a_summary_looks_at_each_message_a_few_times() {
    let visits = |size: usize| {
        let desk = Desk::new();
        desk.write((0..size).map(|n| Draft::user(format!("{n}")).into()).collect());
        let all = Selection::Range { from: None, to: None };
        let summary = desk.go(Request::compress(all, "all"));
        desk.visits_of_revert(summary, false)
    };
    is_near_linear(visits, 1_000);
}

#[test]
fn a_cascade_through_edits_of_one_message_looks_at_each_a_few_times() {
    let visits = |size: usize| {
        let desk = Desk::new();
        let message = desk.go(Draft::user("0").into());
        let edit = |n: usize| Request::edit_text(message, format!("{n}"));
        let edits = desk.write((1..=size).map(edit).collect());
        desk.visits_of_revert(edits[0], true)
    };
    is_near_linear(visits, 100);
}

#[test]
fn a_cascade_through_summaries_of_summaries_looks_at_each_a_few_times() {
    let visits = |size: usize| {
        let desk = Desk::new();
        let message = desk.go(Draft::user("0").into());
        let mut summaries = vec![message];
        for n in 0..size {
            let newest = vec![summaries[n]];
            summaries.push(desk.go(Request::compress(Selection::Targets(newest), format!("{n}"))));
        }
        desk.visits_of_revert(summaries[1], true)
    };
    is_near_linear(visits, 100);
}

#[test]
fn a_cascade_to_many_answers_looks_at_each_a_few_times() {
    let visits = |size: usize| {
        let desk = Desk::new();
        let id = |n: usize| format!("c{n}");
        let calls = |draft: Draft, n: usize| draft.call(id(n), "grep", "{}");
        let call = desk.go((0..size).fold(Draft::assistant(""), calls).into());
        desk.write((0..size).map(|n| Draft::tool_result(id(n), "found").into()).collect());
        desk.visits_of_revert(call, true)
    };
    is_near_linear(visits, 100);
}
