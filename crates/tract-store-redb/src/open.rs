//! Opens a store file; creates it if the options allow it.

use std::path::Path;

use redb::{Builder, Database, ReadableDatabase, TableHandle};
use tract_core::store::{
    OpenedFile, ThreadedStore, remove_unfinished, remove_unfinished_names, resolve_path,
    unfinished_path,
};
use tract_core::{StoreErrorKind, StoreResult};
use tract_kv::{KvStore, Space, files};

use crate::engine::{File, RedbEngine, table};
use crate::error::{BACKEND, contained, engine, io, new};
use crate::file::{FileHandle, release};
use crate::header;

/// A store in one redb file.
pub type RedbStore = KvStore<RedbEngine>;

/// Options for opening a store. Its engine keeps up to 64 MiB in memory.
pub type RedbOptions = files::FileOptions;

/// Maximum cache size, in bytes.
pub(crate) const CACHE_BYTES: usize = 64 << 20;

/// Opens a store, or creates one if the options allow it.
///
/// # Errors
/// `NoStore` if there is none, `NotAStore` for other files, `TooNew` for a format of a newer
/// version, `Busy` if it is open elsewhere for longer than the timeout, `Corrupt` for a damaged
/// file, `Unavailable` if the operating system refuses access or if a file opened for reading needs
/// repair. A file that is readable but not writable is opened for reading.
pub fn open(
    path: impl AsRef<Path>,
    options: &RedbOptions,
) -> StoreResult<ThreadedStore<RedbStore>> {
    let engine = open_engine(path.as_ref(), options)?;
    Ok(ThreadedStore::new(KvStore::new(engine)?, options.write_mode))
}

pub(crate) fn open_engine(path: &Path, options: &RedbOptions) -> StoreResult<RedbEngine> {
    let path = resolve_path(BACKEND, path)?;
    let (file, opened) = open_file(&path, options).map_err(files::at(&path))?;
    Ok(RedbEngine::new(options, file, opened))
}

pub(crate) fn open_file(path: &Path, options: &RedbOptions) -> StoreResult<(File, OpenedFile)> {
    let exists = inspect(path)?;
    if !exists && (!options.create || options.read_only) {
        return Err(files::no_store(BACKEND, path));
    }
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    files::open_with_timeout(options.busy_timeout, || {
        contained("open", || {
            if options.read_only {
                return read_only(&builder, path);
            }
            if !exists {
                create(&builder, path)?;
            }
            // Before the file is opened for writing, because redb writes to it then.
            check_foreign(&builder, path)?;
            let opened = match FileHandle::open(path, false) {
                // It can still be read; writes are rejected.
                Err(error) if is_unwritable(&error) => return read_only(&builder, path),
                opened => writable(&builder, path, opened.map_err(io("open"))?)?,
            };
            remove_unfinished_names(path);
            remove_unfinished(path);
            Ok(opened)
        })
    })
}

fn writable(builder: &Builder, path: &Path, handle: FileHandle) -> StoreResult<(File, OpenedFile)> {
    let database = builder.create_with_backend(handle.clone()).map_err(engine("open"))?;
    let opened = OpenedFile::of(path.to_owned(), handle.file());
    let checked = require_same_file(&opened).and_then(|()| check_tables(&database));
    if let Err(error) = checked {
        release(database);
        return Err(error);
    }
    Ok((File::Writable(database, Some(handle)), opened))
}

fn read_only(builder: &Builder, path: &Path) -> StoreResult<(File, OpenedFile)> {
    let handle = FileHandle::open_read_only(path).map_err(io("open"))?;
    let file = builder.open_read_only_with_backend(handle.clone()).map_err(engine("open"))?;
    let opened = OpenedFile::of(path.to_owned(), handle.file());
    require_same_file(&opened)?;
    check_tables(&file)?;
    Ok((File::ReadOnly(file), opened))
}

/// Checks, once the file is locked, that its path still leads to it. The process that held the lock
/// before may have replaced the file; then the next attempt opens the new one.
fn require_same_file(opened: &OpenedFile) -> StoreResult<()> {
    if opened.is_in_place() {
        return Ok(());
    }
    Err(new(StoreErrorKind::Busy, "open", "the file was replaced while it was being opened"))
}

/// Returns whether an error means that a file cannot be written.
fn is_unwritable(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

/// Returns whether the file may be a store. An empty one is not a store yet.
fn inspect(path: &Path) -> StoreResult<bool> {
    use std::io::Read;
    let not_a_store = |found: &str| {
        let message = format!("expected a redb file, found {found}: {}", path.display());
        Err(new(StoreErrorKind::NotAStore, "open", message))
    };
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(io("open")(error)),
    };
    if metadata.is_dir() {
        return not_a_store("a folder");
    }
    if metadata.len() == 0 {
        return Ok(false);
    }
    let mut start = Vec::new();
    let file = std::fs::File::open(path).map_err(io("open"))?;
    file.take(header::LEN).read_to_end(&mut start).map_err(io("open"))?;
    if !start.starts_with(header::MAGIC) {
        return not_a_store("another file");
    }
    if header::is_set_back(&start) {
        let message = "the header names an older state of the file than the newest";
        return Err(new(StoreErrorKind::Corrupt { object: None }, "open", message));
    }
    Ok(true)
}

