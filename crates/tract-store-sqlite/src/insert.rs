//! Writes checked batches to the tables.

use std::collections::HashMap;
use std::sync::Mutex;

use rusqlite::blob::ZeroBlob;
use tract_compression::{MIN_BYTES, MIN_BYTES_OF_FEW};
use tract_core::{
    Blob, BlobId, Commit, CommitId, DerivedRow, ObjectId, RefName, RefTarget, RepoName, StoreError,
    StoreErrorKind, StoreResult, ToolRow, Toolset,
};

use crate::error::{BACKEND, engine, new};
use crate::known::WIDE;
use crate::memory::{IdMap, Memory, TextName, lock};
use crate::schema::{
    DERIVED, REPO, TOOL, TOOL_NAME, TOOLSET, UNLOGGED, blob_segment, place, prefix, small_sum,
    text_key,
};
use crate::sweep;
use crate::tools;
use crate::write::{Checked, OP, Tx};

/// Larger blobs are written in place, because SQLite copies bound values twice.
const LARGE_BYTES: usize = 1 << 20;

/// Number of blobs up to which a batch waits for the disk far longer than for compressing them.
const FEW: usize = 8;

/// Facts that become true, and may be cached, once a transaction is durable.
#[derive(Debug, Default)]
pub(crate) struct CommittedState {
    pub(crate) repos: HashMap<String, i64>,
    pub(crate) places: IdMap<(i64, ObjectId), i64>,
    /// Refs as moved by the earlier batches of this group. The write lock keeps other writers out,
    /// so they cannot become stale within the transaction.
    pub(crate) refs: HashMap<i64, HashMap<RefName, Option<RefTarget>>>,
    pub(crate) texts: IdMap<TextName, i64>,
    /// The next segment for commits, once it has been queried.
    next_segment: Option<i64>,
    /// The next row of a repository's log. `next_blob` is the next row for loose blobs, which are
    /// not the content of a commit.
    pub(crate) next_entry: IdMap<i64, i64>,
    next_blob: IdMap<i64, i64>,
}

impl CommittedState {
    /// Adds the facts to the handle's cache.
    pub(crate) fn remember(self, memory: &Mutex<Memory>) {
        let mut memory = lock(memory);
        self.repos.into_iter().for_each(|(name, repo)| memory.repos.insert(name, repo));
        self.next_entry.into_iter().for_each(|(repo, next)| memory.next_entry.insert(repo, next));
        self.places.into_iter().for_each(|(key, place)| memory.places.insert(key, place));
        self.texts.into_iter().for_each(|(key, row)| memory.texts.insert(key, row));
    }
}

