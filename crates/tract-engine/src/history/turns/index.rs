//! The turn index: rows kept with commits, so that a query reads turns and not the whole history.
//!
//! A row belongs to a commit. It contains the entries about tool turns of the commits after the row
//! that it names as its predecessor, up to its own commit. It is a function of the commit's
//! history, so it serves every branch that contains the commit.
//!
//! Any row may be missing: its entries are then read from the commits. Rows may be added between
//! others at any time, since each is correct independently of the others.

use tract_compile::HistoryCounts;
use tract_core::{Commit, CommitId, DerivedKind, DerivedRow, RefName};

use super::entry::{LoadedObjects, TurnEntry, entries};
use super::row::{CountedHistory, TurnRow};
use crate::history::counts;
use crate::plan::TurnIndexGap;
use crate::repo::Repo;
use crate::repo::batch::store_derived;
use crate::repo::erasure_mark::ErasureMark;
use crate::repo::error::{Error, Result};
use crate::repo::history::HistoryReader;

/// Reads all entries about tool turns of a history, oldest first.
pub(crate) async fn of_line(repo: &Repo, head: CommitId) -> Result<Vec<TurnEntry>> {
    let mut parts: Vec<Vec<TurnEntry>> = Vec::new();
    let mut next = Some(head);
    while let Some(at) = next {
        let (since, row) = since_row(repo, at).await?;
        parts.push(since);
        let mut row = row;
        next = None;
        while let Some((_, found)) = row.take() {
            let found = counted(repo, found).await?;
            parts.push(found.entries);
            let Some(before) = found.before else { break };
            let read = repo.store().derived(repo.name(), DerivedKind::Turn, &[before]).await?;
            let bytes = read.into_iter().flatten().next();
            row = bytes.and_then(|bytes| Some((before, TurnRow::decode(before, &bytes)?)));
            // A missing or damaged row only makes the query slower: the commits are read instead.
            next = row.is_none().then_some(before);
        }
    }
    parts.reverse();
    Ok(parts.concat())
}

/// Reads the entries about tool turns of the commits after `after`, or from the root on, oldest
/// first.
///
/// # Errors
/// [`Error::NotOnLine`] when `after` is not part of the history.
pub(crate) async fn after(
    repo: &Repo,
    head: CommitId,
    after: Option<CommitId>,
) -> Result<Vec<TurnEntry>> {
    let (mut parts, mut oldest_parent) = (Vec::new(), after);
    let mut history = repo.history(head).until(after);
    while let Some(commits) = history.next_page().await? {
        oldest_parent = commits.last().and_then(|commit| commit.parent());
        parts.push(oldest_first(repo, commits).await?);
    }
    if let Some(commit) = after.filter(|_| oldest_parent != after) {
        return Err(Error::NotOnLine { commit, head });
    }
    parts.reverse();
    Ok(parts.concat())
}

/// A reader from a head back to the nearest row, in pages.
struct ToRow<'a> {
    history: HistoryReader<'a>,
    row: Option<(CommitId, TurnRow)>,
}

impl<'a> ToRow<'a> {
    fn new(repo: &'a Repo, head: CommitId) -> Self {
        Self { history: repo.history(head).stop_at(DerivedKind::Turn), row: None }
    }

    /// Reads the next commits, newest first; `None` at the end, when the row is known.
    async fn page(&mut self) -> Result<Option<Vec<Commit>>> {
        if self.row.is_some() || self.history.peek().is_none() {
            return Ok(None);
        }
        let mut commits = self.history.next_page().await?.unwrap_or_default();
        if let Some((id, bytes)) = self.history.row() {
            self.row = TurnRow::decode(*id, bytes).map(|row| (*id, row));
            // A damaged row is read over: the row before it serves as well.
            if self.row.is_none() {
                commits.extend(self.history.pass_row().await?);
            }
        }
        Ok(Some(commits))
    }
}

/// Reads the entries of the commits since the nearest row, oldest first, and that row.
async fn since_row(
    repo: &Repo,
    head: CommitId,
) -> Result<(Vec<TurnEntry>, Option<(CommitId, TurnRow)>)> {
    let (mut parts, mut walk) = (Vec::new(), ToRow::new(repo, head));
    while let Some(commits) = walk.page().await? {
        parts.push(oldest_first(repo, commits).await?);
    }
    parts.reverse();
    Ok((parts.concat(), walk.row))
}

