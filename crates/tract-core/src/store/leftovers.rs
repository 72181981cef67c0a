//! The files that tract itself writes next to a store: unfinished ones, and copies.
//!
//! - `PATH.PID.new`: a new file that a process writes before it replaces the store's file.
//! - `PATH.format-N`: the copy from before an upgrade; `PATH.format-N.PID.part` while unfinished.
//! - `PATH-wal.damaged`: a copy of a damaged write-ahead log.
//!
//! All of them may contain bytes that are erased later, so erasing deletes them. A process locks
//! its unfinished files while it writes them. Only the lock distinguishes them from leftovers of a
//! crash: process ids are reused.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::{StoreError, StoreErrorKind, StoreResult, WipeReport, adjacent_path};

/// Suffix of the copy of a damaged write-ahead log.
const DAMAGED_LOG: &str = "-wal.damaged";

/// Returns the path of the copy of a damaged write-ahead log.
pub fn damaged_log_path(path: &Path) -> PathBuf {
    adjacent_path(path, DAMAGED_LOG)
}

/// Returns the path of the copy from before an upgrade.
pub fn format_copy_path(path: &Path, format: u32) -> PathBuf {
    adjacent_path(path, &format!(".format-{format}"))
}

/// Returns the path at which this process writes that copy until it is complete.
pub fn unfinished_copy_path(path: &Path, format: u32) -> PathBuf {
    adjacent_path(path, &format!(".format-{format}.{}.part", std::process::id()))
}

/// Returns the path at which this process writes a file that will replace the store's.
pub fn unfinished_path(path: &Path) -> PathBuf {
    adjacent_path(path, &format!(".{}.new", std::process::id()))
}

/// Creates an unfinished file and locks it while it is open. The next process that opens the store
/// for writing removes unlocked ones.
///
/// # Errors
/// Those of the operating system.
pub fn create_unfinished(unfinished: &Path) -> io::Result<File> {
    remove(unfinished)?;
    let mut options = File::options();
    options.read(true).write(true).create_new(true);
    // Private until its creator gives it the mode of the store.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(unfinished)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        // Another process locked it between `open` and `try_lock`, to remove it. Its name is about
        // to disappear, so it must not be written.
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::ResourceBusy.into()),
        // Some file systems do not support locks.
        Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Removes the unfinished files of processes that have ended. The lock is the only evidence: a
/// process id in the name may be in use again.
pub fn remove_unfinished(path: &Path) {
    for (found, ending) in adjacent(path) {
        if matches!(Adjacent::of(&ending), Some(Adjacent::Unfinished)) && is_free(&found) {
            // If it cannot be removed now, a later opening removes it.
            let _ = remove(&found);
        }
    }
}

/// Removes other hard links of a file among the unfinished ones. A process that crashed between
/// linking a new file to its final name and removing the unfinished name leaves both, and a store
/// with two names is not written.
#[cfg(unix)]
pub fn remove_unfinished_names(path: &Path) {
    use std::os::unix::fs::MetadataExt as _;
    let file = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino(), metadata.nlink()))
    };
    let Some((device, inode, links)) = file(path) else { return };
    if links < 2 {
        return;
    }
    let is_same = |found: &Path| file(found).is_some_and(|(d, i, _)| (d, i) == (device, inode));
    for (found, ending) in adjacent(path) {
        if matches!(Adjacent::of(&ending), Some(Adjacent::Unfinished)) && is_same(&found) {
            let _ = std::fs::remove_file(found);
        }
    }
}

/// Hard links cannot be counted on other systems.
#[cfg(not(unix))]
pub fn remove_unfinished_names(_: &Path) {}

/// Deletes the copies that tract created next to a store, since they may contain erased content.
/// Reports those that cannot be deleted.
pub fn remove_copies(path: &Path) -> WipeReport {
    let mut report = WipeReport::default();
    for (found, ending) in adjacent(path) {
        let is_left = match Adjacent::of(&ending) {
            Some(Adjacent::Copy) => true,
            Some(Adjacent::Unfinished) => is_free(&found),
            None => false,
        };
        if !is_left {
            continue;
        }
        let shown = found.display();
        match remove(&found) {
            Ok(()) => report.removed.push(found),
            Err(error) => {
                let why = "an earlier copy of the store, and may contain what was erased";
                report.remains.push(format!("{shown} is {why}: delete it ({error})"));
            }
        }
    }
    report
}

