//! Tool turns: what queries find, and whether the index says what the commits say.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

// Repositories, and what tests ask of them.
#[path = "../support/mod.rs"]
mod support;

// The index against the walk and the view, on random histories.
mod random;

// What comes from elsewhere is indexed, too.
mod imports;

// What queries find where ids repeat, results come late, and edits come after.
mod queries;

use std::sync::Arc;

use tract_core::{Commit, CommitId, Draft, RefName, block_on};
use tract_engine::plan::Request;
use tract_engine::{Repo, RepoOptions};
use tract_kv::memory;

/// A repository with a row of the turn index after so many commits.
pub(crate) fn repo(every: u64) -> Repo {
    let repo = Repo::new(Arc::new(memory()), RepoOptions::new().turn_rows_every(every));
    block_on(repo.init()).unwrap();
    repo
}

/// The same store, read by a handle that has cached nothing.
pub(crate) fn cold(repo: &Repo) -> Repo {
    Repo::new(Arc::clone(repo.store()), RepoOptions::new())
}

pub(crate) fn main_branch() -> RefName {
    RefName::branch("main").unwrap()
}

pub(crate) fn add(repo: &Repo, draft: Draft) -> CommitId {
    block_on(repo.append(&main_branch(), draft)).unwrap().id()
}

pub(crate) fn go(repo: &Repo, request: Request) -> Commit {
    block_on(repo.write_one(&main_branch(), request)).unwrap()
}

pub(crate) fn head(repo: &Repo) -> Option<CommitId> {
    block_on(repo.head_of(&main_branch())).unwrap()
}

/// How many rows the turn index has on a line.
pub(crate) fn rows(repo: &Repo, head: Option<CommitId>) -> usize {
    let (mut ids, mut next) = (Vec::new(), head);
    while let Some(id) = next {
        ids.push(id);
        next = block_on(repo.require_commit(id)).unwrap().parent();
    }
    let kind = tract_core::DerivedKind::Turn;
    let found = block_on(repo.store().derived(repo.name(), kind, &ids)).unwrap();
    found.into_iter().flatten().count()
}
