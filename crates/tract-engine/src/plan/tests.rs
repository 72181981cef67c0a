//! The fixture of tests that bound the work of planners.

use std::sync::Arc;

use tract_core::{CommitId, RefName, block_on};

use super::Request;
use crate::repo::{Repo, RepoOptions};
use crate::write::txn::WriteOptions;

/// A repository in memory, and the branch that a test works on.
pub(super) struct Fixture {
    pub(super) repo: Repo,
    pub(super) branch: RefName,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let repo = Repo::new(Arc::new(tract_kv::memory()), RepoOptions::default());
        block_on(repo.init()).expect("a store in memory");
        Self { repo, branch: RefName::branch("main").expect("a name") }
    }

    pub(super) fn write(&self, requests: Vec<Request>) -> Vec<CommitId> {
        let made = block_on(self.repo.write(&self.branch, requests, &WriteOptions::default()));
        made.expect("nothing is refused").iter().map(tract_core::Commit::id).collect()
    }

    pub(super) fn go(&self, request: Request) -> CommitId {
        self.write(vec![request])[0]
    }
}

/// Runs four times the size: a quadratic cost would be sixteen times as large.
#[track_caller]
pub(super) fn is_near_linear(visits: impl Fn(usize) -> usize, size: usize) {
    let (small, large) = (visits(size), visits(4 * size));
    assert!(small > size, "{small} for {size}: nothing is counted");
    assert!(large < 8 * small, "{small} for {size}, {large} for {}", 4 * size);
}
