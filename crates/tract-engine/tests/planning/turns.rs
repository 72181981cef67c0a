//! Tool turns: what queries find, and whether the index says what the commits say.

// The index against the walk and the view, on random histories.
mod random;

// What comes from elsewhere is indexed, too.
mod imports;

// What queries find where ids repeat, results come late, and edits come after.
mod queries;

use tract_core::{Commit, CommitId, DerivedKind, StoreExt as _, block_on};
use tract_engine::{Repo, RepoOptions, ToolQuery, ToolTurn};

use crate::fixture::Fixture;

/// A repository with a row of the turn index after so many commits.
fn indexed(every: u64) -> Fixture {
    Fixture::with(RepoOptions { turn_rows_every: every, ..RepoOptions::default() })
}

/// The turns of a line, oldest first; also those under summaries where they are asked for.
fn turns(repo: &Repo, head: Option<CommitId>, query: &ToolQuery) -> Vec<ToolTurn> {
    block_on(repo.find_tool_turns(head, query)).unwrap().collect()
}

/// How many rows the turn index has on a line.
fn rows(repo: &Repo, head: Option<CommitId>) -> usize {
    let Some(head) = head else { return 0 };
    let commits = block_on(repo.store().walk_all(repo.name(), head)).unwrap();
    let ids: Vec<_> = commits.iter().map(Commit::id).collect();
    let found = block_on(repo.store().derived(repo.name(), DerivedKind::Turn, &ids)).unwrap();
    found.into_iter().flatten().count()
}
