//! The view during planning, and facts that only the history provides.

use std::collections::{HashMap, HashSet, VecDeque};

use tract_compile::{Row, View};
use tract_core::{Change, Commit, CommitId, CommitRef, Op, RowFields};

use super::{History, Plan, Records, Refusal};

/// A view with planned changes on top.
pub(super) struct WorkingView<'a> {
    view: &'a View,
    over: HashMap<CommitId, Option<Row>>,
    /// The keys of rows that were removed here.
    pub(super) last_keys: HashMap<CommitId, u64>,
    pub(super) next: u64,
}

impl<'a> WorkingView<'a> {
    pub(super) fn new(view: &'a View) -> Self {
        Self { view, over: HashMap::new(), last_keys: HashMap::new(), next: view.next() }
    }

    pub(super) fn get(&self, slot: CommitId) -> Option<Row> {
        super::records::visit(1);
        match self.over.get(&slot) {
            Some(row) => *row,
            None => self.view.get(slot).copied(),
        }
    }

    pub(super) fn put(&mut self, row: Row) {
        self.next = self.next.max(row.key.saturating_add(1));
        self.over.insert(row.slot, Some(row));
    }

    pub(super) fn take(&mut self, slot: CommitId) {
        if let Some(row) = self.get(slot) {
            self.last_keys.insert(slot, row.key);
        }
        self.over.insert(slot, None);
    }

    /// Saves the state of a message, to restore it if a plan fails half way.
    pub(super) fn save(&self, slot: CommitId) -> SavedRow {
        let (over, key) = (self.over.get(&slot).copied(), self.last_keys.get(&slot).copied());
        SavedRow { slot, over, key, next: self.next }
    }

    /// Reverts the last [`put`](Self::put) or [`take`](Self::take) since this was saved.
    pub(super) fn restore(&mut self, saved: SavedRow) {
        match saved.over {
            Some(row) => self.over.insert(saved.slot, row),
            None => self.over.remove(&saved.slot),
        };
        match saved.key {
            Some(key) => self.last_keys.insert(saved.slot, key),
            None => self.last_keys.remove(&saved.slot),
        };
        self.next = saved.next;
    }

    /// Returns the rows in arbitrary order.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        super::records::visit(self.view.len() + self.over.len());
        let kept = self.view.rows().filter(|row| !self.over.contains_key(&row.slot)).copied();
        kept.chain(self.over.values().copied().flatten())
    }

    /// Returns the rows that were added to the view, in order.
    pub(super) fn added(&self) -> Vec<Row> {
        super::records::visit(self.over.len());
        let mut added: Vec<Row> = self
            .over
            .iter()
            .filter(|(slot, _)| !self.view.contains(**slot))
            .filter_map(|(_, row)| *row)
            .collect();
        added.sort_by_key(Row::row_key);
        added
    }

    /// Returns a removed call that rows still answer, with those rows.
    pub(super) fn orphaned(&self) -> Option<(CommitId, Vec<Row>)> {
        let gone: HashSet<CommitId> = self
            .over
            .iter()
            .filter(|(slot, row)| row.is_none() && self.view.contains(**slot))
            .map(|(slot, _)| *slot)
            .collect();
        if gone.is_empty() {
            return None;
        }
        let mut left: Vec<Row> = self
            .rows()
            .filter(|row| row.answers.is_some_and(|call| gone.contains(&call.slot)))
            .collect();
        left.sort_by_key(Row::row_key);
        let call = left.first()?.answers?;
        Some((call.slot, left))
    }
}

/// The state of a message before a change.
pub(super) struct SavedRow {
    slot: CommitId,
    over: Option<Option<Row>>,
    key: Option<u64>,
    next: u64,
}

/// Changes the version of a message.
pub(super) fn set_version(row: &Row, to: CommitRef) -> Change {
    Change::Version { slot: row.slot.into(), from: row.version.into(), to }
}

/// Changes the mark of a message.
pub(super) fn set_mark(row: &Row, to: Option<CommitRef>) -> Change {
    Change::Mark { slot: row.slot.into(), from: row.mark.map(CommitRef::Id), to }
}

/// Replaces rows with the commit itself as their summary.
pub(super) fn summary_changes(rows: &[Row], key: u64) -> Vec<Change> {
    let row = RowFields { key, version: CommitRef::This, mark: None, answers: None };
    rows.iter()
        .map(|row| Change::Remove { slot: row.slot.into(), row: row.fields() })
        .chain([Change::Add { slot: CommitRef::This, row }])
        .collect()
}

