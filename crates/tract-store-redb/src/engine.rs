//! A redb file as an engine of ordered keys.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use bytes::Bytes;
use redb::{
    Database, ReadOnlyDatabase, ReadableDatabase, Table, TableDefinition, WriteTransaction,
};
use tract_core::store::{
    Capabilities, Damage, OpenedFile, Ownership, WipeReport, remove_copies, unfinished_path,
};
use tract_core::{StoreError, StoreErrorKind, StoreResult};
use tract_kv::{
    Durability, KvBatch, KvEngine, KvEntry, KvJoining, KvOutcome, KvRead, Scan, Space, Visit, files,
};

use crate::copy;
use crate::error::{BACKEND, contained, engine, io, new};
use crate::file::{FileHandle, release};
use crate::open::{RedbOptions, open_file};
use crate::scratch::Scratch;
use crate::snapshot::{self, Snapshot};

/// Cache size of a check, in bytes.
const CHECK_CACHE_BYTES: usize = 16 << 20;

/// Returns the table of a space. The names are part of the format.
pub(crate) const fn table(space: Space) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(match space {
        Space::Commits => "tract-commits-1",
        Space::Blobs => "tract-blobs-1",
        Space::Index => "tract-index-1",
        Space::Small => "tract-small-1",
        Space::Log => "tract-log-1",
    })
}

/// The opened file.
pub(crate) enum File {
    /// A database with its file; `None` if a test uses another backend.
    Writable(Database, Option<FileHandle>),
    ReadOnly(ReadOnlyDatabase),
}

/// A redb file. [`open`](crate::open) creates a store from it.
pub struct RedbEngine {
    path: PathBuf,
    options: RedbOptions,
    file: RwLock<Option<File>>,
    /// The open file and its path.
    opened: Mutex<OpenedFile>,
}

impl fmt::Debug for RedbEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbEngine").field("path", &self.path).finish_non_exhaustive()
    }
}

/// An unfinished file, which is removed when this is dropped: on an error, and when redb panics on a
/// full disk, where the file would keep the space that is missing.
struct Unfinished<'a>(&'a Path);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0);
    }
}

/// Adds the required space to an error of a wipe on a full disk. The new file has at most about the
/// size of the old one.
pub(crate) fn with_space_needed(mut error: StoreError, path: &Path) -> StoreError {
    if error.kind == StoreErrorKind::Full {
        let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
        let folder = path.parent().unwrap_or(path).display();
        error.message.push_str(&format!(
            "; the wipe writes a new file: make {bytes} bytes free in {folder} and try again, or \
             `tract copy` to a store on another disk and delete this one"
        ));
    }
    error
}

/// Returns the database if it is writable.
fn writable<'f>(file: &'f Option<File>, op: &'static str) -> StoreResult<&'f Database> {
    match file {
        Some(File::Writable(database, _)) => Ok(database),
        Some(File::ReadOnly(_)) => {
            Err(new(StoreErrorKind::ReadOnly, op, "the store is open for reading only"))
        }
        None => Err(files::closed(BACKEND, op)),
    }
}

impl RedbEngine {
    pub(crate) fn new(options: &RedbOptions, file: File, opened: OpenedFile) -> Self {
        let path = opened.path().to_owned();
        let (file, opened) = (RwLock::new(Some(file)), Mutex::new(opened));
        // A file that is reopened must exist.
        let options = RedbOptions { create: false, ..options.clone() };
        Self { path, options, file, opened }
    }

    /// Returns the absolute path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fails writes as a full disk does, until the file is opened again.
    #[cfg(test)]
    pub(crate) fn fill_disk(&self) {
        if let Some(File::Writable(_, Some(handle))) = &*self.file() {
            handle.fill_disk();
        }
    }

    fn file(&self) -> RwLockReadGuard<'_, Option<File>> {
        // Panics of redb are caught before they reach the lock.
        self.file.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self) -> MutexGuard<'_, OpenedFile> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the file may be written, and lets redb's writes reach it. See [`FileHandle`] for
    /// the writes that are held until then.
    fn start_writing<'f>(
        &self,
        file: &'f Option<File>,
        op: &'static str,
    ) -> StoreResult<&'f Database> {
        let database = writable(file, op)?;
        self.opened().require_writable(BACKEND, op)?;
        if let Some(File::Writable(_, Some(handle))) = file {
            handle.start_writing().map_err(io(op))?;
        }
        Ok(database)
    }

    /// Writes all stored data to a new file with the same access rights, and renames it over the old
    /// one.
    fn replace_file(&self, file: &mut Option<File>, op: &'static str) -> StoreResult<()> {
        let snapshot = self.start_writing(file, op)?.begin_read().map_err(engine(op))?;
        let folder = self.path.parent().unwrap_or(&self.path);
        let part = unfinished_path(&self.path);
        let handle =
            FileHandle::create_like(&part, &self.path, Ownership::Required).map_err(io(op))?;
        let unfinished = Unfinished(&part);
        let written = copy::write_to(handle.clone(), &snapshot, self.options.quick_repair, op);
        drop(snapshot);
        // Both files are locked during the rename. A process that waits for the lock of the old
        // file checks afterwards that the path still leads to it, and then opens the new one.
        let replaced =
            written.and_then(|database| match std::fs::rename(&part, &self.path).map_err(io(op)) {
                Ok(()) => Ok(database),
                Err(error) => {
                    release(database);
                    Err(error)
                }
            });
        let database = replaced?;
        // Its name is gone, so this removes nothing.
        drop(unfinished);
        files::sync_folder(folder);
        *self.opened() = OpenedFile::of(self.path.clone(), handle.file());
        if let Some(File::Writable(old, _)) = file.replace(File::Writable(database, Some(handle))) {
            // Its file was unlinked.
            release(old);
        }
        Ok(())
    }
}