async fn oldest_first(repo: &Repo, newest_first: Vec<Commit>) -> Result<Vec<TurnEntry>> {
    let mut found = entries(repo, &newest_first, &mut LoadedObjects::default()).await?;
    found.reverse();
    Ok(found.concat())
}

/// Recounts the tokens of a row that was counted with another counter.
pub(super) async fn counted(repo: &Repo, mut row: TurnRow) -> Result<TurnRow> {
    if row.counter == repo.counter().name() {
        return Ok(row);
    }
    for entry in &mut row.entries {
        let (version, tokens) = match entry {
            TurnEntry::Calls(call) | TurnEntry::NewCalls(call) => (call.version, &mut call.tokens),
            TurnEntry::Answer(result) | TurnEntry::NewAnswer(result) => {
                (result.version, &mut result.tokens)
            }
            TurnEntry::Gone(_) => continue,
        };
        *tokens = match repo.content_of(version).await {
            Ok(content) => tract_compile::count_content(&content, repo.counter()),
            Err(Error::Erased(_)) => 0,
            Err(error) => return Err(error),
        };
    }
    row.counter = repo.counter().name().to_owned();
    Ok(row)
}

/// A row that is stored with a write.
pub(crate) struct NewRow {
    /// The commit that it belongs to.
    pub(crate) at: CommitId,
    /// The row as it is stored.
    pub(crate) row: DerivedRow,
    /// The nearest commit, this one included, whose row has entries.
    spoken: Option<CommitId>,
}

impl NewRow {
    fn new(at: CommitId, row: &TurnRow) -> Self {
        Self { at, row: row.encode(at), spoken: row.spoken(at) }
    }

    /// Returns the gap that starts right after this row.
    pub(crate) fn silence(&self) -> TurnIndexGap {
        TurnIndexGap { before: self.spoken, previous: Some(self.at) }
    }
}

/// Reads the counts in the row of a commit; `None` without a row.
pub(crate) async fn counted_row(repo: &Repo, commit: CommitId) -> Result<Option<CountedHistory>> {
    let read = repo.store().derived(repo.name(), DerivedKind::Turn, &[commit]).await?;
    let bytes = read.into_iter().flatten().next();
    Ok(bytes.and_then(|bytes| TurnRow::decode(commit, &bytes)?.history))
}

/// Creates the row that is due at a head when there were no entries since the last one.
pub(crate) fn silent_row(
    repo: &Repo,
    head: CommitId,
    silence: TurnIndexGap,
    counts: Option<HistoryCounts>,
) -> NewRow {
    let row = TurnRow::new(repo, silence.before, Vec::new());
    NewRow::new(head, &row.counted(counts, silence.previous))
}

/// Creates the row that is due at a head. `made` are the commits that a write adds, newest first,
/// down to the first stored one.
pub(crate) async fn due(
    repo: &Repo,
    head: CommitId,
    made: Vec<Commit>,
    counts: Option<HistoryCounts>,
    hand: &mut LoadedObjects,
) -> Result<NewRow> {
    let stored = made.last().map_or(Some(head), |oldest| oldest.parent());
    let mut new = entries(repo, &made, hand).await?;
    new.reverse();
    let (mut all, row) = match stored {
        Some(stored) => since_row(repo, stored).await?,
        None => (Vec::new(), None),
    };
    all.extend(new.concat());
    let previous = row.as_ref().map(|(at, _)| *at);
    // A row names the last one with entries, and skips those without. A query of a long history
    // without tools then reads few rows.
    let before = row.and_then(|(at, row)| row.spoken(at));
    Ok(NewRow::new(head, &TurnRow::new(repo, before, all).counted(counts, previous)))
}

/// Returns whether a row matches its history, read from the row before it or from the root.
pub(super) async fn same(repo: &Repo, commit: CommitId, row: &TurnRow) -> Result<bool> {
    match after(repo, commit, row.before).await {
        Err(Error::NotOnLine { .. }) => Ok(false),
        since => Ok(since? == row.entries),
    }
}

/// Adds the rows that a history lacks after its last one: commits from elsewhere come without rows.
/// A failure is ignored, since queries work without rows.
pub(crate) async fn catch_up(repo: &Repo, head: CommitId) {
    let _left_away = add_rows(repo, head).await;
}

