//! Counts of a history without reading its rows: taken from the nearest row of the turn index,
//! which stores counts, and the commits after it. So the cost of verbs that touch few rows does not
//! depend on the length of the history.

use std::collections::HashMap;

use tract_compile::{HistoryCounts, Row, View, fold, stated_priority};
use tract_core::{Change, Changes, Commit, CommitId, DerivedKind, Kind, Op, Priority, ToolsetId};

use crate::history::turns::counted_row;
use crate::plan::{BranchTip, History};
use crate::repo::Repo;
use crate::repo::error::Result;

/// Maximum number of commits to read until a row with counts is found. Rows are about 1,024 commits
/// apart. A history without them, written by an older version, is folded instead.
const NEAR: usize = 16 << 10;
/// Number of newest commits whose messages can be numbered and changed without the older ones.
const END: usize = 1024;
/// Maximum distance that is walked instead of skipped with the help of stored counts.
const STEPS: u64 = 4096;

/// The newest commits of a history, with the counts before and after them.
pub(crate) struct RecentCommits {
    /// Oldest first; the last one is the head.
    pub(crate) commits: Vec<Commit>,
    /// The counts before the first of them.
    pub(crate) before: HistoryCounts,
    /// The counts at the head.
    pub(crate) counts: HistoryCounts,
    /// The commit before the first of them, which has the row with the counts.
    pub(crate) row: Option<CommitId>,
}

/// Counts as [`Repo::counts`] does.
pub(crate) async fn counts(repo: &Repo, head: Option<CommitId>) -> Result<HistoryCounts> {
    let Some(head) = head else { return Ok(HistoryCounts::default()) };
    if let Some(history) = repo.compiler().cached_history(head) {
        return Ok(history.counts());
    }
    match recent_commits(repo, head, 0).await? {
        Some(recent) => Ok(recent.counts),
        None => Ok(repo.fold(Some(head)).await?.counts()),
    }
}

/// Numbers messages as [`Repo::recent_numbers`] does.
pub(crate) async fn recent_numbers(repo: &Repo, head: CommitId) -> Result<HashMap<CommitId, u64>> {
    let Some(recent) = recent_commits(repo, head, END).await? else { return Ok(HashMap::new()) };
    let newest = recent_view(repo, &recent).await?;
    // Rows before the newest commits are unchanged, so numbering continues after them.
    let numbers = recent.before.shown + 1..;
    let shown = newest.into_iter().flat_map(|newest| newest.shown);
    Ok(shown.map(|row| row.version).zip(numbers).collect())
}

/// Returns the row of the n-th message shown at a head; `None` if it is not among the newest
/// rows.
pub(crate) async fn recent_row(repo: &Repo, head: CommitId, n: u64) -> Result<Option<(View, Row)>> {
    let Some(recent) = recent_commits(repo, head, END).await? else { return Ok(None) };
    let Some(place) = n.checked_sub(recent.before.shown + 1) else { return Ok(None) };
    let Some(newest) = recent_view(repo, &recent).await? else { return Ok(None) };
    let row = usize::try_from(place).ok().and_then(|place| newest.shown.get(place)).copied();
    Ok(row.map(|row| (newest.view, row)))
}

/// Returns the data about a history that a plan at its end needs.
pub(crate) async fn tip_of(repo: &Repo, head: CommitId) -> Result<BranchTip> {
    if let Some(history) = repo.compiler().cached_history(head) {
        return Ok(BranchTip::from(&history));
    }
    if let Some(recent) = recent_commits(repo, head, 0).await?
        && let Some(last) = recent.commits.last()
        && let room @ 1.. = recent.counts.room()
    {
        return Ok(BranchTip {
            head: Some(head),
            toolset: last.toolset,
            active: last.active_toolset(),
            tools_set: recent.counts.tools_set,
            room,
            commits: recent.counts.commits,
            counts: Some(recent.counts),
            silence: None,
        });
    }
    Ok(BranchTip::from(&repo.fold(Some(head)).await?))
}

