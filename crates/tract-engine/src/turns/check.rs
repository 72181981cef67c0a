//! Whether rows of the turn index say what their lines say, compared along a line.

use tract_core::{Commit, CommitId};

use super::entry::{LoadedObjects, TurnEntry, entries};
use super::index::{counted, same};
use super::row::TurnRow;
use crate::error::Result;
use crate::repo::Repo;

/// What a line said of tool turns since the last row that has entries.
///
/// Rows of one line are compared in the order of their commits, so that each costs what was said
/// since the one before and no row is traced back to the root.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnsSinceRow {
    /// The nearest earlier commit whose row has entries; `None` before the first.
    row: Option<CommitId>,
    entries: Vec<TurnEntry>,
}

impl TurnsSinceRow {
    /// Adds what a commit says.
    pub(crate) fn add(&mut self, entries: Vec<TurnEntry>) {
        self.entries.extend(entries);
    }
}

/// Reads what each of these commits says of tool turns.
pub(crate) async fn entries_of(repo: &Repo, commits: &[Commit]) -> Result<Vec<Vec<TurnEntry>>> {
    entries(repo, commits, &mut LoadedObjects::default()).await
}

/// Whether the row at a commit says what its line says. `since` is what the line said before that
/// commit and at it, where that is known; afterwards it counts from this row on.
pub(crate) async fn is_sound(
    repo: &Repo,
    commit: CommitId,
    bytes: &[u8],
    since: &mut Option<TurnsSinceRow>,
) -> Result<bool> {
    let Some(row) = TurnRow::decode(commit, bytes) else { return Ok(false) };
    let row = counted(repo, row).await?;
    let is_sound = match since {
        Some(since) if since.row == row.before => since.entries == row.entries,
        // It reaches back beyond the row before, as one that was written by two at once may.
        Some(_) | None => same(repo, commit, &row).await?,
    };
    if is_sound && (since.is_none() || !row.entries.is_empty()) {
        *since = Some(TurnsSinceRow { row: row.spoken(commit), entries: Vec::new() });
    }
    Ok(is_sound)
}
