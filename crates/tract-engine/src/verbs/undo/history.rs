//! The ref log as undo reads it: the moves of a ref, newest first, and those of an operation.

use std::collections::{BTreeMap, HashSet, VecDeque};

use tract_core::store::LogQuery;
use tract_core::{BatchId, LogEntry, OperationId, RefName, RefTarget};

use super::UNDO;
use crate::repo::Repo;
use crate::repo::error::Result;
use crate::verbs::merge::decisions_ref;

/// Moves of one ref by one operation that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The number of the oldest.
    pub(super) first: u64,
    /// Where the ref was before it.
    pub(super) before: Option<RefTarget>,
    /// Where the newest left it.
    pub(super) after: Option<RefTarget>,
}

/// The ref log of a repository.
pub(super) struct History<'a>(pub(super) &'a Repo);

/// How many entries are read at once.
const ENTRIES: usize = 4096;

impl History<'_> {
    async fn read(&self, query: &LogQuery) -> Result<Vec<LogEntry>> {
        Ok(self.0.store().ref_log(self.0.name(), query).await?)
    }

    /// Returns the newest move of a ref, below a number where one is given.
    pub(super) async fn newest(
        &self,
        name: &RefName,
        before: Option<u64>,
    ) -> Result<Option<LogEntry>> {
        let query = LogQuery { name: Some(name.clone()), before, limit: 1, ..LogQuery::default() };
        Ok(self.read(&query).await?.into_iter().next())
    }

    /// Whether a write moved anything.
    pub(super) async fn has(&self, batch: BatchId) -> Result<bool> {
        let query = LogQuery { batch: Some(batch), limit: 1, ..LogQuery::default() };
        Ok(!self.read(&query).await?.is_empty())
    }

    /// Returns an entry of the operation that an undo reverted, or of the undo that a redo did.
    pub(super) async fn undone_by(&self, of: &LogEntry) -> Result<Option<LogEntry>> {
        let Some(seq) = of.note.undoes else { return Ok(None) };
        let before = Some(seq.saturating_add(1));
        let query = LogQuery { before, limit: 1, ..LogQuery::default() };
        Ok(self.read(&query).await?.into_iter().next().filter(|entry| entry.seq == seq))
    }

    /// Sums up what the operation of an entry moved, for each ref, oldest first.
    pub(super) async fn segments(&self, of: &LogEntry) -> Result<BTreeMap<RefName, Vec<Segment>>> {
        let mut sum = OperationMoves::new(of);
        // Page after page of the operation's writes, up to an empty one.
        for page in 0.. {
            let prefix = of.note.operation.batch_prefix(page);
            let query = LogQuery { batch_prefix: Some(prefix), ..LogQuery::default() };
            let entries = self.read(&query).await?;
            if entries.is_empty() {
                break;
            }
            sum.add(entries);
        }
        if !sum.complete {
            // Written by a version that gave its writes no common beginning: the whole log is read.
            sum = OperationMoves::new(of);
            let mut before = None;
            loop {
                let query = LogQuery { before, limit: ENTRIES, ..LogQuery::default() };
                let entries = self.read(&query).await?;
                let Some(last) = entries.last() else { break };
                before = Some(last.seq);
                sum.add(entries);
            }
        }
        Ok(sum.segments())
    }
}

/// The moves of one operation, as they are read.
struct OperationMoves<'a> {
    of: &'a LogEntry,
    /// Whether the entry that names the operation was among them.
    complete: bool,
    parts: BTreeMap<RefName, Vec<Segment>>,
}

impl<'a> OperationMoves<'a> {
    fn new(of: &'a LogEntry) -> Self {
        Self { of, complete: false, parts: BTreeMap::new() }
    }

