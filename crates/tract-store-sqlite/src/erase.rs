//! Erasing: blobs that are deleted with the write that says so, kept out from then on, and wiped
//! from the file.

use std::collections::HashSet;
use std::sync::Mutex;

use rusqlite::Connection;
use tract_core::store::WipeReport;
use tract_core::{Batch, BlobId, ObjectId, RefName, StoreError, StoreErrorKind, StoreResult};

use crate::error::{BACKEND, engine, new};
use crate::memory::{Memory, lock};
use crate::read::RepoReader;
use crate::schema::SWEEPS;
use crate::sweep::{self, LogRows};
use crate::write::{OP, Tx};
use crate::{repack, stats};

impl Tx<'_> {
    /// Returns whether a blob is erased. A store that never deleted anything is not asked.
    fn is_erased(&mut self, repo: i64, blob: BlobId) -> StoreResult<bool> {
        Ok(self.sweeps > 0 && self.target(repo, &RefName::erasure(blob))?.is_some())
    }

    /// Refuses a batch that brings an erased blob, unless it ends the erasure.
    pub(crate) fn check_brought(&mut self, repo: i64, batch: &Batch) -> StoreResult<()> {
        for blob in &batch.blobs {
            let refused = batch.erases(blob.id())
                || (self.is_erased(repo, blob.id())? && !batch.allows_again(blob.id()));
            if refused {
                return Err(StoreError::erased(BACKEND, OP, blob.id()));
            }
        }
        Ok(())
    }

    /// Decides on an object that a batch needs and that is not stored.
    pub(crate) fn check_absent(
        &mut self,
        repo: Option<i64>,
        batch: &Batch,
        object: ObjectId,
        is_link: bool,
    ) -> StoreResult<()> {
        if let ObjectId::Blob(blob) = object {
            if is_link && batch.erases(blob) {
                return Ok(());
            }
            if let Some(repo) = repo
                && self.is_erased(repo, blob)?
            {
                return Err(StoreError::erased(BACKEND, OP, blob));
            }
        }
        Err(StoreError::missing(BACKEND, OP, object))
    }

    /// Deletes blobs, and forgets where they lay.
    pub(crate) fn erase(&mut self, repo: i64, blobs: &[BlobId]) -> StoreResult<()> {
        let mut log_rows = LogRows::default();
        log_rows.extend(RepoReader::new(self.connection, sweep::OP, repo))?;
        for blob in blobs {
            self.delete(repo, ObjectId::Blob(*blob), &log_rows)?;
            self.fresh.places.remove(&(repo, ObjectId::Blob(*blob)));
        }
        self.distrust_dictionaries(repo)?;
        self.sweeps = self.count(0, SWEEPS)?;
        lock(self.memory).forget_swept(self.sweeps);
        Ok(())
    }
}

/// Lists the erased blobs of a repository; those whose ref is damaged are reported with it.
pub(crate) fn erased(reader: RepoReader<'_>) -> HashSet<BlobId> {
    let listed = reader.list_refs(RefName::erasures());
    let refs = listed.map(|(refs, _)| refs).unwrap_or_default();
    refs.iter().filter_map(|(name, _)| name.erased_blob()).collect()
}

/// Removes what was deleted from the file, and the dictionaries that were trained on it.
pub(crate) fn wipe(connection: &Connection, memory: &Mutex<Memory>) -> StoreResult<WipeReport> {
    const OP: &str = "wipe";
    for name in stats::repos(connection)? {
        if let Some(reader) = RepoReader::new(connection, OP, 0).named(&name)? {
            repack::remove_stale(connection, memory, reader.repo)?;
        }
    }
    rewrite(connection, OP)?;
    Ok(WipeReport::default())
}

/// Writes the file again without what is free in it, and empties the log of writes.
pub(crate) fn rewrite(connection: &Connection, op: &'static str) -> StoreResult<()> {
    // What the log holds is in the file first, so that the new file replaces all of it.
    checkpoint(connection, op)?;
    connection.execute_batch("VACUUM").map_err(engine(op))?;
    checkpoint(connection, op)
}

fn checkpoint(connection: &Connection, op: &'static str) -> StoreResult<()> {
    let busy: i64 = connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .map_err(engine(op))?;
    if busy == 0 {
        return Ok(());
    }
    let message = "others are reading the store, so its log still holds the bytes";
    Err(new(StoreErrorKind::Busy, op, message))
}
