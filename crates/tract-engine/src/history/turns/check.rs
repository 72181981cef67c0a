//! Whether rows of the turn index say what their lines say, compared along a line.

use tract_compile::LineCounts;
use tract_core::store::Walk;
use tract_core::{Commit, CommitId};

use super::entry::{LoadedObjects, TurnEntry, entries};
use super::index::{counted, counted_row, same};
use super::row::TurnRow;
use crate::history::counts;
use crate::repo::Repo;
use crate::repo::error::Result;

/// What a line said of tool turns since the last row that has entries.
///
/// Rows of one line are compared in the order of their commits, so that each costs what was said
/// since the one before and no row is traced back to the root.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnsSinceRow {
    /// The nearest earlier commit whose row has entries; `None` before the first.
    row: Option<CommitId>,
    entries: Vec<TurnEntry>,
    /// What the line has; `None` where that is not known.
    counts: Option<LineCounts>,
}

impl TurnsSinceRow {
    /// What is known before the first commit of a line.
    pub(crate) fn at_root() -> Self {
        Self { counts: Some(LineCounts::default()), ..Self::default() }
    }

    /// Returns what the line has, to add to; `None` where that is not known.
    pub(crate) fn counts(&mut self) -> Option<&mut LineCounts> {
        self.counts.as_mut()
    }

    /// Adds what a commit changes to what the line has.
    pub(crate) async fn count(&mut self, repo: &Repo, commit: &Commit) {
        let Some(counts) = self.counts else { return };
        let counted = counts::advance(repo, counts, std::slice::from_ref(commit)).await;
        self.counts = counted.ok().flatten();
    }

    /// Takes down that what the line has is not known any more.
    pub(crate) fn lose_counts(&mut self) {
        self.counts = None;
    }

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
    let counts = since.as_ref().and_then(|since| since.counts);
    let is_sound = is_sound
        && match (row.line, counts) {
            (Some(line), Some(counts)) => line.counts == counts,
            (Some(_), None) => has_right_counts(repo, commit, &row).await?,
            (None, _) => true,
        };
    if is_sound && (since.is_none() || !row.entries.is_empty()) {
        let counts = counts.or(row.line.map(|line| line.counts));
        *since = Some(TurnsSinceRow { row: row.spoken(commit), entries: Vec::new(), counts });
    }
    Ok(is_sound)
}

/// Whether what a row says that its line has is what its line has, counted from the row before.
async fn has_right_counts(repo: &Repo, commit: CommitId, row: &TurnRow) -> Result<bool> {
    let Some(line) = row.line else { return Ok(true) };
    let (before, until) = match line.previous {
        None => (LineCounts::default(), None),
        Some(previous) => match counted_row(repo, previous).await? {
            Some(before) => (before.counts, Some(previous)),
            // What is not there any more, or keeps no counts, proves nothing.
            None => return Ok(true),
        },
    };
    let mut commits = Vec::new();
    let mut next = Some(commit);
    while let Some(at) = next {
        let page = repo.store().walk(repo.name(), Walk { until, ..Walk::from(at) }).await?;
        commits.extend(page.steps.into_iter().map(|step| step.commit));
        next = page.next;
    }
    commits.reverse();
    if commits.first().and_then(|commit| commit.parent()) != until {
        return Ok(false);
    }
    let counted = counts::advance(repo, before, &commits).await?;
    Ok(counted.is_none_or(|counted| counted == line.counts))
}
