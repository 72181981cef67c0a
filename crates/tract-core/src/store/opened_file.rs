//! The files of a store: their paths, and checks that a path still leads to the open file.
//!
//! Every file-based store follows the same rules. The path is resolved once, when the store is
//! opened, and the names of adjacent files are derived from the resolved path. Before each write
//! the open file is compared with the file at that path. A file with more than one name is not
//! written: through the other name another process would use another log, and a replaced file would
//! live on under it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::path::{Component, Path, PathBuf};

use super::{StoreError, StoreErrorKind, StoreResult};

/// Maximum number of symbolic links in one path, as on Linux.
const MAX_LINKS: usize = 40;

/// Resolves a path to an absolute one without symbolic links, `.` and `..`. Parts that do not exist
/// are kept, so that a link to a file that is not created yet is followed.
///
/// # Errors
/// `Invalid` if the path is empty or its links form a cycle.
pub fn resolve_path(backend: &'static str, path: &Path) -> StoreResult<PathBuf> {
    let refused =
        |message: String| StoreError::new(StoreErrorKind::Invalid, backend, "open", message);
    let absolute = std::path::absolute(path)
        .map_err(|error| refused("the path is empty".to_owned()).with_source(error))?;
    let parts = |path: &Path| -> Vec<OsString> {
        path.components().map(|part| part.as_os_str().to_owned()).collect()
    };
    let mut left = VecDeque::from(parts(&absolute));
    let (mut resolved, mut links) = (PathBuf::new(), 0);
    while let Some(part) = left.pop_front() {
        match Path::new(&part).components().next() {
            Some(Component::ParentDir) => {
                resolved.pop();
                continue;
            }
            Some(Component::Normal(_)) => {}
            Some(Component::CurDir) | None => continue,
            // A root replaces everything before it.
            Some(Component::Prefix(_) | Component::RootDir) => {
                resolved.push(part);
                continue;
            }
        }
        let next = resolved.join(&part);
        let Ok(target) = std::fs::read_link(&next) else {
            resolved = next;
            continue;
        };
        links += 1;
        if links > MAX_LINKS {
            let shown = path.display();
            return Err(refused(format!("{shown} leads through more than {MAX_LINKS} links")));
        }
        parts(&target).into_iter().rev().for_each(|part| left.push_front(part));
    }
    Ok(resolved)
}