/// Returns a history of which only the newest rows are loaded; `None` if they depend on older
/// rows, or if a snapshot may be due.
pub(crate) async fn recent_history(repo: &Repo, head: CommitId) -> Result<Option<History>> {
    match recent_commits(repo, head, END).await? {
        Some(recent) => fold_recent(repo, recent).await,
        None => Ok(None),
    }
}

/// Like [`recent_history`], for a commit and for heads that continue it. The
/// same rows are missing from all of them.
pub(crate) async fn recent_histories<const N: usize>(
    repo: &Repo,
    base: CommitId,
    heads: [CommitId; N],
) -> Result<Option<(History, [History; N])>> {
    let Some(below) = recent_commits(repo, base, END).await? else { return Ok(None) };
    let mut histories = Vec::with_capacity(N);
    for head in heads {
        let mut commits = repo.history(head).until(base).pages(2 * END, 2 * END);
        let mut newer = commits.next_page().await?.unwrap_or_default();
        newer.reverse();
        let continues = newer.first().and_then(|first| first.parent()) == Some(base);
        if commits.peek().is_some() || !continues {
            return Ok(None);
        }
        let Some(counts) = advance(repo, below.counts, &newer).await? else { return Ok(None) };
        let commits = below.commits.iter().cloned().chain(newer).collect();
        let recent = RecentCommits { commits, counts, ..below };
        let Some(history) = fold_recent(repo, recent).await? else { return Ok(None) };
        histories.push(history);
    }
    let base = fold_recent(repo, below).await?;
    Ok(base.zip(histories.try_into().ok()))
}

async fn fold_recent(repo: &Repo, recent: RecentCommits) -> Result<Option<History>> {
    if recent.counts.room() == 0 {
        return Ok(None);
    }
    let Some(view) = recent_view(repo, &recent).await? else { return Ok(None) };
    let last = recent.commits.into_iter().next_back();
    Ok(last.map(|last| History::recent(last, view.view, recent.before.next, recent.counts)))
}

/// Returns an ancestor at most `back` commits before a head, found through the rows with
/// counts, and the number of commits that remain to be walked from there.
pub(crate) async fn leap_back(repo: &Repo, head: CommitId, back: u64) -> Result<(CommitId, u64)> {
    let mut at = (head, back);
    if back <= STEPS {
        return Ok(at);
    }
    let Some(recent) = recent_commits(repo, head, 0).await? else { return Ok(at) };
    let Some(wanted) = recent.counts.commits.checked_sub(back) else { return Ok(at) };
    let mut next = recent.row;
    while let Some(id) = next {
        let Some(row) = counted_row(repo, id).await? else { break };
        if row.counts.commits < wanted {
            break;
        }
        at = (id, row.counts.commits - wanted);
        next = row.previous.filter(|previous| *previous != id);
    }
    Ok(at)
}

/// Reads the newest commits of a history, back to a row with counts: at least `at_least` if
/// there are as many. `None` if there is no such row nearby.
async fn recent_commits(
    repo: &Repo,
    head: CommitId,
    at_least: usize,
) -> Result<Option<RecentCommits>> {
    let mut commits = Vec::new();
    // The row found so far, with the number of newer commits.
    let mut found: Option<(usize, CommitId, HistoryCounts)> = None;
    let mut history = repo.history(head).pages(2048, 2048).stop_at(DerivedKind::Turn);
    while history.peek().is_some() && commits.len() < NEAR {
        commits.extend(history.next_page().await?.unwrap_or_default());
        let Some((id, _)) = history.row() else { continue };
        // The head itself is always read, even if it has a row.
        if !commits.is_empty() {
            let Some(row) = counted_row(repo, *id).await? else { break };
            found = Some((commits.len(), *id, row.counts));
            if commits.len() >= at_least {
                break;
            }
        }
        commits.extend(history.pass_row().await?);
    }
    let is_whole = commits.last().is_some_and(|last| last.parent().is_none());
    let (before, row) = match found {
        _ if is_whole => (HistoryCounts::default(), None),
        Some((newer, id, counts)) => {
            commits.truncate(newer);
            (counts, Some(id))
        }
        None => return Ok(None),
    };
    commits.reverse();
    let counts = advance(repo, before, &commits).await?;
    Ok(counts.map(|counts| RecentCommits { commits, before, counts, row }))
}