/// The part of a row that a change touches.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Field {
    Presence,
    Version,
    Mark,
}

/// Returns the messages that a commit touches, each with the fields that it changes.
pub(super) fn touched<'a>(
    commit: &Commit,
    changes: &'a [Change],
) -> impl Iterator<Item = (CommitId, &'static [Field])> + 'a {
    const ALL: &[Field] = &[Field::Presence, Field::Version, Field::Mark];
    let id = commit.id();
    let own = match &commit.op {
        Op::Append { slot, .. } => Some((slot.unwrap_or(id), ALL)),
        _ => None,
    };
    own.into_iter().chain(changes.iter().map(move |change| {
        let fields = match change {
            Change::Add { .. } | Change::Remove { .. } => ALL,
            Change::Version { .. } => &[Field::Version],
            Change::Mark { .. } => &[Field::Mark],
        };
        (change.slot().resolve(id), fields)
    }))
}

/// An index of the commits that changed each message, and of the keys the messages had. It is
/// filled lazily from the head back and reads each commit once, for any number of messages.
#[derive(Default)]
pub(super) struct ChangeIndex {
    /// Newest first.
    commits: HashMap<(CommitId, Field), VecDeque<CommitId>>,
    /// The last keys of messages before they were removed.
    keys: HashMap<CommitId, u64>,
    read: usize,
}

impl ChangeIndex {
    /// Returns the last key of a message; `None` if it was never removed.
    pub(super) fn last_key(&mut self, records: &Records, slot: CommitId) -> Plan<Option<u64>> {
        while !self.keys.contains_key(&slot) && self.read_next(records)? {}
        Ok(self.keys.get(&slot).copied())
    }

    /// Returns the newest commit that changed a field of a message and is not in `except`. A commit
    /// that is excluded once is dropped from the index.
    pub(super) fn newest(
        &mut self,
        records: &Records,
        slot: CommitId,
        field: Field,
        except: impl Fn(CommitId) -> bool,
    ) -> Plan<Option<CommitId>> {
        loop {
            if let Some(commits) = self.commits.get_mut(&(slot, field)) {
                // Dropped for good, so that a revert of many commits of one message does not skip
                // the same ones again and again. So a commit that is excluded once must stay
                // excluded.
                while commits.front().is_some_and(|commit| except(*commit)) {
                    super::records::visit(1);
                    commits.pop_front();
                }
                if let Some(commit) = commits.front() {
                    return Ok(Some(*commit));
                }
            }
            if !self.read_next(records)? {
                return Ok(None);
            }
        }
    }

    /// Reads the next commit of the history; returns `false` beyond its root.
    fn read_next(&mut self, records: &Records) -> Plan<bool> {
        let Some((commit, changes)) = records.chain_changes(self.read)? else { return Ok(false) };
        let id = commit.id();
        for (slot, fields) in touched(commit, changes) {
            for field in fields {
                let commits = self.commits.entry((slot, *field)).or_default();
                // A commit may change a message twice, for example remove its row and add it again.
                if commits.back() != Some(&id) {
                    commits.push_back(id);
                }
            }
        }
        for change in changes {
            if let Change::Remove { slot, row } = change {
                // Commits are read newest first, so a key that is already known is a later one.
                self.keys.entry(slot.resolve(id)).or_insert(row.key);
            }
        }
        self.read += 1;
        Ok(true)
    }
}

/// Returns the row of a message. If there is none, the refusal names `target`.
pub(super) fn shown(
    history: &History,
    records: &Records,
    slot: CommitId,
    target: CommitId,
) -> Plan<Row> {
    match history.view().get(slot) {
        Some(row) => Ok(*row),
        None => {
            let hidden_by = hidden_by(history, records, slot)?;
            Err(Refusal::NotVisible { target, hidden_by }.into())
        }
    }
}

/// Returns the commit that hides a message: the summary it is under now, or the commit of this
/// history that removed it; `None` if it was never part of this history.
fn hidden_by(history: &History, records: &Records, slot: CommitId) -> Plan<Option<CommitId>> {
    let mut slot = slot;
    let mut seen = HashSet::new();
    let mut touches = ChangeIndex::default();
    loop {
        let Some(commit) = touches.newest(records, slot, Field::Presence, |_| false)? else {
            return Ok(None);
        };
        let commit = records.commit(commit)?;
        match &commit.op {
            // This summary may itself be under another one.
            Op::Compress { .. } => {
                let summary = commit.id();
                if history.view().contains(summary) || !seen.insert(summary) {
                    return Ok(Some(summary));
                }
                slot = summary;
            }
            Op::Merge { .. } => {
                // The merge brought the summary in.
                let covers = SummaryCover::of(records, history.view().rows().copied())?;
                return Ok(Some(covers.under.get(&slot).copied().unwrap_or(commit.id())));
            }
            Op::Append { .. }
            | Op::Edit { .. }
            | Op::Annotate { .. }
            | Op::Revert { .. }
            | Op::Tools
            | Op::Note
            | Op::Unknown { .. } => return Ok(Some(commit.id())),
        }
    }
}

/// The messages under each summary.
pub(super) struct SummaryCover {
    under: HashMap<CommitId, CommitId>,
    twice: Option<(CommitId, CommitId)>,
}

impl SummaryCover {
    /// Collects the summaries among rows and all messages under them, including those under nested
    /// summaries.
    pub(super) fn of(records: &Records, rows: impl Iterator<Item = Row>) -> Plan<Self> {
        // The result must not depend on the order of the messages.
        let mut sorted: Vec<CommitId> = rows.map(|row| row.slot).collect();
        sorted.sort_unstable();
        sorted.dedup();
        ensure_covered(records, sorted.iter().copied())?;
        let mut covers = Self { under: HashMap::new(), twice: None };
        for summary in sorted {
            for slot in covered(records, summary)? {
                if covers.under.insert(slot, summary).is_some() {
                    // The first pair in the order of the ids, so that the same view always gets the
                    // same refusal.
                    covers.twice.get_or_insert((slot, summary));
                }
            }
        }
        Ok(covers)
    }

    /// Checks that no message is shown next to its summary, and that none has two summaries.
    pub(super) fn check(&self, is_shown: impl Fn(CommitId) -> bool) -> Result<(), Refusal> {
        if let Some((target, by)) = self.twice {
            return Err(Refusal::Hidden { target, by });
        }
        let shown = self.under.iter().filter(|(slot, _)| is_shown(**slot)).min_by_key(|(s, _)| **s);
        match shown {
            Some((target, by)) => Err(Refusal::Hidden { target: *target, by: *by }),
            None => Ok(()),
        }
    }
}

/// Requests all records that [`covered`] needs for these messages. One level of nested summaries is
/// read together, so planning restarts once per level and not once per summary.
pub(super) fn ensure_covered(
    records: &Records,
    slots: impl IntoIterator<Item = CommitId>,
) -> Plan<()> {
    let mut level: Vec<CommitId> = slots.into_iter().collect();
    let mut seen: HashSet<CommitId> = level.iter().copied().collect();
    while !level.is_empty() {
        records.ensure(level.iter().copied())?;
        let mut summaries = Vec::new();
        for slot in std::mem::take(&mut level) {
            let commit = records.commit_if_stored(slot)?;
            summaries.extend(commit.filter(|commit| matches!(commit.op, Op::Compress { .. })));
        }
        records.ensure_changes(summaries.iter().copied())?;
        for summary in summaries {
            level.extend(hidden_directly(records, summary.id())?.filter(|slot| seen.insert(*slot)));
        }
    }
    Ok(())
}

/// Returns the messages that a summary itself removed; empty if the slot is not a summary.
pub(super) fn hidden_directly(
    records: &Records,
    summary: CommitId,
) -> Plan<impl Iterator<Item = CommitId>> {
    // A slot is a name, not a link: its commit may not be stored.
    let commit = records.commit_if_stored(summary)?;
    let changes = match commit.filter(|commit| matches!(commit.op, Op::Compress { .. })) {
        Some(commit) => records.changes(commit)?,
        None => &[],
    };
    Ok(changes.iter().filter_map(move |change| match change {
        Change::Remove { slot, .. } => Some(slot.resolve(summary)),
        Change::Add { .. } | Change::Version { .. } | Change::Mark { .. } => None,
    }))
}

/// Returns all messages under a summary, including those under nested summaries; empty if the slot
/// is not a summary.
pub(super) fn covered(records: &Records, summary: CommitId) -> Plan<Vec<CommitId>> {
    let mut out = Vec::new();
    let mut seen = HashSet::from([summary]);
    let mut open = vec![summary];
    while let Some(slot) = open.pop() {
        let removed = hidden_directly(records, slot)?;
        let removed: Vec<CommitId> = removed.filter(|removed| seen.insert(*removed)).collect();
        records.ensure(removed.iter().copied())?;
        out.extend(removed.iter().copied());
        open.extend(removed);
    }
    Ok(out)
}
