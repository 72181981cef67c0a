//! A registry of the files that this process has open through SQLite.
//!
//! A process loses all its POSIX locks on a file when it closes any handle to it. So a second store
//! on the same file must not open the file itself for inspection: the first store would lose its
//! locks, and another process could delete the log that the first one writes to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tract_core::StoreResult;

use crate::memory::lock;

static OPEN: Mutex<BTreeMap<PathBuf, usize>> = Mutex::new(BTreeMap::new());

/// An entry for a store that has a file open. It must be dropped after the store's connections.
#[derive(Debug)]
pub(crate) struct Registration(PathBuf);

impl Registration {
    /// Registers a store on a resolved path. `inspect` may open and close the file: it only runs if
    /// no other store of this process has it open, and it holds the registry's lock so that none
    /// can open it meantime.
    pub(crate) fn new(path: &Path, inspect: impl FnOnce() -> StoreResult<()>) -> StoreResult<Self> {
        let mut open = lock(&OPEN);
        if !open.contains_key(path) {
            inspect()?;
        }
        *open.entry(path.to_owned()).or_default() += 1;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut open = lock(&OPEN);
        if let Some(stores) = open.get_mut(&self.0) {
            *stores -= 1;
            if *stores == 0 {
                open.remove(&self.0);
            }
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use crate::{SqliteOptions, SqliteStore};

    /// Counts this process's locks on a file.
    fn locks(path: &std::path::Path) -> usize {
        let number = std::fs::metadata(path).expect("a file").ino();
        let (process, file) = (std::process::id().to_string(), format!(":{number}"));
        let locks = std::fs::read_to_string("/proc/locks").expect("the kernel lists them");
        let is_ours = |line: &&str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.get(4) == Some(&process.as_str())
                && fields.get(5).is_some_and(|id| id.ends_with(&file))
        };
        locks.lines().filter(is_ours).count()
    }

    #[test]
    fn a_second_store_of_the_process_leaves_the_locks_of_the_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.db");
        let first =
            SqliteStore::open(&path, &SqliteOptions { create: true, ..SqliteOptions::default() })
                .expect("it opens");
        let before = locks(&path);
        assert!(before > 0, "an open store holds a lock");
        let second = SqliteStore::open(&path, &SqliteOptions::default()).expect("it opens");
        assert!(locks(&path) >= before);
        drop(second);
        assert!(locks(&path) >= before);
        drop(first);
        assert_eq!(locks(&path), 0);
    }
}
