//! What processes leave behind that end while they make a file.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use tract_kv::files;

/// Returns the name under which this process makes a file.
pub(crate) fn unfinished(path: &Path) -> PathBuf {
    files::sibling(path, &format!(".{}.new", std::process::id()))
}

/// Removes the files that others began to make in place of this one and did not finish. A file that
/// is being made is locked; process numbers say nothing, for they come again.
pub(crate) fn remove(path: &Path) {
    for (found, between) in named_like(path) {
        let number = between.strip_prefix(b".");
        let is_ours = number
            .is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit));
        if is_ours && is_free(&found) {
            let _ = std::fs::remove_file(found);
        }
    }
}

/// Lists the files whose names begin with that of a file and end with `.new`, with what is between.
fn named_like(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    // What cannot be looked at or removed does no harm.
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named_like = entries.filter_map(|entry| {
        let found = entry.file_name();
        let rest = found.as_encoded_bytes().strip_prefix(name.as_encoded_bytes())?;
        Some((entry.path(), rest.strip_suffix(b".new")?.to_vec()))
    });
    named_like.collect()
}

fn is_free(path: &Path) -> bool {
    let Ok(file) = File::options().read(true).write(true).open(path) else { return false };
    match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
    }
}

/// Removes other names of a file: a process that ended between giving a new file its name and
/// removing the one that it was made under leaves both.
#[cfg(unix)]
pub(crate) fn remove_links(path: &Path) {
    use std::os::unix::fs::MetadataExt;
    let file = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino(), metadata.nlink()))
    };
    let Some((device, inode, links)) = file(path) else { return };
    if links < 2 {
        return;
    }
    let same = |(d, i, _)| (d, i) == (device, inode);
    for (found, _) in named_like(path) {
        if file(&found).is_some_and(same) {
            let _ = std::fs::remove_file(found);
        }
    }
}

#[cfg(not(unix))]
pub(crate) fn remove_links(_path: &Path) {}

#[cfg(test)]
mod tests {
    use crate::{RedbOptions, open};

    #[test]
    fn leftovers_of_killed_processes_are_removed_and_files_in_use_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.redb");
        let at = |name: &str| folder.path().join(name);
        let own = format!("agent.redb.{}.new", std::process::id());
        for name in ["agent.redb.7.new", own.as_str(), "agent.redb.x.new", "other.redb.7.new"] {
            std::fs::write(at(name), "redb, half made").unwrap();
        }
        let making = redb::Database::create(at("agent.redb.8.new")).unwrap();
        let options = RedbOptions::new().create(true);
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
        drop(open(&path, &options).unwrap());
        assert!(!at("agent.redb.9.new").exists() && path.exists());
    }
}
