//! Undo and redo: stepping refs back and forth along the ref log.
//!
//! An entry of an undo names the operation that it took back; the next undo goes on from there,
//! and a redo goes forth again.

use std::collections::BTreeMap;

use tract_core::store::LogQuery;
use tract_core::{Expect, LogEntry, OperationId, RefName, RefTarget};

use crate::error::{Error, Result};
use crate::repo::Repo;
use crate::txn::Txn;
use crate::write::WriteOptions;

/// A ref that was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefMove {
    /// The ref.
    pub name: RefName,
    /// Where it stood; `None` when there was none.
    pub before: Option<RefTarget>,
    /// Where it stands; `None` when it is gone.
    pub after: Option<RefTarget>,
}

/// What was undone or redone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undone {
    /// The verb of the operation that was taken back, or done again.
    pub what: String,
    /// The operation.
    pub operation: OperationId,
    /// What moved, sorted by name.
    pub moves: Vec<RefMove>,
}

/// The verbs that the ref log tells.
const UNDO: &str = "undo";
const REDO: &str = "redo";

/// How many entries of others may stand between two of one operation.
const APART: u64 = 256;

impl Repo {
    /// Takes back the last operation that moved this ref, with all else that it moved. Commits
    /// stay; only refs step back.
    ///
    /// # Errors
    /// [`Error::NothingToUndo`]; [`Error::Conflict`] when a ref that has to step back was moved
    /// by somebody else since.
    pub async fn undo(&self, name: &RefName) -> Result<Undone> {
        let log = Log { repo: self, name };
        let mut before = None;
        let done = loop {
            let Some(entry) = log.newest(before).await? else {
                return Err(log.nothing_to(UNDO));
            };
            match (entry.note.what.as_str(), entry.note.undoes) {
                // What lies below an undone operation is what came before it.
                (UNDO, Some(undone)) => before = Some(log.first_of(undone).await?),
                (REDO, Some(undo)) => {
                    let undo = log.entry(undo).await?;
                    match undo.and_then(|undo| undo.note.undoes) {
                        Some(done) => match log.entry(done).await? {
                            Some(entry) => break entry,
                            None => return Err(log.nothing_to(UNDO)),
                        },
                        None => return Err(log.nothing_to(UNDO)),
                    }
                }
                _ => break entry,
            }
        };
        let entries = log.operation(&done).await?;
        let what = done.note.what.clone();
        self.step(UNDO, what, &done, &moves(&entries)).await
    }

    /// Does again what the last undo of this ref took back.
    ///
    /// # Errors
    /// As [`undo`](Self::undo); there is nothing to redo once something else was done.
    pub async fn redo(&self, name: &RefName) -> Result<Undone> {
        let log = Log { repo: self, name };
        let mut before = None;
        let undo = loop {
            let Some(entry) = log.newest(before).await? else {
                return Err(log.nothing_to(REDO));
            };
            match (entry.note.what.as_str(), entry.note.undoes) {
                (UNDO, Some(_)) => break entry,
                // That undo is done with; the one before it is next.
                (REDO, Some(undo)) => before = Some(log.first_of(undo).await?),
                _ => return Err(log.nothing_to(REDO)),
            }
        };
        let entries = log.operation(&undo).await?;
        let done = match undo.note.undoes {
            Some(done) => log.entry(done).await?,
            None => None,
        };
        let what = done.map_or_else(|| UNDO.to_owned(), |done| done.note.what);
        self.step(REDO, what, &undo, &moves(&entries)).await
    }

    /// Moves refs back from where an operation left them.
    async fn step(
        &self,
        verb: &'static str,
        what: String,
        of: &LogEntry,
        moves: &[RefMove],
    ) -> Result<Undone> {
        let mut txn = Txn::new(self)?;
        for step in moves {
            let found = txn.target(&step.name).await?;
            if found != step.before {
                let expected = step.before.clone().map_or(Expect::Absent, Expect::Is);
                return Err(Error::Conflict { name: step.name.clone(), expected, found });
            }
            txn.move_ref(&step.name, step.after.clone()).await?;
        }
        self.done(txn.apply_undoing(verb, &WriteOptions::default(), Some(of.seq)).await?)?;
        Ok(Undone { what, operation: of.note.operation, moves: moves.to_vec() })
    }
}

/// Sums up how to get back from what an operation moved.
fn moves(entries: &[LogEntry]) -> Vec<RefMove> {
    let mut sum: BTreeMap<RefName, (Option<RefTarget>, Option<RefTarget>)> = BTreeMap::new();
    // Newest first: the last entry seen of a ref tells where it came from. What a tool did stays
    // done, so its record stays too.
    for entry in entries.iter().filter(|entry| !entry.name.is_effect()) {
        sum.entry(entry.name.clone())
            .and_modify(|(before, _)| *before = entry.before.clone())
            .or_insert_with(|| (entry.before.clone(), entry.after.clone()));
    }
    let moved = sum.into_iter().filter(|(_, (before, after))| before != after);
    moved.map(|(name, (before, after))| RefMove { name, before: after, after: before }).collect()
}

/// The ref log as seen from one ref.
struct Log<'a> {
    repo: &'a Repo,
    name: &'a RefName,
}

impl Log<'_> {
    fn nothing_to(&self, what: &'static str) -> Error {
        Error::NothingToUndo { what, name: self.name.clone() }
    }

    async fn read(&self, query: LogQuery) -> Result<Vec<LogEntry>> {
        Ok(self.repo.store().ref_log(self.repo.name(), &query).await?)
    }

    /// Returns the newest move of the ref below a number.
    async fn newest(&self, before: Option<u64>) -> Result<Option<LogEntry>> {
        let name = Some(self.name.clone());
        let query = LogQuery { name, batch: None, before, limit: 1 };
        Ok(self.read(query).await?.into_iter().next())
    }

    /// Returns the entry with this number.
    async fn entry(&self, seq: u64) -> Result<Option<LogEntry>> {
        let query =
            LogQuery { before: Some(seq.saturating_add(1)), limit: 1, ..LogQuery::default() };
        Ok(self.read(query).await?.into_iter().next().filter(|entry| entry.seq == seq))
    }

    /// Returns the lowest number of the operation that an entry belongs to.
    async fn first_of(&self, seq: u64) -> Result<u64> {
        let Some(entry) = self.entry(seq).await? else { return Ok(seq) };
        let entries = self.operation(&entry).await?;
        Ok(entries.iter().map(|entry| entry.seq).min().unwrap_or(seq))
    }

    /// Returns all entries of the operation that an entry belongs to, newest first.
    async fn operation(&self, of: &LogEntry) -> Result<Vec<LogEntry>> {
        let mut entries = Vec::new();
        // The entry may stand in the middle of its operation.
        let mut before = of.seq.saturating_add(APART);
        let mut apart = 0;
        while entries.is_empty() || apart < APART {
            let query = LogQuery { before: Some(before), limit: 256, ..LogQuery::default() };
            let page = self.read(query).await?;
            let Some(last) = page.last() else { break };
            before = last.seq;
            for entry in page {
                match entry.note.operation == of.note.operation {
                    true => {
                        apart = 0;
                        entries.push(entry);
                    }
                    false => apart += 1,
                }
            }
        }
        Ok(entries)
    }
}
