//! Compares rows of the turn index with their history.

use std::collections::HashSet;

use tract_compile::HistoryCounts;
use tract_core::{Commit, CommitId};

use super::entry::{LoadedObjects, TurnEntry, entries};
use super::index::{counted, counted_row, same};
use super::row::TurnRow;
use crate::history::counts;
use crate::repo::Repo;
use crate::repo::error::Result;

/// The entries about tool turns since the last row that has any.
///
/// The rows of a history are compared in the order of their commits, so that each needs only the
/// entries since the one before, and no row is traced back to the root.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnsSinceRow {
    /// The nearest earlier commit whose row has entries; `None` before the first.
    row: Option<CommitId>,
    entries: Vec<TurnEntry>,
    /// The counts of the history; `None` if unknown.
    counts: Option<HistoryCounts>,
}

impl TurnsSinceRow {
    /// Returns the state before the first commit of a history.
    pub(crate) fn at_root() -> Self {
        Self { counts: Some(HistoryCounts::default()), ..Self::default() }
    }

    /// Returns the counts of the history, to add to; `None` if unknown.
    pub(crate) fn counts(&mut self) -> Option<&mut HistoryCounts> {
        self.counts.as_mut()
    }

    /// Adds the changes of a commit to the counts.
    pub(crate) async fn count(&mut self, repo: &Repo, commit: &Commit) {
        let Some(counts) = self.counts else { return };
        let counted = counts::advance(repo, counts, std::slice::from_ref(commit)).await;
        self.counts = counted.ok().flatten();
    }

    /// Marks the counts as unknown.
    pub(crate) fn lose_counts(&mut self) {
        self.counts = None;
    }

    /// Adds the entries of a commit.
    pub(crate) fn add(&mut self, entries: Vec<TurnEntry>) {
        self.entries.extend(entries);
    }
}

/// Reads the entries about tool turns of each commit.
pub(crate) async fn entries_of(repo: &Repo, commits: &[Commit]) -> Result<Vec<Vec<TurnEntry>>> {
    entries(repo, commits, &mut LoadedObjects::default()).await
}

/// Returns whether the row at a commit matches its history. `since` is the state before the row,
/// including the entries of its commit, if known; afterwards it starts from this row.
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
        // It starts before the previous row, as one written by two concurrent writers may.
        Some(_) | None => same(repo, commit, &row).await?,
    };
    let counts = since.as_ref().and_then(|since| since.counts);
    let is_sound = is_sound
        && match (row.history, counts) {
            (Some(history), Some(counts)) => history.counts == counts,
            (Some(_), None) => has_right_counts(repo, commit, &row).await?,
            (None, _) => true,
        };
    if is_sound && (since.is_none() || !row.entries.is_empty()) {
        let counts = counts.or(row.history.map(|history| history.counts));
        *since = Some(TurnsSinceRow { row: row.spoken(commit), entries: Vec::new(), counts });
    }
    Ok(is_sound)
}

/// Returns whether a message that a row covers was erased. The row may be from before: until the
/// erasure has dropped it, it says more than its history does now.
pub(crate) async fn covers_erased(repo: &Repo, commit: CommitId, bytes: &[u8]) -> Result<bool> {
    let erased = repo.erased_blobs().await?;
    let Some(row) = TurnRow::decode(commit, bytes).filter(|_| !erased.is_empty()) else {
        return Ok(false);
    };
    let mut starts = HashSet::from([row.before]);
    starts.extend(row.history.map(|history| history.previous));
    let mut history = repo.history(commit);
    while let Some(commit) = history.next().await? {
        starts.remove(&Some(commit.id()));
        if starts.is_empty() {
            break;
        }
        if commit.content.is_some_and(|content| erased.contains(&content)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether the counts in a row are right, counted from the row before.
async fn has_right_counts(repo: &Repo, commit: CommitId, row: &TurnRow) -> Result<bool> {
    let Some(history) = row.history else { return Ok(true) };
    let (before, until) = match history.previous {
        None => (HistoryCounts::default(), None),
        Some(previous) => match counted_row(repo, previous).await? {
            Some(before) => (before.counts, Some(previous)),
            // A row that is gone, or without counts, cannot be compared.
            None => return Ok(true),
        },
    };
    let mut commits = Vec::new();
    let mut reader = repo.history(commit).until(until);
    while let Some(page) = reader.next_page().await? {
        commits.extend(page);
    }
    commits.reverse();
    if commits.first().and_then(|commit| commit.parent()) != until {
        return Ok(false);
    }
    let counted = counts::advance(repo, before, &commits).await?;
    Ok(counted.is_none_or(|counted| counted == history.counts))
}