/// Returns the path of a file next to a store: the store's path with a suffix.
pub fn adjacent_path(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// A file that a store has open.
///
/// If another process moves or deletes it, the operating system keeps the file until it is closed:
/// writes still succeed, and are lost. A store therefore checks before each write.
#[derive(Clone, Debug)]
pub struct OpenedFile {
    path: PathBuf,
    identity: Option<Identity>,
    /// Whether the path is a mount point of a single file.
    is_mounted: bool,
}

/// Device number, inode and number of hard links of a file. Unavailable on some systems.
#[derive(Clone, Copy, Debug)]
struct Identity {
    device: u64,
    number: u64,
    names: u64,
}

impl OpenedFile {
    /// Remembers the file that is at a path now. The path must be [resolved](resolve_path).
    pub fn new(path: PathBuf) -> Self {
        let identity = identity_at(&path);
        Self::with_identity(path, identity)
    }

    /// Remembers an open file.
    pub fn of(path: PathBuf, file: &File) -> Self {
        let identity = file.metadata().ok().as_ref().and_then(identity);
        Self::with_identity(path, identity)
    }

    fn with_identity(path: PathBuf, identity: Option<Identity>) -> Self {
        let is_mounted = is_mount_point(&path);
        Self { path, identity, is_mounted }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the path leads to the file that was opened.
    pub fn is_in_place(&self) -> bool {
        self.same_file(identity_at(&self.path))
    }

    fn same_file(&self, found: Option<Identity>) -> bool {
        let file = |identity: Option<Identity>| identity.map(|file| (file.device, file.number));
        file(found) == file(self.identity)
    }

    /// Checks that the path leads to the file that was opened.
    ///
    /// # Errors
    /// [`StoreErrorKind::ReadOnly`] if it does not.
    pub fn require_in_place(&self, backend: &'static str, op: &'static str) -> StoreResult<()> {
        self.check_in_place(identity_at(&self.path), backend, op)
    }

    fn check_in_place(
        &self,
        found: Option<Identity>,
        backend: &'static str,
        op: &'static str,
    ) -> StoreResult<()> {
        if self.same_file(found) {
            return Ok(());
        }
        let path = self.path.display();
        let message = format!("{path} was moved or deleted while it was open; nothing was written");
        Err(StoreError::new(StoreErrorKind::ReadOnly, backend, op, message))
    }

    /// Checks that the file has only one name.
    ///
    /// # Errors
    /// [`StoreErrorKind::Unavailable`] if it has several hard links, or is a mount point.
    pub fn require_one_name(&self, backend: &'static str, op: &'static str) -> StoreResult<()> {
        let Some(message) = self.other_name(identity_at(&self.path)) else { return Ok(()) };
        Err(StoreError::new(StoreErrorKind::Unavailable, backend, op, message))
    }

    /// Describes the other name of the file, if it has one.
    fn other_name(&self, found: Option<Identity>) -> Option<String> {
        let path = self.path.display();
        let names = found.map_or(1, |file| file.names);
        let message = if names > 1 {
            format!(
                "{path} has {names} hard links, and writes through two names of a file would be lost: \
                 delete the other names, or use a copy of the file"
            )
        } else if self.is_mounted {
            format!(
                "{path} is a mount point, and the files that belong to the store are next to its other \
                 name: mount the folder instead, or use a copy of the file"
            )
        } else {
            return None;
        };
        Some(message)
    }

    /// Checks that other processes will see a write to the open file: the path leads to it, and
    /// that is its only name.
    ///
    /// # Errors
    /// [`StoreErrorKind::ReadOnly`] if the file was moved or deleted, or has several names.
    pub fn require_writable(&self, backend: &'static str, op: &'static str) -> StoreResult<()> {
        let found = identity_at(&self.path);
        self.check_in_place(found, backend, op)?;
        let Some(message) = self.other_name(found) else { return Ok(()) };
        Err(StoreError::new(StoreErrorKind::ReadOnly, backend, op, message))
    }
}

fn identity_at(path: &Path) -> Option<Identity> {
    std::fs::metadata(path).ok().as_ref().and_then(identity)
}

#[cfg(unix)]
fn identity(file: &Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    Some(Identity { device: file.dev(), number: file.ino(), names: file.nlink() })
}

/// Other systems do not allow an open file to be moved or deleted.
#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<Identity> {
    None
}

/// Returns whether a path is a mount point in the kernel's list. A file that is mounted by itself
/// has one hard link, but its real name is in another folder, which may be hidden.
#[cfg(target_os = "linux")]
fn is_mount_point(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    const FIFTH: usize = 4;
    // Without the list, assume a regular file.
    let Ok(mounts) = std::fs::read("/proc/self/mountinfo") else { return false };
    let path = path.as_os_str().as_bytes();
    mounts.split(|byte| *byte == b'\n').any(|line| {
        let point = line.split(|byte| *byte == b' ').nth(FIFTH);
        point.is_some_and(|point| unescape(point) == path)
    })
}

#[cfg(not(target_os = "linux"))]
fn is_mount_point(_: &Path) -> bool {
    false
}

/// Decodes a path in the mount list, in which white space and backslashes are octal escapes.
#[cfg(target_os = "linux")]
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let octal = after
            .first_chunk::<3>()
            .filter(|_| *first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) => {
                out.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
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
        let file = OpenedFile::new(path.clone());
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
    }

    #[test]
    #[cfg(unix)]
    fn a_file_with_several_names_is_not_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("store"), folder.path().join("other"));
        std::fs::write(&path, "one").expect("written");
        let file = OpenedFile::of(path.clone(), &File::open(&path).expect("it opens"));
        let kind = |file: &OpenedFile| file.require_writable("x", "apply").map_err(|e| e.kind);
        assert_eq!(kind(&file), Ok(()));
        std::fs::hard_link(&path, &other).expect("linked");
        assert_eq!(kind(&file), Err(StoreErrorKind::ReadOnly));
        let error = file.require_one_name("x", "open").expect_err("two names");
        assert!(error.message.contains("2 hard links"), "{error}");
        std::fs::remove_file(&other).expect("deleted");
        assert_eq!(kind(&file), Ok(()));
    }

    #[test]
    #[cfg(unix)]
    fn a_path_is_resolved_through_every_kind_of_link() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().expect("a folder");
        let root = std::fs::canonicalize(folder.path()).expect("a folder");
        std::fs::create_dir_all(root.join("data/deep")).expect("folders");
        std::fs::write(root.join("data/store"), "").expect("written");
        symlink("data/store", root.join("relative")).expect("linked");
        symlink(root.join("relative"), root.join("chain")).expect("linked");
        symlink("data/deep", root.join("folder")).expect("linked");
        symlink("data/new/store", root.join("dangling")).expect("linked");
        symlink("circle", root.join("circle")).expect("linked");
        let resolved = |path: &str| resolve_path("x", &root.join(path)).map_err(|e| e.kind);
        for path in ["data/store", "relative", "chain", "folder/../store", "data/./deep/../store"] {
            assert_eq!(resolved(path), Ok(root.join("data/store")), "{path}");
        }
        assert_eq!(resolved("folder/store"), Ok(root.join("data/deep/store")));
        assert_eq!(resolved("dangling"), Ok(root.join("data/new/store")));
        assert_eq!(resolved("none/here"), Ok(root.join("none/here")));
        assert_eq!(resolved("circle"), Err(StoreErrorKind::Invalid));
        assert_eq!(
            resolve_path("x", Path::new("")).map_err(|e| e.kind),
            Err(StoreErrorKind::Invalid)
        );
        assert_eq!(adjacent_path(&root.join("store"), "-wal"), root.join("store-wal"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn mount_points_are_recognized() {
        assert!(is_mount_point(Path::new("/proc")));
        assert!(!is_mount_point(Path::new("/proc/self")));
        assert_eq!(unescape(br"/a\040b\134c\9"), br"/a b\c\9");
    }
}
