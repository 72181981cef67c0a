//! Refs and the ref log.
//!
//! An entry of the log is a dozen small integers. Texts and objects are referenced by row numbers,
//! which never change.

use std::collections::HashMap;

use rusqlite::params;
use tract_core::store::{ListKind, LogQuery};
use tract_core::{
    BatchId, BlobId, CommitId, LogEntry, LogNote, OperationId, RefName, RefTarget, RepoName,
    StoreResult,
};

use crate::error::damaged;
use crate::read::{Columns, RepoReader};
use crate::schema::{REPO, TEXT, log_base, log_sum, ref_sum, small_sum, text_key};

/// The kinds of `before` and `after` in an entry.
pub(crate) const NONE: i64 = 0;
/// The place of a commit.
pub(crate) const COMMIT: i64 = 1;
/// The row of a blob.
pub(crate) const BLOB: i64 = 2;
/// The row of a text with the encoded target: another ref, or an object that is not stored.
pub(crate) const TARGET: i64 = 3;

/// An entry in its stored form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Raw {
    pub(crate) id: i64,
    pub(crate) name: i64,
    /// The kind of `before` times four, plus the kind of `after`.
    pub(crate) kinds: i64,
    /// The distance to `after` if both are commits, usually 1; otherwise the value for its kind.
    pub(crate) before: i64,
    pub(crate) after: i64,
    pub(crate) batch: (i64, i64),
    /// `None` if it is the same as the batch id.
    pub(crate) operation: Option<[u8; 16]>,
    pub(crate) what: i64,
    pub(crate) who: i64,
    pub(crate) why: Option<i64>,
    pub(crate) undoes: Option<i64>,
    pub(crate) at: i64,
}

impl Raw {
    /// Returns the checksum.
    pub(crate) fn sum(&self) -> i64 {
        let absent = i64::MIN;
        let numbers = [
            self.id,
            self.name,
            self.kinds,
            self.before,
            self.after,
            self.batch.0,
            self.batch.1,
            self.what,
            self.who,
            self.why.unwrap_or(absent),
            self.undoes.unwrap_or(absent),
            self.at,
        ];
        log_sum(&numbers, self.operation.as_ref().map(<[u8; 16]>::as_slice))
    }

    /// Reads a row of [`COLUMNS`]; `None` if it is damaged.
    pub(crate) fn read(row: &Columns<'_>) -> StoreResult<Option<Self>> {
        let Ok(operation) = row.maybe_bytes(7)?.map(<[u8; 16]>::try_from).transpose() else {
            return Ok(None);
        };
        let raw = Self {
            id: row.get(0)?,
            name: row.get(1)?,
            kinds: row.get(2)?,
            before: row.get(3)?,
            after: row.get(4)?,
            batch: (row.get(5)?, row.get(6)?),
            operation,
            what: row.get(8)?,
            who: row.get(9)?,
            why: row.get(10)?,
            undoes: row.get(11)?,
            at: row.get(12)?,
        };
        Ok((raw.sum() == row.number(13)?).then_some(raw))
    }
}

/// Splits a batch id into the two numbers stored in the log.
pub(crate) fn batch_numbers(id: BatchId) -> (i64, i64) {
    let number = u128::from_be_bytes(*id.as_bytes());
    ((number >> 64) as u64 as i64, number as u64 as i64)
}

fn batch_id(numbers: (i64, i64)) -> BatchId {
    let (high, low) = numbers;
    BatchId::from_bytes((u128::from(high as u64) << 64 | u128::from(low as u64)).to_be_bytes())
}

/// Resolves the row numbers in log entries to texts and objects.
struct LogReader<'c> {
    reader: RepoReader<'c>,
    texts: HashMap<i64, Option<Vec<u8>>>,
    targets: HashMap<(i64, i64), Option<RefTarget>>,
}

impl<'c> LogReader<'c> {
    fn new(reader: RepoReader<'c>) -> Self {
        Self { reader, texts: HashMap::new(), targets: HashMap::new() }
    }

    fn bytes(&mut self, id: i64) -> StoreResult<Option<Vec<u8>>> {
        if let Some(text) = self.texts.get(&id) {
            return Ok(text.clone());
        }
        let sql = "SELECT key, data, sum FROM small WHERE id = ?1 AND repo = ?2 AND kind = ?3";
        let repo = self.reader.repo;
        let text = self.reader.find_row(sql, params![id, repo, TEXT], |row| {
            let (key, data) = (row.number(0)?, row.bytes(1)?);
            let is_sound = small_sum(repo, TEXT, key, data) == row.number(2)?;
            Ok(is_sound.then(|| data.to_vec()))
        })?;
        self.texts.insert(id, text.clone());
        Ok(text)
    }