type Writing<'t> = Table<'t, &'static [u8], &'static [u8]>;

/// The tables of a write transaction, with its changes.
struct Tables<'t>([Writing<'t>; Space::ALL.len()]);

impl<'t> Tables<'t> {
    fn open(transaction: &'t WriteTransaction) -> StoreResult<Self> {
        let open = |space| transaction.open_table(table(space)).map_err(engine("apply"));
        let [commits, blobs, index, small, log] = Space::ALL.map(open);
        Ok(Self([commits?, blobs?, index?, small?, log?]))
    }

    /// Checks the required values, then writes. Returns the conflict if there is one.
    fn put(&mut self, batch: &KvBatch) -> StoreResult<Option<KvOutcome>> {
        if let Some(conflict) = batch.check(self)? {
            return Ok(Some(conflict));
        }
        for KvEntry { space, key, value } in &batch.writes {
            let table = &mut self.0[*space as usize];
            match value {
                Some(value) => drop(table.insert(&**key, &**value).map_err(engine("apply"))?),
                None => drop(table.remove(&**key).map_err(engine("apply"))?),
            }
        }
        Ok(None)
    }
}

/// Writes a batch and those that join it. Returns the conflict if there is one.
fn put_all(
    transaction: &WriteTransaction,
    batch: &KvBatch,
    joining: &mut KvJoining<'_>,
) -> StoreResult<Option<KvOutcome>> {
    let mut tables = Tables::open(transaction)?;
    let mut conflict = tables.put(batch)?;
    while conflict.is_none()
        && let Some(joined) = joining(&tables)
    {
        conflict = tables.put(&joined)?;
    }
    Ok(conflict)
}

impl KvRead for Tables<'_> {
    fn get(&self, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>> {
        snapshot::get(&self.0[space as usize], key)
    }

    fn scan(&self, scan: &Scan, visit: &mut Visit<'_>) -> StoreResult<()> {
        snapshot::scan(&self.0[scan.space as usize], scan, visit)
    }
}

impl KvEngine for RedbEngine {
    const NAME: &'static str = BACKEND;

    fn capabilities(&self) -> Capabilities {
        Capabilities::ONE_PROCESS
    }