/// Folds the newest commits alone; `None` if one of them changes an older row.
async fn recent_view(repo: &Repo, recent: &RecentCommits) -> Result<Option<RecentView>> {
    let before = recent.before;
    // The view without its older rows. A fold onto it is right as long as no change refers to
    // one of them; `is_older` detects those that do.
    let mut view = View::from_parts([], None, before.next);
    for commit in &recent.commits {
        let changes = repo.changes(commit).await?;
        let is_older = |change: &Change| match change {
            Change::Add { row, .. } | Change::Remove { row, .. } => row.key < before.next,
            Change::Version { slot, .. } | Change::Mark { slot, .. } => {
                !view.contains(slot.resolve(commit.id()))
            }
        };
        let is_named = matches!(&commit.op, Op::Append { slot: Some(_), .. });
        if is_named || changes.iter().any(is_older) {
            return Ok(None);
        }
        match fold(&view, commit, &changes) {
            Ok(folded) => view = folded,
            Err(_) => return Ok(None),
        }
    }
    let versions = view.rows().flat_map(|row| [Some(row.version), row.mark]);
    let wanted: Vec<CommitId> = versions.flatten().collect();
    let Some(records) = Records::read(repo, &recent.commits, wanted).await? else {
        return Ok(None);
    };
    let is_shown = |row: &&Row| records.is_shown(row.version, row.mark) == Some(true);
    let shown = view.rows().filter(is_shown).copied().collect();
    Ok(Some(RecentView { view, shown }))
}

/// The newest rows of a history.
struct RecentView {
    view: View,
    /// The shown rows, in order.
    shown: Vec<Row>,
}

/// The records that determine whether rows are shown.
struct Records<'a> {
    at_hand: HashMap<CommitId, &'a Commit>,
    read: HashMap<CommitId, Commit>,
}

impl<'a> Records<'a> {
    /// Reads records; `None` if one of them is not stored.
    async fn read(
        repo: &Repo,
        commits: &'a [Commit],
        wanted: Vec<CommitId>,
    ) -> Result<Option<Self>> {
        let at_hand: HashMap<CommitId, &Commit> =
            commits.iter().map(|commit| (commit.id(), commit)).collect();
        let mut missing: Vec<CommitId> =
            wanted.into_iter().filter(|id| !at_hand.contains_key(id)).collect();
        missing.sort_unstable();
        missing.dedup();
        let mut read = HashMap::new();
        if !missing.is_empty() {
            let found = repo.store().commits(repo.name(), &missing).await?;
            read.extend(found.into_iter().flatten().map(|commit| (commit.id(), commit)));
        }
        // A commit that is only named, not linked, may be deleted. Without its kind the counts
        // would be wrong, so there are none.
        let is_whole = missing.iter().all(|id| read.contains_key(id));
        Ok(is_whole.then_some(Self { at_hand, read }))
    }

    fn get(&self, id: CommitId) -> Option<&Commit> {
        self.at_hand.get(&id).copied().or_else(|| self.read.get(&id))
    }

    fn kind(&self, id: CommitId) -> Option<&Kind> {
        self.get(id)?.kind.as_ref()
    }

    /// Returns whether a row with this version and mark is shown; `None` if a record is missing.
    fn is_shown(&self, version: CommitId, mark: Option<CommitId>) -> Option<bool> {
        let kind = self.get(version)?.kind.as_ref();
        let marked = match mark {
            Some(mark) => stated_priority(self.get(mark)?),
            None => None,
        };
        let by_kind = kind.map_or(Priority::Skip, Kind::default_priority);
        Some(marked.unwrap_or(by_kind) > Priority::Skip)
    }
}