impl Tx<'_> {
    /// Writes a batch. After an error it may be partly written, so the transaction must be rolled
    /// back.
    pub(crate) fn write(
        &mut self,
        name: &RepoName,
        repo: Option<i64>,
        checked: Checked<'_>,
    ) -> StoreResult<()> {
        let Checked { batch, records, new: known, moves } = checked;
        if batch.objects().next().is_none() && batch.derived.is_empty() && moves.is_empty() {
            return Ok(());
        }
        let repo = match repo {
            Some(repo) => repo,
            None => self.new_repo(name)?,
        };
        self.fresh.places.reserve(batch.blobs.len() + batch.commits.len());
        self.min_bytes = if batch.blobs.len() <= FEW { MIN_BYTES_OF_FEW } else { MIN_BYTES };
        let mut blobs = IdMap::with_capacity_and_hasher(batch.blobs.len(), Default::default());
        // Most blobs of a large import are new. One statement for many of them proves that, instead
        // of a lookup for each.
        for some in batch.blobs.chunks(WIDE) {
            let all_new = known.blob || self.surely_new(repo, some)?;
            for blob in some {
                let stored = if all_new { None } else { self.reader(repo).row_of(blob)? };
                let damaged = match stored {
                    None if !all_new => self.reader(repo).damaged_blob(blob.id())?,
                    Some(_) | None => None,
                };
                if let Some(row) = stored {
                    self.fresh.places.insert((repo, ObjectId::Blob(blob.id())), row);
                } else if let Some(row) = damaged {
                    self.replace_blob(repo, row, blob)?;
                } else {
                    blobs.insert(blob.id(), blob);
                }
            }
        }
        // A child of a new commit is new too, because no commit is stored without its parents.
        let mut new: Option<CommitId> = None;
        for (at, (commit, record)) in batch.commits.iter().zip(&records).enumerate() {
            let follows_new = new.is_some_and(|new| commit.parents.contains(&new));
            let is_new = follows_new || (known.commit && at == 0);
            if self.commit(repo, commit, record, is_new, &mut blobs)? {
                new = Some(commit.id());
            }
        }
        // In batch order, so that equal batches produce equal files.
        for blob in &batch.blobs {
            if blobs.remove(&blob.id()).is_some() {
                let row = self.next_blob(repo)?;
                self.blob(repo, row, blob)?;
            }
        }
        batch.toolsets.iter().try_for_each(|toolset| self.toolset(repo, toolset))?;
        batch.tools.iter().try_for_each(|tool| self.tool(repo, tool))?;
        batch.derived.iter().try_for_each(|row| self.derived(repo, row))?;
        let has_objects =
            !(batch.blobs.is_empty() && batch.commits.is_empty() && batch.toolsets.is_empty());
        if has_objects && (moves.is_empty() || batch.stores_ahead()) {
            self.count(repo, UNLOGGED)?;
        }
        let made = moves.iter().filter(|moved| moved.edit.to.is_some());
        let erased: Vec<BlobId> = made.filter_map(|made| made.edit.name.erased_blob()).collect();
        for moved in moves {
            self.move_ref(repo, moved, batch.id, &batch.note)?;
        }
        if !erased.is_empty() {
            self.erase(repo, &erased)?;
        }
        Ok(())
    }

    pub(crate) fn new_repo(&mut self, name: &RepoName) -> StoreResult<i64> {
        let sql = "SELECT count(*) FROM small WHERE repo = 0 AND kind = ?1";
        // Repositories are never deleted, so their count is the last number. The write lock keeps
        // others from taking the same one.
        let number = self.number(sql, &[&REPO])?.unwrap_or(0) + 1;
        let bytes = name.as_str().as_bytes();
        let data = [&number.to_le_bytes(), bytes].concat();
        self.small(0, REPO, text_key(bytes), &data)?;
        self.fresh.repos.insert(name.as_str().to_owned(), number);
        Ok(number)
    }

    pub(crate) fn small(
        &mut self,
        repo: i64,
        kind: i64,
        key: i64,
        data: &[u8],
    ) -> StoreResult<i64> {
        let sum = small_sum(repo, kind, key, data);
        let sql = "INSERT INTO small (repo, kind, key, data, sum) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.execute(sql, &[&repo, &kind, &key, &data, &sum])?;
        Ok(self.connection.last_insert_rowid())
    }

    /// Replaces the data of the rows with a kind and key. Returns the number of rows.
    fn replace_small(&mut self, repo: i64, kind: i64, key: i64, data: &[u8]) -> StoreResult<usize> {
        let sum = small_sum(repo, kind, key, data);
        let sql = "UPDATE small SET data = ?4, sum = ?5 WHERE repo = ?1 AND kind = ?2 AND key = ?3";
        self.execute(sql, &[&repo, &kind, &key, &data, &sum])
    }

    pub(crate) fn blob(&mut self, repo: i64, row: i64, blob: &Blob) -> StoreResult<()> {
        let h = prefix(blob.id().as_bytes());
        let sql = "INSERT INTO blobs (id, repo, h, data) VALUES (?1, ?2, ?3, ?4)";
        let stored = tract_compression::encode_from(blob.bytes(), self.min_bytes);
        let bytes = stored.as_ref();
        if bytes.len() > LARGE_BYTES {
            self.execute(sql, &[&row, &repo, &h, &ZeroBlob(bytes.len() as u64)])?;
            let opened = self.connection.blob_open("main", "blobs", "data", row, false);
            let mut stored = opened.map_err(engine(OP))?;
            stored.write_all_at(bytes, 0).map_err(engine(OP))?;
            stored.close().map_err(engine(OP))?;
        } else {
            self.execute(sql, &[&row, &repo, &h, &bytes])?;
        }
        self.fresh.places.insert((repo, ObjectId::Blob(blob.id())), row);
        Ok(())
    }

    pub(crate) fn next_blob(&mut self, repo: i64) -> StoreResult<i64> {
        let segment = blob_segment(repo);
        let next = match self.fresh.next_blob.get(&repo) {
            Some(next) => *next,
            None => {
                let sql = "SELECT max(id) FROM blobs WHERE id >= ?1 AND id < ?2";
                let (low, high) = (place(segment, 0), place(segment + 1, 0));
                let last: Option<i64> =
                    self.reader(repo).find_row(sql, [low, high], |row| row.get(0))?;
                last.map_or(low, |last| last + 1)
            }
        };
        if next >> 32 != segment {
            let message = "a repository holds 4,294,967,296 blobs that are no commit's content";
            return Err(new(StoreErrorKind::TooLarge, OP, message));
        }
        self.fresh.next_blob.insert(repo, next + 1);
        Ok(next)
    }

    /// Finds a commit by its record. A damaged one is ignored. Skips the cache, because most
    /// commits are new.
    pub(crate) fn stored_commit(
        &mut self,
        repo: i64,
        id: CommitId,
        record: &[u8],
    ) -> StoreResult<Option<i64>> {
        let sql = "SELECT id FROM commits WHERE repo = ?1 AND h = ?2 AND rec = ?3";
        let stored = self.number(sql, &[&repo, &prefix(id.as_bytes()), &record])?;
        if let Some(at) = stored {
            self.fresh.places.insert((repo, ObjectId::Commit(id)), at);
        }
        Ok(stored)
    }

    /// Stores a commit directly after its parent if that place is free, otherwise in a new segment,
    /// together with its content if that is new. Returns whether the commit was new.
    fn commit(
        &mut self,
        repo: i64,
        commit: &Commit,
        record: &[u8],
        is_new: bool,
        blobs: &mut IdMap<BlobId, &Blob>,
    ) -> StoreResult<bool> {
        if !is_new && self.stored_commit(repo, commit.id(), record)?.is_some() {
            return Ok(false);
        }
        let object = ObjectId::Commit(commit.id());
        let h = prefix(commit.id().as_bytes());
        let own = commit.content.and_then(|id| blobs.remove(&id));
        // 0 means the commit's own place. The blob is written there below.
        let content = match (own, commit.content) {
            (Some(_), _) => Some(0),
            (None, Some(id)) => self.place(repo, ObjectId::Blob(id))?,
            (None, None) => None,
        };
        let parent = commit.parent().and_then(|id| self.known_place(repo, ObjectId::Commit(id)));
        // A sweep may leave a blob at a place without a commit. That place is not free.
        let sql = if self.sweeps > 0 {
            "INSERT OR IGNORE INTO commits (id, repo, h, content, rec) \
             SELECT ?1, ?2, ?3, ?4, ?5 WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE id = ?1)"
        } else {
            "INSERT OR IGNORE INTO commits (id, repo, h, content, rec) \
             VALUES (?1, ?2, ?3, ?4, ?5)"
        };
        // The primary key decides which child follows a parent: the insert is the compare-and-swap
        // on the tip of a segment. The last position stays unused, so that `place + 1` never
        // overflows into the next segment.
        let after = parent.map(|parent| parent + 1).filter(|at| *at as u32 != u32::MAX);
        let at = match after {
            Some(at) if self.execute(sql, &[&at, &repo, &h, &content, &record])? == 1 => at,
            _ => {
                let lost = match (own, content) {
                    (None, Some(content)) => self.lost_with_content(repo, commit, content)?,
                    _ => None,
                };
                let at = match lost {
                    Some(at) => at,
                    None => place(self.next_segment()?, 0),
                };
                self.execute(sql, &[&at, &repo, &h, &content, &record])?;
                at
            }
        };
        if let Some(blob) = own {
            self.blob(repo, at, blob)?;
        }
        self.fresh.places.insert((repo, object), at);
        Ok(true)
    }

    pub(crate) fn next_segment(&mut self) -> StoreResult<i64> {
        let next = match self.fresh.next_segment {
            Some(next) => next,
            None => {
                let last = self.number("SELECT id FROM commits ORDER BY id DESC LIMIT 1", &[])?;
                // Segments of commits are even. The odd ones belong to the repositories' other
                // blobs, so neither can run into the other.
                let next = last.map_or(2, |last| (last >> 32) + 2);
                if self.sweeps > 0 { self.after_blobs(next)? } else { next }
            }
        };
        if next > i64::from(i32::MAX) - 2 {
            return Err(new(StoreErrorKind::TooLarge, OP, "the store has no segments left"));
        }
        self.fresh.next_segment = Some(next + 2);
        Ok(next)
    }

    /// Returns the first segment from `next` on that contains no blobs left by a sweep.
    fn after_blobs(&mut self, mut next: i64) -> StoreResult<i64> {
        let sql = "SELECT 1 FROM blobs WHERE id >= ?1 AND id < ?2 LIMIT 1";
        while self.number(sql, &[&place(next, 0), &place(next + 1, 0)])?.is_some() {
            next += 2;
        }
        Ok(next)
    }

    /// Increments a count of a repository.
    pub(crate) fn count(&mut self, repo: i64, kind: i64) -> StoreResult<i64> {
        let counted = sweep::count(self.reader(repo), kind)?;
        let data = (counted + 1).to_le_bytes();
        if counted == 0 {
            self.small(repo, kind, 0, &data)?;
        } else {
            self.replace_small(repo, kind, 0, &data)?;
        }
        Ok(counted + 1)
    }

    fn toolset(&mut self, repo: i64, toolset: &Toolset) -> StoreResult<()> {
        let object = ObjectId::Toolset(toolset.id());
        if self.known_place(repo, object).is_some() {
            return Ok(());
        }
        let (key, data) = (prefix(toolset.id().as_bytes()), toolset.encode());
        let (rows, _) = self.reader(repo).small(TOOLSET, key)?;
        let row = match rows.into_iter().find(|row| row.data == data) {
            Some(row) => row.id,
            None => self.small(repo, TOOLSET, key, &data)?,
        };
        self.fresh.places.insert((repo, object), row);
        Ok(())
    }

    pub(crate) fn tool(&mut self, repo: i64, tool: &ToolRow) -> StoreResult<()> {
        let key = prefix(tool.id.as_bytes());
        let (rows, _) = self.reader(repo).small(TOOL, key)?;
        let known: Vec<_> = rows
            .iter()
            .filter_map(|row| tools::decode(&row.data))
            .filter(|row| row.id == tool.id)
            .collect();
        if known.iter().any(|row| row.schema == tool.schema) {
            return Ok(());
        }
        self.small(repo, TOOL, key, &tools::encode(tool))?;
        if known.is_empty() {
            let name = tool.name.as_bytes();
            let data = [tool.id.as_bytes(), name].concat();
            self.small(repo, TOOL_NAME, text_key(name), &data)?;
        }
        Ok(())
    }

    fn derived(&mut self, repo: i64, row: &DerivedRow) -> StoreResult<()> {
        let kind = DERIVED + i64::from(row.kind.number());
        let object = ObjectId::Commit(row.commit);
        let key =
            self.place(repo, object)?.ok_or_else(|| StoreError::missing(BACKEND, OP, object))?;
        // Update first: a row that is written again, such as a snapshot of the index, is the usual
        // case, and an insert would leave two rows with one key.
        match self.replace_small(repo, kind, key, &row.bytes)? {
            0 => self.small(repo, kind, key, &row.bytes).map(drop),
            _ => Ok(()),
        }
    }
}