/// Checks that a folder has this many bytes of free space. Succeeds if the system cannot report it.
///
/// # Errors
/// `Full` if there is less.
pub fn require_space(
    backend: &'static str,
    op: &'static str,
    folder: &Path,
    bytes: u64,
) -> StoreResult<()> {
    let Some(free) = free_bytes(folder).filter(|free| *free < bytes) else { return Ok(()) };
    let shown = folder.display();
    let message = format!("{shown} needs {bytes} free bytes for a new file, and has {free}");
    Err(StoreError::new(StoreErrorKind::Full, backend, op, message))
}

#[cfg(unix)]
fn free_bytes(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}

/// A file written by tract next to a store.
enum Adjacent {
    Copy,
    Unfinished,
}

impl Adjacent {
    /// Classifies a file by the part of its name after that of the store.
    fn of(ending: &str) -> Option<Self> {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if ending == DAMAGED_LOG {
            return Some(Self::Copy);
        }
        if let Some(format) = ending.strip_prefix(".format-") {
            if is_number(format) {
                return Some(Self::Copy);
            }
            let (format, process) = format.strip_suffix(".part")?.split_once('.')?;
            return (is_number(format) && is_number(process)).then_some(Self::Unfinished);
        }
        let process = ending.strip_prefix('.')?.strip_suffix(".new")?;
        is_number(process).then_some(Self::Unfinished)
    }
}

/// Lists the files whose names start with that of a store, each with the rest of its name.
fn adjacent(path: &Path) -> Vec<(PathBuf, String)> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(PathBuf, String)> = entries
        .filter_map(|entry| {
            let found = entry.file_name();
            let ending = found.as_encoded_bytes().strip_prefix(name.as_encoded_bytes())?;
            Some((entry.path(), String::from_utf8(ending.to_vec()).ok()?))
        })
        .collect();
    found.sort();
    found
}

/// Returns whether no process has locked a file, or the log of a sled folder.
fn is_free(path: &Path) -> bool {
    let locked = if path.is_dir() { path.join("db") } else { path.to_owned() };
    let Ok(file) = File::options().read(true).write(true).open(&locked) else {
        // A folder without a log was never written to.
        return !locked.exists();
    };
    match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
    }
}

fn remove(path: &Path) -> io::Result<()> {
    let is_folder = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let removed =
        if is_folder { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("a folder");
        let name = |entry: io::Result<std::fs::DirEntry>| {
            entry.expect("an entry").file_name().into_string().expect("a name")
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn unfinished_files_of_ended_processes_are_removed_and_others_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.db");
        let others = ["a.db", "a.db-wal", "a.db.format-1", "a.db.x.new", "b.db.7.new"];
        for name in others.into_iter().chain(["a.db.7.new", "a.db.format-1.9.part"]) {
            std::fs::write(folder.path().join(name), "x").expect("written");
        }
        std::fs::create_dir(folder.path().join("a.db.format-1.8.part")).expect("a folder");
        let held = create_unfinished(&unfinished_path(&path)).expect("it is created");
        remove_unfinished(&path);
        let mut expected: Vec<String> = others.map(str::to_owned).to_vec();
        expected.push(format!("a.db.{}.new", std::process::id()));
        expected.sort();
        assert_eq!(names(folder.path()), expected);
        drop(held);
        remove_unfinished(&path);
        assert_eq!(names(folder.path()), others);
    }

    #[test]
    fn copies_that_tract_made_are_removed_and_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.db");
        let own = ["a.db-wal.damaged", "a.db.format-1", "a.db.format-22"];
        let others = ["a.db", "a.db-wal", "a.db.format-x", "a.db2.format-1"];
        for name in own.into_iter().chain(others) {
            std::fs::write(folder.path().join(name), "x").expect("written");
        }
        let report = remove_copies(&path);
        assert_eq!(report.removed, own.map(|name| folder.path().join(name)));
        assert_eq!(report.remains, Vec::<String>::new());
        assert_eq!(names(folder.path()), others);
    }

    #[test]
    #[cfg(unix)]
    fn space_is_checked_before_a_file_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        require_space("x", "wipe", folder.path(), 1).expect("a byte");
        let error = require_space("x", "wipe", folder.path(), u64::MAX).expect_err("too much");
        assert_eq!(error.kind, StoreErrorKind::Full);
    }
}