/// Creates the file under a temporary name and links it to its final name when it is complete. If
/// the process is killed, it leaves no partial file. If two processes create a file at once, the
/// second opens the first one's.
fn create(builder: &Builder, path: &Path) -> StoreResult<()> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(io("open"))?;
    remove_unfinished(path);
    if !path.exists() {
        let unfinished = unfinished_path(path);
        let created = FileHandle::open(&unfinished, true).map_err(io("open"))?;
        let created = builder.create_with_backend(created).map_err(engine("open"))?;
        // Still locked, so that no process removes it before it has its final name.
        let linked = std::fs::hard_link(&unfinished, path);
        let removed = std::fs::remove_file(&unfinished).map_err(io("open"));
        created.close().map_err(engine("open"))?;
        removed?;
        match linked {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            // Not all file systems support hard links.
            Err(_) => drop(builder.create(path).map_err(engine("open"))?),
        }
    }
    // Make the name durable too.
    files::sync_folder(folder);
    Ok(())
}

/// Rejects redb files of other programs before anything is written to them. A file that needs
/// repair cannot be read yet; it is checked after the repair.
fn check_foreign(builder: &Builder, path: &Path) -> StoreResult<()> {
    // An empty file is turned into a database in place.
    if std::fs::metadata(path).is_ok_and(|found| found.len() == 0) {
        return Ok(());
    }
    match builder.open_read_only(path) {
        Ok(file) => check_tables(&file),
        Err(redb::DatabaseError::RepairAborted) => Ok(()),
        Err(error) => Err(engine("open")(error)),
    }
}

fn check_tables(file: &impl ReadableDatabase) -> StoreResult<()> {
    let transaction = file.begin_read().map_err(engine("open"))?;
    let tables = transaction.list_tables().map_err(engine("open"))?;
    for found in tables {
        let ours = |space: &Space| {
            let table = table(*space);
            table.name() == found.name()
        };
        if !Space::ALL.iter().any(ours) {
            let message = format!("expected the tables of a store, found \"{}\"", found.name());
            return Err(new(StoreErrorKind::NotAStore, "open", message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tract_core::{Store, block_on};

    use super::*;

    #[test]
    fn unfinished_files_of_killed_processes_are_removed_and_files_in_use_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.redb");
        let at = |name: &str| folder.path().join(name);
        let own = format!("agent.redb.{}.new", std::process::id());
        for name in ["agent.redb.7.new", own.as_str(), "agent.redb.x.new", "other.redb.7.new"] {
            std::fs::write(at(name), "redb, half made").unwrap();
        }
        let making = redb::Database::create(at("agent.redb.8.new")).unwrap();
        let options = RedbOptions { create: true, ..RedbOptions::default() };
        drop(open(&path, &options).unwrap());
        let mut left: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let theirs = ["agent.redb", "agent.redb.8.new", "agent.redb.x.new", "other.redb.7.new"];
        assert_eq!(left, theirs);
        drop(making);
        // Killed after the file got its name, and before its first name was removed.
        std::fs::hard_link(&path, at("agent.redb.9.new")).unwrap();
        // A wipe that was killed left its new file.
        std::fs::write(at("agent.redb.10.new"), "redb, half made").unwrap();
        drop(open(&path, &RedbOptions::default()).unwrap());
        assert!(!at("agent.redb.9.new").exists() && path.exists());
        assert!(!at("agent.redb.10.new").exists() && !at("agent.redb.8.new").exists());
    }

    #[test]
    fn a_process_that_waited_while_the_file_was_replaced_opens_the_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.redb");
        let store = open(&path, &RedbOptions { create: true, ..RedbOptions::default() }).unwrap();
        // Another process has opened the file and waits for the lock.
        let waiting = FileHandle::open(&path, false).unwrap();
        block_on(store.wipe()).unwrap();
        let impatient = RedbOptions { busy_timeout: Duration::ZERO, ..RedbOptions::default() };
        let error = open(&path, &impatient).expect_err("the new file is locked");
        assert_eq!(error.kind, StoreErrorKind::Busy);
        block_on(store.close()).unwrap();
        // It gets the lock of the old file, which was unlinked.
        let error = writable(&Database::builder(), &path, waiting).err().expect("an error");
        assert_eq!(error.kind, StoreErrorKind::Busy, "{error}");
        assert!(open(&path, &impatient).is_ok());
    }
}
