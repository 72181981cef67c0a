//! Opens a store folder; creates it if the options allow it.

use std::ffi::OsStr;
use std::path::Path;

use tract_core::store::{
    OpenedFile, ThreadedStore, remove_unfinished as remove_unfinished_files, resolve_path,
};
use tract_core::{StoreErrorKind, StoreResult};
use tract_kv::{KvStore, files};

use crate::engine::{Folder, SledEngine};
use crate::error::{BACKEND, contained, engine, io, new};
use crate::flush::Flush;

/// A store in one sled folder.
pub type SledStore = KvStore<SledEngine>;

/// Options for opening a store. Its engine keeps up to 64 MiB in memory.
pub type SledOptions = files::FileOptions;

/// Approximate size of sled's page cache, in bytes.
const CACHE_BYTES: u64 = 64 << 20;

/// The tree with all keys. The name is part of the format.
pub(crate) const TREE: &[u8] = b"tract-1";

/// The tree that sled creates by itself.
const DEFAULT_TREE: &[u8] = b"__sled__default";

/// Opens a store, or creates one if the options allow it.
///
/// # Errors
/// `NoStore` if there is none, `NotAStore` for other files, `TooNew` for a format of a newer
/// version, `Busy` if it is open elsewhere for longer than the timeout, `Corrupt` for damaged
/// files, `Unavailable` if the operating system refuses access.
pub fn open(
    path: impl AsRef<Path>,
    options: &SledOptions,
) -> StoreResult<ThreadedStore<SledStore>> {
    let engine = open_engine(path.as_ref(), options)?;
    Ok(ThreadedStore::new(KvStore::new(engine)?, options.write_mode))
}

pub(crate) fn open_engine(path: &Path, options: &SledOptions) -> StoreResult<SledEngine> {
    if options.read_only {
        let message = "sled opens a folder for reading and writing only";
        return Err(new(StoreErrorKind::Unsupported, "open", message));
    }
    let path = resolve_path(BACKEND, path)?;
    let log = path.join("db");
    if inspect(&path).map_err(files::at(&path))? {
        // Opening writes to the log, so it must not have a second name.
        OpenedFile::new(log.clone()).require_one_name(BACKEND, "open")?;
    } else {
        if !options.create {
            return Err(files::no_store(BACKEND, &path));
        }
        if path.is_dir() {
            remove_unfinished(&path).map_err(io("open")).map_err(files::at(&path))?;
        }
    }
    let open = || {
        let existing = log.exists().then(|| OpenedFile::new(log.clone()));
        let folder = contained("open", || open_folder(&path))?;
        if existing.is_some_and(|log| !log.is_in_place()) {
            let message = "the folder was replaced while it was being opened";
            return Err(new(StoreErrorKind::Busy, "open", message));
        }
        Ok(folder)
    };
    let folder = files::open_with_timeout(options.busy_timeout, open).map_err(files::at(&path))?;
    remove_unfinished_files(&path);
    Ok(SledEngine::new(path, folder))
}

fn open_folder(path: &Path) -> StoreResult<Folder> {
    remove_unfinished_snapshots(path);
    let config = sled::Config::new()
        .path(path)
        .cache_capacity(CACHE_BYTES)
        // Every write is flushed before it is acknowledged, so periodic flushes are not needed.
        .flush_every_ms(None);
    let db = config.open().map_err(engine("open"))?;
    let theirs = |name: &[u8]| name != TREE && name != DEFAULT_TREE;
    if let Some(name) = db.tree_names().iter().find(|name| theirs(name)) {
        let name = String::from_utf8_lossy(name);
        let message = format!("expected the tree of a store, found \"{name}\"");
        return Err(new(StoreErrorKind::NotAStore, "open", message));
    }
    if !db.is_empty() {
        let message = "expected an empty default tree, found keys of another program";
        return Err(new(StoreErrorKind::NotAStore, "open", message));
    }
    let tree = db.open_tree(TREE).map_err(engine("open"))?;
    let flush = Flush::open(path).map_err(io("open"))?;
    Ok(Folder { config, db, tree, flush })
}

/// Removes incomplete snapshots of sled. When sled 0.34 opens a folder, it writes a snapshot under
/// a temporary name and renames it when it is complete. If the disk is full or the process is
/// killed, sled later takes the partial file for the newest snapshot and can never open the folder
/// again.
fn remove_unfinished_snapshots(folder: &Path) {
    // A process that has the folder open may be writing one. If a file cannot be removed, sled
    // reports it.
    let Ok(log) = std::fs::File::open(folder.join("db")) else { return };
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    if log.try_lock().is_err() {
        return;
    }
    for entry in entries.flatten() {
        if is_unfinished_snapshot(&entry.file_name()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn is_unfinished_snapshot(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"snap.") && name.ends_with(b".generating")
}

/// Returns whether the folder may be a store. An empty or half-made one is not a store yet.
fn inspect(path: &Path) -> StoreResult<bool> {
    let not_a_store = |found: &str| {
        let message = format!("expected a folder of sled, found {found}: {}", path.display());
        Err(new(StoreErrorKind::NotAStore, "open", message))
    };
    match std::fs::metadata(path) {
        Ok(found) if !found.is_dir() => return not_a_store("a file"),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(io("open")(error)),
    }
    if is_unfinished(path).map_err(io("open"))? {
        return Ok(false);
    }
    if path.join("conf").is_file() && path.join("db").is_file() {
        Ok(true)
    } else {
        not_a_store("another folder")
    }
}

/// Returns whether a folder is empty, or contains only files that sled created but has not written
/// to.
fn is_unfinished(path: &Path) -> std::io::Result<bool> {
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let unwritten = match entry.file_name().to_str() {
            Some("conf") => true,
            Some("db") => entry.metadata()?.len() == 0,
            Some("blobs") => std::fs::read_dir(entry.path())?.next().is_none(),
            _ => is_unfinished_snapshot(&entry.file_name()),
        };
        if !unwritten {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes the files that sled wrote before the disk failed while it created a folder.
fn remove_unfinished(path: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == "conf" || is_unfinished_snapshot(&entry.file_name()) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
