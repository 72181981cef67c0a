//! Erasure: blobs are deleted in the same write as the erasure ref, which also blocks their return,
//! and are then wiped from the file.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Mutex;

use rusqlite::Connection;
use tract_core::store::{WipeReport, remove_copies, require_space};
use tract_core::{Batch, BlobId, ObjectId, RefName, StoreError, StoreErrorKind, StoreResult};

use crate::error::{BACKEND, engine, new};
use crate::memory::{Memory, lock};
use crate::read::RepoReader;
use crate::schema::SWEEPS;
use crate::sweep::{self, LogRows};
use crate::write::{OP, Tx};
use crate::{repack, stats};

impl Tx<'_> {
    /// Returns whether a blob is erased. Skips the query if the store never deleted anything.
    fn is_erased(&mut self, repo: i64, blob: BlobId) -> StoreResult<bool> {
        Ok(self.sweeps > 0 && self.target(repo, &RefName::erasure(blob))?.is_some())
    }

    /// Rejects a batch that contains an erased blob, unless the batch also lifts the erasure.
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

    /// Returns the error for a needed object that is not stored, or `Ok` if the batch itself erases
    /// it.
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

    /// Deletes blobs. Also counts a sweep, which invalidates cached places.
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

/// Returns the erased blobs of a repository. A damaged ref is reported by the check of the refs.
pub(crate) fn erased(reader: RepoReader<'_>) -> HashSet<BlobId> {
    let listed = reader.list_refs(RefName::erasures());
    let refs = listed.map(|(refs, _)| refs).unwrap_or_default();
    refs.iter().filter_map(|(name, _)| name.erased_blob()).collect()
}

/// Removes deleted data from the file, and dictionaries that may contain parts of it.
pub(crate) fn wipe(connection: &Connection, memory: &Mutex<Memory>) -> StoreResult<WipeReport> {
    const OP: &str = "wipe";
    for name in stats::repos(connection)? {
        if let Some(reader) = RepoReader::new(connection, OP, 0).named(&name)? {
            repack::remove_stale(connection, memory, reader.repo)?;
        }
    }
    let rewritten = rewrite(connection, OP);
    let copies = connection.path().map(|path| remove_copies(Path::new(path)));
    rewritten.map(|()| copies.unwrap_or_default())
}

/// Rewrites the file without free pages and empties the log. SQLite writes the new pages to an
/// unnamed temporary file, and then through the log over the old ones.
///
/// # Errors
/// `Busy` while others read the store. The new pages are then in the log, which SQLite moves over
/// the old ones when the last of them closes the store.
pub(crate) fn rewrite(connection: &Connection, op: &'static str) -> StoreResult<()> {
    // First move the pages of the log into the file, so that less room is needed. If others read
    // them, all new pages come after them in the log.
    let _ = emptied(connection, op)?;
    let folder = connection.path().and_then(|path| Path::new(path).parent());
    if let Some(folder) = folder {
        let number = |name: &str| {
            connection
                .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
                .map_err(engine(op))
        };
        let pages = number("page_count")?.saturating_sub(number("freelist_count")?);
        // The pages are written twice: to the temporary file and to the log.
        let bytes = pages.saturating_mul(number("page_size")?).saturating_mul(2);
        require_space(BACKEND, op, folder, bytes.unsigned_abs())?;
    }
    vacuum(connection, folder).map_err(engine(op))?;
    // The new pages are in the log until now; the file still has the old ones.
    if emptied(connection, op)? {
        return Ok(());
    }
    let message = "others are reading the store, so its files have the bytes until they close it";
    Err(new(StoreErrorKind::Busy, op, message))
}

/// `temp_store_directory` is a process-wide setting in SQLite, so only one thread may change it.
static TEMPORARY_FOLDER: Mutex<()> = Mutex::new(());

/// Vacuums with a temporary file in a folder instead of in memory.
fn vacuum(connection: &Connection, folder: Option<&Path>) -> rusqlite::Result<()> {
    let _alone = lock(&TEMPORARY_FOLDER);
    let set = |folder: &str| connection.pragma_update(None, "temp_store_directory", folder);
    // If the path is not UTF-8, SQLite uses the system's folder.
    set(folder.and_then(Path::to_str).unwrap_or_default())?;
    let vacuumed = connection.execute_batch("PRAGMA temp_store = FILE; VACUUM");
    let reset = connection.execute_batch("PRAGMA temp_store = MEMORY").and_then(|()| set(""));
    vacuumed.and(reset)
}

/// Moves the pages of the log into the file. Returns whether the log is empty then: it is not while
/// others read older pages.
fn emptied(connection: &Connection, op: &'static str) -> StoreResult<bool> {
    let busy: i64 = connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .map_err(engine(op))?;
    Ok(busy == 0)
}