    /// Adds entries, newest first.
    fn add(&mut self, entries: Vec<LogEntry>) {
        let mut page: BTreeMap<RefName, Vec<Segment>> = BTreeMap::new();
        for entry in entries.into_iter().rev() {
            if entry.note.operation != self.of.note.operation {
                continue;
            }
            self.complete |= entry.seq == self.of.seq;
            let segments = page.entry(entry.name).or_default();
            match segments.last_mut() {
                Some(last) if last.after == entry.before => last.after = entry.after,
                _ => segments.push(Segment {
                    first: entry.seq,
                    before: entry.before,
                    after: entry.after,
                }),
            }
        }
        for (name, segments) in page {
            self.parts.entry(name).or_default().extend(segments);
        }
    }

    fn segments(mut self) -> BTreeMap<RefName, Vec<Segment>> {
        for segments in self.parts.values_mut() {
            segments.sort_by_key(|segment| segment.first);
        }
        self.parts
    }
}

/// The refs whose moves are undone by the name of one: a branch goes with the ref that moves with
/// decisions about its merges.
pub(super) fn refs_of(name: &RefName) -> Vec<RefName> {
    let of_merges = name.branch_name().and_then(|_| decisions_ref(name).ok());
    std::iter::once(name.clone()).chain(of_merges).collect()
}

/// The moves of one ref, read page after page, newest first.
struct LogOfRef {
    name: RefName,
    read: VecDeque<LogEntry>,
    before: Option<u64>,
    page: usize,
    ended: bool,
}

impl LogOfRef {
    fn new(name: RefName) -> Self {
        Self { name, read: VecDeque::new(), before: None, page: 4, ended: false }
    }

    /// Returns the number of the next entry.
    async fn front(&mut self, repo: &Repo) -> Result<Option<u64>> {
        if self.read.is_empty() && !self.ended {
            let name = Some(self.name.clone());
            let query =
                LogQuery { name, before: self.before, limit: self.page, ..LogQuery::default() };
            self.read = History(repo).read(&query).await?.into();
            self.page = (self.page * 4).min(ENTRIES);
            match self.read.back() {
                Some(last) => self.before = Some(last.seq),
                None => self.ended = true,
            }
        }
        Ok(self.read.front().map(|entry| entry.seq))
    }
}

/// The moves of one ref, newest first, without those that were reverted.
pub(super) struct RefMoves<'a> {
    repo: &'a Repo,
    /// The ref, and that of decisions about merges of the branch.
    logs: Vec<LogOfRef>,
    /// Operations that were reverted, or looked at.
    passed: HashSet<OperationId>,
}

impl<'a> RefMoves<'a> {
    pub(super) fn of(repo: &'a Repo, name: &'a RefName) -> Self {
        let logs = refs_of(name).into_iter().map(LogOfRef::new).collect();
        Self { repo, logs, passed: HashSet::new() }
    }

    /// Returns the next entry of an operation that was not passed yet.
    async fn next(&mut self) -> Result<Option<LogEntry>> {
        loop {
            let mut newest: Option<(u64, usize)> = None;
            for (place, log) in self.logs.iter_mut().enumerate() {
                if let Some(seq) = log.front(self.repo).await? {
                    newest = newest.max(Some((seq, place)));
                }
            }
            let entry = newest.and_then(|(_, place)| self.logs.get_mut(place)?.read.pop_front());
            let Some(entry) = entry else { return Ok(None) };
            if self.passed.insert(entry.note.operation) {
                return Ok(Some(entry));
            }
        }
    }

    /// Returns the newest entry of the last operation that was not reverted; what these verbs did is
    /// passed over together with what they reverted.
    pub(super) async fn last(&mut self, reverting: &[&str]) -> Result<Option<LogEntry>> {
        while let Some(entry) = self.next().await? {
            if entry.note.undoes.is_none() || !reverting.contains(&entry.note.what.as_str()) {
                return Ok(Some(entry));
            }
            let target = History(self.repo).undone_by(&entry).await?;
            self.passed.extend(target.map(|target| target.note.operation));
        }
        Ok(None)
    }
}

/// Whether an entry is of an undo.
pub(super) fn is_undo(entry: &LogEntry) -> bool {
    entry.note.what == UNDO && entry.note.undoes.is_some()
}
