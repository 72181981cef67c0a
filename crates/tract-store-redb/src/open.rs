//! Opening: what lies at the path decides.

use std::path::Path;

use redb::{Builder, Database, ReadableDatabase, TableHandle};
use tract_core::store::ThreadedStore;
use tract_core::{StoreErrorKind, StoreResult};
use tract_kv::{KvStore, Space, files};

use crate::engine::{File, RedbEngine, table};
use crate::error::{BACKEND, contained, engine, io, new};
use crate::{header, leftovers};

/// A store in one redb file.
pub type RedbStore = KvStore<RedbEngine>;

/// How a store is opened; its engine keeps up to 64 MiB in memory.
pub type RedbOptions = files::FileOptions;

/// How many bytes of the file are kept in memory at most.
pub(crate) const CACHE_BYTES: usize = 64 << 20;

/// Opens a store, or makes one where the options say so.
///
/// # Errors
/// `NoStore` when there is none, `NotAStore` for anything else that lies there, `TooNew` for a
/// format of a later version, `Busy` when it is open elsewhere for longer than the timeout,
/// `Corrupt` for a damaged file, `Unavailable` when the operating system refuses or when a file
/// to be read only needs repair. A file that may be read and not written is opened for reading.
pub fn open(
    path: impl AsRef<Path>,
    options: &RedbOptions,
) -> StoreResult<ThreadedStore<RedbStore>> {
    let engine = open_engine(path.as_ref(), options)?;
    Ok(ThreadedStore::new(KvStore::new(engine)?, options.write_mode))
}

pub(crate) fn open_engine(path: &Path, options: &RedbOptions) -> StoreResult<RedbEngine> {
    let path = files::absolute(BACKEND, path)?;
    let opened = open_file(&path, options).map_err(files::at(&path));
    Ok(RedbEngine::new(path.clone(), options, opened?))
}

fn open_file(path: &Path, options: &RedbOptions) -> StoreResult<File> {
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
            if exists {
                check_foreign(&builder, path)?;
                let file = match builder.open(path) {
                    // It can be read all the same; writes are refused.
                    Err(error) if is_unwritable(&error) => return read_only(&builder, path),
                    opened => opened.map_err(engine("open"))?,
                };
                check_tables(&file)?;
                leftovers::remove_links(path);
                return Ok(File::Writable(file));
            }
            create(&builder, path)
        })
    })
}

fn read_only(builder: &Builder, path: &Path) -> StoreResult<File> {
    let file = builder.open_read_only(path).map_err(engine("open"))?;
    check_tables(&file)?;
    Ok(File::ReadOnly(file))
}

/// Whether an error says that a file cannot be written.
fn is_unwritable(error: &redb::DatabaseError) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match error {
        redb::DatabaseError::Storage(redb::StorageError::Io(error)) => {
            matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
        }
        _ => false,
    }
}

/// Says whether there is a file that may be a store; an empty one is none yet.
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

/// Makes the file under a temporary name and renames it when it is whole: a process that is killed
/// meanwhile leaves no half of a file, and of two that make one at once the second opens the first
/// one's.
fn create(builder: &Builder, path: &Path) -> StoreResult<File> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(io("open"))?;
    leftovers::remove(path);
    if !path.exists() {
        let unfinished = leftovers::unfinished(path);
        let made = builder.create(&unfinished).map_err(engine("open"))?;
        made.close().map_err(engine("open"))?;
        let linked = std::fs::hard_link(&unfinished, path);
        std::fs::remove_file(&unfinished).map_err(io("open"))?;
        match linked {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            // Not every file system has links.
            Err(_) => drop(builder.create(path).map_err(engine("open"))?),
        }
    }
    // An empty file becomes a database where it lies.
    let file = builder.create(path).map_err(engine("open"))?;
    check_tables(&file)?;
    // The name must last as well.
    files::sync_folder(folder);
    Ok(File::Writable(file))
}

/// Refuses what other programs keep in a redb file before anything is written to it. A file that
/// needs repair cannot be read before it was repaired; it is judged then.
fn check_foreign(builder: &Builder, path: &Path) -> StoreResult<()> {
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