    fn text(&mut self, id: i64) -> StoreResult<Option<String>> {
        Ok(self.bytes(id)?.and_then(|bytes| String::from_utf8(bytes).ok()))
    }

    /// Reads the old or new target of a ref; `None` if it is damaged.
    fn side(&mut self, kind: i64, value: i64) -> StoreResult<Option<Option<RefTarget>>> {
        if kind == NONE { Ok(Some(None)) } else { Ok(self.target(kind, value)?.map(Some)) }
    }

    fn target(&mut self, kind: i64, value: i64) -> StoreResult<Option<RefTarget>> {
        if let Some(target) = self.targets.get(&(kind, value)) {
            return Ok(target.clone());
        }
        let target = match kind {
            COMMIT => {
                let id = self.reader.id_at(ListKind::Commits, value)?;
                id.map(|id| RefTarget::Commit(CommitId::from_bytes(id)))
            }
            BLOB => {
                let id = self.reader.id_at(ListKind::Blobs, value)?;
                id.map(|id| RefTarget::Blob(BlobId::from_bytes(id)))
            }
            _ => self.bytes(value)?.as_deref().and_then(RefTarget::decode),
        };
        self.targets.insert((kind, value), target.clone());
        Ok(target)
    }

    /// Reads the entry of a row, with its number.
    fn entry_of(&mut self, row: &Columns<'_>) -> StoreResult<(u64, Option<LogEntry>)> {
        let seq = (row.number(0)? - log_base(self.reader.repo)) as u64;
        let entry = match Raw::read(row)? {
            None => None,
            Some(raw) => self.entry(&raw)?,
        };
        Ok((seq, entry))
    }

    /// Reads one entry; `None` if any part of it is damaged.
    fn entry(&mut self, raw: &Raw) -> StoreResult<Option<LogEntry>> {
        let (before, after) = (raw.kinds >> 2, raw.kinds & 3);
        let from = match (before, after) {
            (COMMIT, COMMIT) => raw.after.wrapping_sub(raw.before),
            _ => raw.before,
        };
        let (before, after) = (self.side(before, from)?, self.side(after, raw.after)?);
        let (Some(before), Some(after)) = (before, after) else { return Ok(None) };
        let why = match raw.why {
            None => None,
            Some(id) => match self.text(id)? {
                None => return Ok(None),
                text => text,
            },
        };
        let name = self.text(raw.name)?.and_then(|name| RefName::new(name).ok());
        let (Some(name), Some(what), Some(who)) = (name, self.text(raw.what)?, self.text(raw.who)?)
        else {
            return Ok(None);
        };
        let batch = batch_id(raw.batch);
        Ok(Some(LogEntry {
            seq: (raw.id - log_base(self.reader.repo)) as u64,
            name,
            before,
            after,
            batch,
            note: LogNote {
                operation: OperationId::from_bytes(raw.operation.unwrap_or(*batch.as_bytes())),
                what,
                who,
                why,
                undoes: raw.undoes.map(|seq| seq as u64),
                at: raw.at,
            },
        }))
    }
}

pub(crate) const COLUMNS: &str =
    "id, ref, kinds, before, after, b1, b2, operation, what, who, why, undoes, at, sum";

/// The intact refs, and the names of the damaged ones.
pub(crate) type RefListing = (Vec<(RefName, RefTarget)>, Vec<String>);

