//! The file that a store has open, and whether its path still leads to it.

use std::path::{Path, PathBuf};

use super::{StoreError, StoreErrorKind, StoreResult};

/// A file that a store has open.
///
/// When another process moves or deletes it, the operating system keeps it until it is closed: writes
/// continue to succeed, and are lost. A store asks before each.
#[derive(Clone, Debug)]
pub struct OpenedFile {
    path: PathBuf,
    identity: Option<Identity>,
}

/// Device and number of a file; absent where the system has none.
type Identity = (u64, u64);

impl OpenedFile {
    /// Remembers which file is at a path now.
    pub fn new(path: PathBuf) -> Self {
        let identity = identity(&path);
        Self { path, identity }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Remembers the file that is at the path now: the store itself replaced it.
    pub fn replaced(&mut self) {
        self.identity = identity(&self.path);
    }

    /// Checks that the path leads to the file that was opened.
    ///
    /// # Errors
    /// [`StoreErrorKind::ReadOnly`] when it does not.
    pub fn require_in_place(&self, backend: &'static str, op: &'static str) -> StoreResult<()> {
        if identity(&self.path) == self.identity {
            return Ok(());
        }
        let path = self.path.display();
        let message = format!("{path} was moved or deleted while it was open; nothing was written");
        Err(StoreError::new(StoreErrorKind::ReadOnly, backend, op, message))
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

/// Other systems do not let a file be moved or deleted while it is open.
#[cfg(not(unix))]
fn identity(_: &Path) -> Option<Identity> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_file_that_is_moved_deleted_or_replaced_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, away) = (folder.path().join("store"), folder.path().join("away"));
        std::fs::write(&path, "one").expect("written");
        let mut file = OpenedFile::new(path.clone());
        let kind = |file: &OpenedFile| file.require_in_place("x", "apply").map_err(|e| e.kind);
        assert_eq!(kind(&file), Ok(()));
        std::fs::write(&path, "two").expect("written");
        assert_eq!(kind(&file), Ok(()), "other contents, the same file");
        std::fs::rename(&path, &away).expect("moved");
        assert_eq!(kind(&file), Err(StoreErrorKind::ReadOnly), "moved");
        std::fs::write(&path, "three").expect("written");
        assert_eq!(kind(&file), Err(StoreErrorKind::ReadOnly), "another one");
        std::fs::rename(&away, &path).expect("moved back");
        assert_eq!(kind(&file), Ok(()), "it came back");
        std::fs::remove_file(&path).expect("deleted");
        assert_eq!(kind(&file), Err(StoreErrorKind::ReadOnly), "deleted");
        std::fs::write(&path, "four").expect("written");
        file.replaced();
        assert_eq!(kind(&file), Ok(()), "by the store itself");
    }
}