async fn add_rows(repo: &Repo, head: CommitId) -> Result<()> {
    let (mut ids, mut walk) = (Vec::new(), ToRow::new(repo, head));
    while let Some(commits) = walk.page().await? {
        ids.extend(commits.iter().map(Commit::id));
    }
    ids.reverse();
    let mut previous = walk.row.as_ref().map(|(at, _)| *at);
    let mut counts = match &walk.row {
        Some((_, row)) => row.history.map(|history| history.counts),
        None => Some(HistoryCounts::default()),
    };
    let mut before = walk.row.and_then(|(at, row)| row.spoken(at));
    let every = usize::try_from(repo.turn_rows_every()).unwrap_or(usize::MAX).max(1);
    // Thousands of short branches then add no rows.
    if ids.len() < every {
        return Ok(());
    }
    // Read the mark before the contents of the rows, so that a later erasure makes the write
    // conflict.
    let mark = ErasureMark::read(repo).await?;
    let mut rows = Vec::with_capacity(ids.len() / every);
    // Commits after the last full chunk get no row. They are read by each query, and are part of
    // the next row.
    for chunk in ids.chunks_exact(every) {
        let Some(at) = chunk.last().copied() else { continue };
        let commits = newest_of(repo, at, every).await?;
        let entries = entries(repo, &commits, &mut LoadedObjects::default()).await?.concat();
        if let Some(known) = counts {
            counts = counts::advance(repo, known, &commits).await?;
        }
        let row = TurnRow::new(repo, before, entries).counted(counts, previous);
        rows.push(row.encode(at));
        (before, previous) = (row.spoken(at), Some(at));
    }
    store_derived(repo, &mark, rows).await
}

/// Copies the newest rows of a history, at most this many, from another repository that has it: there,
/// reading them takes a fraction of the time in which they are made here. What it leaves out,
/// [`catch_up`] adds. A failure is ignored, since queries work without rows.
///
/// Rows of erased messages differ from those of the same messages elsewhere, so nothing is copied if
/// anything was erased on either side.
pub(crate) async fn copy_rows(from: &Repo, to: &Repo, head: CommitId, limit: usize) {
    let _left_out = read_and_copy(from, to, head, limit).await;
}

async fn read_and_copy(from: &Repo, to: &Repo, head: CommitId, limit: usize) -> Result<()> {
    let (mark, mark_there) = (ErasureMark::read(to).await?, ErasureMark::read(from).await?);
    for repo in [from, to] {
        if !repo.store().list_refs(repo.name(), RefName::erasures()).await?.is_empty() {
            return Ok(());
        }
    }
    let mut walk = ToRow::new(from, head);
    if walk.page().await?.is_none() || walk.row.is_none() {
        return Ok(()); // the source has no row near the head either
    }
    let (mut rows, mut next) = (Vec::new(), walk.row);
    while let Some((at, row)) = next.take().filter(|_| rows.len() < limit) {
        if counted_row(to, at).await?.is_some() {
            break;
        }
        let Some(history) = row.history else { return Ok(()) };
        rows.push(row.encode(at));
        let Some(previous) = history.previous else { break };
        let read = from.store().derived(from.name(), DerivedKind::Turn, &[previous]).await?;
        let bytes = read.into_iter().flatten().next();
        // With a gap between rows, the rows before it would never be made.
        let Some(row) = bytes.and_then(|bytes| TurnRow::decode(previous, &bytes)) else {
            return Ok(());
        };
        next = Some((previous, row));
    }
    // A row that an erasure in the source replaced meanwhile does not match the messages sent.
    if ErasureMark::read(from).await? != mark_there {
        return Ok(());
    }
    store_derived(to, &mark, rows).await
}

/// Reads the newest commits of a history, oldest first. A walk reads them where they are stored next
/// to each other, without a lookup for each.
async fn newest_of(repo: &Repo, head: CommitId, count: usize) -> Result<Vec<Commit>> {
    let (mut commits, mut history) = (Vec::new(), repo.history(head).pages(count, count));
    while commits.len() < count {
        let Some(page) = history.next_page().await? else { break };
        commits.extend(page);
    }
    commits.truncate(count);
    commits.reverse();
    Ok(commits)
}

/// Rebuilds the rows of all branches after they were dropped. Shared history is read once: further
/// branches find the rows of the first one.
pub(crate) async fn rebuild_all(repo: &Repo) -> Result<()> {
    for branch in repo.branches().await? {
        catch_up(repo, branch.head).await;
    }
    Ok(())
}
