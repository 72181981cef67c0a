//! Reads the ref log for undo: the moves of a ref, newest first, and those of an operation.

use std::collections::{BTreeMap, HashSet, VecDeque};

use tract_core::store::LogQuery;
use tract_core::{BatchId, LogEntry, OperationId, RefName, RefTarget};

use super::UNDO;
use crate::repo::Repo;
use crate::repo::error::Result;
use crate::verbs::merge::decisions_ref;

/// Consecutive moves of one ref by one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The sequence number of the oldest move.
    pub(super) first: u64,
    /// The target before the oldest move.
    pub(super) before: Option<RefTarget>,
    /// The target after the newest move.
    pub(super) after: Option<RefTarget>,
}

/// The ref log of a repository.
pub(super) struct History<'a>(pub(super) &'a Repo);

/// Maximum number of entries per read.
const ENTRIES: usize = 4096;

impl History<'_> {
    async fn read(&self, query: &LogQuery) -> Result<Vec<LogEntry>> {
        Ok(self.0.store().ref_log(self.0.name(), query).await?)
    }

    /// Returns the newest move of a ref; with `before`, the newest one below that sequence number.
    pub(super) async fn newest(
        &self,
        name: &RefName,
        before: Option<u64>,
    ) -> Result<Option<LogEntry>> {
        let query = LogQuery { name: Some(name.clone()), before, limit: 1, ..LogQuery::default() };
        Ok(self.read(&query).await?.into_iter().next())
    }

    /// Returns whether a write moved any ref.
    pub(super) async fn has(&self, batch: BatchId) -> Result<bool> {
        let query = LogQuery { batch: Some(batch), limit: 1, ..LogQuery::default() };
        Ok(!self.read(&query).await?.is_empty())
    }

    /// Returns an entry of the operation that an undo reverted, or of the undo that a redo
    /// reverted.
    pub(super) async fn undone_by(&self, of: &LogEntry) -> Result<Option<LogEntry>> {
        let Some(seq) = of.note.undoes else { return Ok(None) };
        let before = Some(seq.saturating_add(1));
        let query = LogQuery { before, limit: 1, ..LogQuery::default() };
        Ok(self.read(&query).await?.into_iter().next().filter(|entry| entry.seq == seq))
    }

    /// Collects the moves of an entry's operation per ref, oldest first.
    pub(super) async fn segments(&self, of: &LogEntry) -> Result<BTreeMap<RefName, Vec<Segment>>> {
        let mut sum = OperationMoves::new(of);
        // Read pages of the operation's batches up to the first empty one.
        for page in 0.. {
            let prefix = of.note.operation.batch_prefix(page);
            let query = LogQuery { batch_prefix: Some(prefix), ..LogQuery::default() };
            let entries = self.read(&query).await?;
            if entries.is_empty() {
                break;
            }
            sum.add(entries);
        }
        // The entry itself is the proof: if its operation had used pages, it would be on one of
        // them.
        if !sum.complete {
            // Older versions gave batches no common prefix, so read the whole log.
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

/// The moves of one operation, collected as they are read.
struct OperationMoves<'a> {
    of: &'a LogEntry,
    /// Whether the entry `of` was among them.
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

/// Returns the refs to undo together: the branch, and the ref of its merge decisions.
pub(super) fn refs_of(name: &RefName) -> Vec<RefName> {
    let of_merges = name.branch_name().and_then(|_| decisions_ref(name).ok());
    std::iter::once(name.clone()).chain(of_merges).collect()
}

/// The moves of one ref, newest first, read in pages.
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

    /// Returns the sequence number of the next entry.
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
    /// The logs of the ref and of the merge decisions of the branch.
    logs: Vec<LogOfRef>,
    /// Operations that were reverted or already returned.
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

    /// Returns the newest entry of the last operation that was not reverted. Entries of the
    /// `reverting` verbs are skipped, together with the operations that they reverted.
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

/// Returns whether the entry was written by an undo.
pub(super) fn is_undo(entry: &LogEntry) -> bool {
    entry.note.what == UNDO && entry.note.undoes.is_some()
}