impl RepoReader<'_> {
    /// Finds the row of a text.
    pub(crate) fn text_row(self, text: &[u8]) -> StoreResult<Option<i64>> {
        let (rows, _) = self.small(TEXT, text_key(text))?;
        Ok(rows.into_iter().find(|row| row.data == text).map(|row| row.id))
    }

    /// Reads the log, newest first.
    pub(crate) fn ref_log(self, query: &LogQuery) -> StoreResult<Vec<LogEntry>> {
        let name = match &query.name {
            None => None,
            Some(name) => match self.text_row(name.as_str().as_bytes())? {
                None => return Ok(Vec::new()),
                row => row,
            },
        };
        let below = query.before.and_then(|seq| i64::try_from(seq).ok()).unwrap_or(1 << 40);
        let low = log_base(self.repo);
        let high = low.saturating_add(below.min((1 << 40) + 1));
        let (b1, b2) = query.batch.map(batch_numbers).unzip();
        let prefix = query.batch_prefix.map(i64::from_be_bytes);
        if b1.is_some_and(|b1| prefix.is_some_and(|prefix| prefix != b1)) {
            return Ok(Vec::new());
        }
        let b1 = b1.or(prefix);
        let by = match (b1, b2) {
            (Some(_), Some(_)) => "b1 = ?4 AND b2 = ?5 AND ",
            (Some(_), None) => "b1 = ?4 AND ?5 IS NULL AND ",
            (None, _) => "?4 IS NULL AND ?5 IS NULL AND ",
        };
        let sql = format!(
            "SELECT {COLUMNS} FROM ref_log WHERE {by}id > ?1 AND id < ?2 \
             AND (?3 IS NULL OR ref = ?3) ORDER BY id DESC"
        );
        let mut reader = LogReader::new(self);
        let mut entries = Vec::new();
        self.find_row(&sql, params![low, high, name, b1, b2], |row| {
            let (seq, entry) = reader.entry_of(&row)?;
            entries.push(entry.ok_or_else(|| damaged(self.op, format!("entry {seq} is damaged")))?);
            Ok((entries.len() == query.limit).then_some(()))
        })?;
        Ok(entries)
    }

    /// Visits all entries, oldest first, with `None` for damaged ones.
    pub(crate) fn replay(self, mut each: impl FnMut(u64, Option<LogEntry>)) -> StoreResult<()> {
        let (low, high) = (log_base(self.repo), log_base(self.repo + 1));
        let sql = format!("SELECT {COLUMNS} FROM ref_log WHERE id > ?1 AND id <= ?2 ORDER BY id");
        let mut reader = LogReader::new(self);
        self.each_row(&sql, params![low, high], |row| {
            let (seq, entry) = reader.entry_of(&row)?;
            each(seq, entry);
            Ok(())
        })
    }

    /// Reads one ref.
    pub(crate) fn target(self, name: &RefName) -> StoreResult<Option<RefTarget>> {
        let sql = "SELECT target, sum FROM refs WHERE repo = ?1 AND name = ?2";
        self.find_row(sql, params![self.repo, name.as_str()], |row| {
            let target = row.bytes(0)?;
            let is_sound = ref_sum(self.repo, name.as_str(), target) == row.number(1)?;
            match RefTarget::decode(target).filter(|_| is_sound) {
                Some(target) => Ok(Some(target)),
                None => Err(damaged(self.op, format!("the ref {name} is damaged"))),
            }
        })
    }

    /// Returns the refs whose names start with `prefix`.
    pub(crate) fn list_refs(self, prefix: &str) -> StoreResult<RefListing> {
        let sql = "SELECT name, target, sum FROM refs WHERE repo = ?1 AND name >= ?2 ORDER BY name";
        let (mut sound, mut bad) = (Vec::new(), Vec::new());
        self.find_row(sql, params![self.repo, prefix], |row| {
            let name = String::from_utf8_lossy(row.bytes(0)?).into_owned();
            if !name.starts_with(prefix) {
                return Ok(Some(()));
            }
            let target = row.bytes(1)?;
            let is_sound = ref_sum(self.repo, &name, target) == row.number(2)?;
            match RefName::new(name.as_str()).ok().zip(RefTarget::decode(target)) {
                Some(read) if is_sound => sound.push(read),
                _ => bad.push(name),
            }
            Ok(None)
        })?;
        Ok((sound, bad))
    }

    /// Finds a repository by its name.
    pub(crate) fn named(self, name: &RepoName) -> StoreResult<Option<Self>> {
        let bytes = name.as_str().as_bytes();
        let (rows, bad) = Self { repo: 0, ..self }.small(REPO, text_key(bytes))?;
        let found = rows.iter().find_map(|row| {
            let (number, stored) = row.data.split_first_chunk::<8>()?;
            (stored == bytes).then(|| Self { repo: i64::from_le_bytes(*number), ..self })
        });
        match found {
            None if bad => {
                Err(damaged(self.op, format!("the row of repository {name} is damaged")))
            }
            found => Ok(found),
        }
    }
}