/// Adds the changes of the following commits, oldest first, to the counts of a history. `None` if
/// their records are not sufficient.
pub(crate) async fn advance(
    repo: &Repo,
    mut counts: HistoryCounts,
    commits: &[Commit],
) -> Result<Option<HistoryCounts>> {
    let mut lists = Vec::new();
    let mut wanted = Vec::new();
    for commit in commits {
        let changes = match &commit.changes {
            Changes::List(list) if list.is_empty() => continue,
            _ => repo.changes(commit).await?,
        };
        let id = commit.id();
        for change in &changes {
            let slot = change.slot().resolve(id);
            match change {
                Change::Add { row, .. } | Change::Remove { row, .. } => {
                    wanted.push(row.version.resolve(id));
                    wanted.extend(row.mark.map(|mark| mark.resolve(id)));
                }
                Change::Version { from, to, .. } => {
                    wanted.extend([from.resolve(id), to.resolve(id)]);
                }
                Change::Mark { from, to, .. } => {
                    wanted.push(slot);
                    wanted.extend([*from, *to].into_iter().flatten().map(|mark| mark.resolve(id)));
                }
            }
        }
        lists.push((id, changes));
    }
    let Some(records) = Records::read(repo, commits, wanted).await? else { return Ok(None) };
    let mut lists = lists.into_iter().peekable();
    let mut active: Option<Option<ToolsetId>> = None;
    for commit in commits {
        let id = commit.id();
        match &commit.op {
            Op::Append { .. } => count_append(&mut counts, is_shown_alone(commit)),
            _ => counts.commits += 1,
        }
        // `lists` is in the order of `commits`, without those that have no changes.
        if let Some((_, changes)) = lists.next_if(|(at, _)| *at == id) {
            for change in &changes {
                if count_change(&mut counts, id, change, &records).is_none() {
                    return Ok(None);
                }
            }
        }
        // Tools taken over by a merge were set permanently on the other branch.
        if !counts.tools_set && matches!(commit.op, Op::Merge { .. }) {
            let before = match (active, commit.parent()) {
                (Some(before), _) => before,
                (None, Some(parent)) => repo.require_commit(parent).await?.active_toolset(),
                (None, None) => None,
            };
            counts.tools_set = commit.active_toolset() != before;
        }
        counts.tools_set |= matches!(commit.op, Op::Tools) || commit.active.is_some();
        active = Some(commit.active_toolset());
    }
    Ok(Some(counts))
}

/// Returns whether a message is shown if it was not changed since it was added.
pub(crate) fn is_shown_alone(message: &Commit) -> bool {
    let by_kind = message.kind.as_ref().map_or(Priority::Skip, Kind::default_priority);
    stated_priority(message).unwrap_or(by_kind) > Priority::Skip
}

/// Counts a commit that appends a row.
pub(crate) fn count_append(counts: &mut HistoryCounts, is_shown: bool) {
    counts.commits += 1;
    counts.rows += 1;
    counts.shown += u64::from(is_shown);
    counts.next = counts.next.saturating_add(1);
}

fn count_change(
    counts: &mut HistoryCounts,
    id: CommitId,
    change: &Change,
    records: &Records<'_>,
) -> Option<()> {
    let is_default_shown = |version: CommitId| {
        let kind = records.kind(version);
        kind.map_or(Priority::Skip, Kind::default_priority) > Priority::Skip
    };
    match change {
        Change::Add { row, .. } => {
            let mark = row.mark.map(|mark| mark.resolve(id));
            counts.rows += 1;
            counts.shown += u64::from(records.is_shown(row.version.resolve(id), mark)?);
            counts.next = counts.next.max(row.key.saturating_add(1));
        }
        Change::Remove { row, .. } => {
            let mark = row.mark.map(|mark| mark.resolve(id));
            let shown = u64::from(records.is_shown(row.version.resolve(id), mark)?);
            counts.rows = counts.rows.checked_sub(1)?;
            counts.shown = counts.shown.checked_sub(shown)?;
        }
        Change::Version { from, to, .. } => {
            // The mark of the row is not known here. It only matters if the kind changes.
            let (from, to) = (from.resolve(id), to.resolve(id));
            if is_default_shown(from) != is_default_shown(to) {
                return None;
            }
        }
        Change::Mark { slot, from, to } => {
            // All versions of a message have the same kind, so the slot's kind can be used.
            let slot = slot.resolve(id);
            let before = u64::from(records.is_shown(slot, from.map(|mark| mark.resolve(id)))?);
            let after = u64::from(records.is_shown(slot, to.map(|mark| mark.resolve(id)))?);
            counts.shown = (counts.shown + after).checked_sub(before)?;
        }
    }
    Some(())
}