    fn read(&self) -> StoreResult<Box<dyn KvRead + '_>> {
        let file = self.file();
        let transaction = contained("read", || match &*file {
            Some(File::Writable(database, _)) => database.begin_read().map_err(engine("read")),
            Some(File::ReadOnly(database)) => database.begin_read().map_err(engine("read")),
            None => Err(files::closed(BACKEND, "read")),
        })?;
        Ok(Box::new(Snapshot::new(transaction, file)))
    }

    fn write(&self, batch: &KvBatch, durability: Durability) -> StoreResult<KvOutcome> {
        self.write_joined(batch, durability, &mut |_| None)
    }

    fn write_joined(
        &self,
        batch: &KvBatch,
        durability: Durability,
        joining: &mut KvJoining<'_>,
    ) -> StoreResult<KvOutcome> {
        let file = self.file();
        contained("apply", || {
            let database = self.start_writing(&file, "apply")?;
            let mut transaction = database.begin_write().map_err(engine("apply"))?;
            match durability {
                Durability::Immediate => {
                    // The second phase makes a torn commit detectable, so that redb does not take
                    // an older state for the newest.
                    transaction.set_two_phase_commit(true);
                    transaction.set_quick_repair(self.options.quick_repair);
                }
                Durability::Eventual => transaction
                    .set_durability(redb::Durability::None)
                    .map_err(|error| engine("apply")(redb::Error::from(error)))?,
            }
            if let Some(conflict) = put_all(&transaction, batch, joining)? {
                transaction.abort().map_err(engine("apply"))?;
                return Ok(conflict);
            }
            transaction.commit().map_err(engine("apply"))?;
            Ok(KvOutcome::Committed)
        })
        .map_err(files::at(&self.path))
    }

    fn disk_bytes(&self) -> StoreResult<u64> {
        std::fs::metadata(&self.path).map(|file| file.len()).map_err(|error| {
            let error = StoreError::from(error);
            new(error.kind.clone(), "stats", error.message.clone()).with_source(error)
        })
    }

    /// Moves pages to the front of the file and truncates it. Waits for all reads and writes, and
    /// blocks new ones.
    fn release_space(&self) -> StoreResult<Option<String>> {
        const OP: &str = "release_space";
        let mut file = self.file.write().unwrap_or_else(PoisonError::into_inner);
        contained(OP, || {
            self.start_writing(&file, OP)?;
            if let Some(File::Writable(database, _)) = &mut *file {
                database.compact().map_err(engine(OP))?;
            }
            Ok(None)
        })
        .map_err(files::at(&self.path))
    }

    /// Writes all stored data to a new file, which then replaces the old one, because redb does not
    /// overwrite freed pages. Waits for all reads and writes, and blocks new ones.
    fn wipe(&self) -> StoreResult<WipeReport> {
        const OP: &str = "wipe";
        let mut file = self.file.write().unwrap_or_else(PoisonError::into_inner);
        contained(OP, || self.replace_file(&mut file, OP))
            .map_err(|error| with_space_needed(files::at(&self.path)(error), &self.path))?;
        Ok(remove_copies(&self.path))
    }

    /// Checks every page and the lists of free pages. The check writes, so it runs on a copy in
    /// memory. Waits for a write in progress, and blocks new ones.
    fn check(&self) -> StoreResult<Vec<Damage>> {
        let file = self.file();
        let checked = contained("check", || {
            // A writer would change pages while the check reads them, and they would look damaged.
            let _writing = match &*file {
                Some(File::Writable(database, _)) => {
                    Some(database.begin_write().map_err(engine("check"))?)
                }
                Some(File::ReadOnly(_)) => None,
                None => return Err(files::closed(BACKEND, "check")),
            };
            let scratch = Scratch::open(&self.path).map_err(io("check"))?;
            let mut builder = Database::builder();
            builder.set_cache_size(CHECK_CACHE_BYTES);
            let mut copy = builder.create_with_backend(scratch).map_err(engine("check"))?;
            let checked = copy.check_integrity().map_err(engine("check"));
            release(copy);
            checked
        });
        let damage = |what: String| Ok(vec![Damage { object: None, what, derived: false }]);
        match checked {
            Ok(true) => Ok(Vec::new()),
            Ok(false) => damage("the file's own records of its pages are wrong".to_owned()),
            Err(error) if matches!(error.kind, StoreErrorKind::Corrupt { .. }) => {
                damage(error.message)
            }
            Err(error) => Err(error),
        }
    }

    fn keep_copy(&self, format: u32) -> StoreResult<()> {
        let file = self.file();
        contained("migrate", || match &*file {
            Some(File::Writable(database, _)) => {
                let snapshot = database.begin_read().map_err(engine("migrate"))?;
                copy::keep(&self.path, &snapshot, format)
            }
            Some(File::ReadOnly(_)) => {
                let message = format!(
                    "the store has format {format}, an earlier one: open it for writing once, which \
                     brings it to the present one and leaves a copy"
                );
                Err(new(StoreErrorKind::ReadOnly, "migrate", message))
            }
            None => Err(files::closed(BACKEND, "migrate")),
        })
    }

    fn reopen(&self) -> StoreResult<bool> {
        let mut file = self.file.write().unwrap_or_else(PoisonError::into_inner);
        match file.take() {
            // Release its lock on the file first. It must not write again: its pages may be the
            // ones whose writes failed.
            Some(File::Writable(database, Some(_))) => release(database),
            None => {}
            other => {
                *file = other;
                return Ok(false);
            }
        }
        let (fresh, opened) =
            open_file(&self.path, &self.options).map_err(files::at(&self.path))?;
        *file = Some(fresh);
        *self.opened() = opened;
        Ok(true)
    }

    fn close(&self) -> StoreResult<()> {
        let file = self.file.write().unwrap_or_else(PoisonError::into_inner).take();
        contained("close", || match file {
            Some(File::Writable(database, Some(handle))) if !handle.has_written() => {
                release(database);
                Ok(())
            }
            Some(File::Writable(database, _)) => database.close().map_err(engine("close")),
            Some(File::ReadOnly(database)) => database.close().map_err(engine("close")),
            None => Ok(()),
        })
    }
}

impl Drop for RedbEngine {
    fn drop(&mut self) {
        // Dropping a database writes to the file. With a damaged file that must not panic, so close
        // it first.
        let _ = self.close();
    }
}
