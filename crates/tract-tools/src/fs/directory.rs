//! A filesystem on a directory of the host.

use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, MutexGuard};

use rustix::fs::{self as sys, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::undo::{self, Change, Log, Mark, Shared, StoredFile};
use super::{Entry, FILE_LIMIT, Filesystem, FsError, FsPath};
use crate::snapshot::{BoxError, SavedState, Snapshot};

/// Number of random names that are tried for a temporary file.
const TRIES: u32 = 16;
/// The set-user-id and set-group-id bits of a mode.
const SET_ID: u32 = 0o6000;

/// A directory of the host, as the root of a filesystem.
///
/// # Behavior
/// - Each step of a path is opened relative to the directory of the step before it, and symbolic
///   links are not followed. So no path leads out, even if another process moves directories or
///   creates links at the same time.
/// - A file is written under a temporary name in its directory and then renamed, so readers see
///   either the old content or the new.
/// - [`restore`](Snapshot::restore) reverts the changes made through it, file by file. A file whose
///   content is not the one written through it is left alone, because another
///   [view](Filesystem::view) or another program has changed it since.
/// - A file whose content is replaced keeps its mode, except for the set-user-id and set-group-id
///   bits.
/// - Symbolic links and special files are not listed.
pub struct DirectoryFs {
    name: Arc<str>,
    root: Arc<OwnedFd>,
    /// Maximum size of a file that is read, written or replaced, in bytes; 16 MiB by default.
    pub limit: u64,
    log: Shared,
    owner: u64,
}

impl fmt::Debug for DirectoryFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryFs").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The facts about an entry that are checked before it is changed.
#[derive(Clone, Copy)]
struct Status {
    kind: FileType,
    mode: Mode,
    size: u64,
}

/// The directory of a file, and the file.
type FoundFile = (Option<OwnedFd>, Option<StoredFile>);

const OPEN_DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl DirectoryFs {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// [`FsError`] if it is not a directory.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, FsError> {
        let root = root.as_ref();
        let name = root.display().to_string();
        let flags = OPEN_DIRECTORY.difference(OFlags::NOFOLLOW);
        let opened = sys::open(root, flags, Mode::empty());
        let opened = opened.map_err(|errno| failed(&name, "opened", errno))?;
        let log = Shared::default();
        let owner = undo::lock(&log).next_id();
        Ok(Self { name: name.into(), root: Arc::new(opened), limit: FILE_LIMIT, log, owner })
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        undo::lock(&self.log)
    }

    /// Opens the parent directory of a path. With a log, missing directories are created.
    fn parent(&self, path: &FsPath, log: Option<&mut Log>) -> Result<OwnedFd, FsError> {
        self.directory(&path.parent().unwrap_or(FsPath::root()), log)
    }

    fn directory(&self, path: &FsPath, mut log: Option<&mut Log>) -> Result<OwnedFd, FsError> {
        let root = self.root.try_clone();
        let mut at = root.map_err(|error| failed(path.as_str(), "opened", error))?;
        let mut here = FsPath::root();
        // One step at a time, below the directory that is open already: a path as a whole would
        // follow a symbolic link that another process puts in the place of a directory.
        for step in path.steps() {
            here = here.join(step);
            at = match (opened(&at, step, &here), &mut log) {
                (Err(FsError::NotFound { .. }), Some(log)) => {
                    match sys::mkdirat(&at, step, Mode::from_raw_mode(0o777)) {
                        Ok(()) => log.add(self.owner, Change::MadeDirectory(here.clone())),
                        Err(Errno::EXIST) => {}
                        Err(errno) => return Err(failed(here.as_str(), "made", errno)),
                    }
                    opened(&at, step, &here)?
                }
                (found, _) => found?,
            };
        }
        Ok(at)
    }

    fn read_at(&self, at: &OwnedFd, name: &str, path: &FsPath) -> Result<Vec<u8>, FsError> {
        // Without `NONBLOCK`, opening a named pipe would block until it has a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let shown = path.to_string();
        let opened = match sys::openat(at, name, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Err(FsError::NotFound { path: shown }),
            Err(Errno::LOOP) => return Err(special(path, FileType::Symlink)),
            Err(errno) => return Err(failed(&shown, "read", errno)),
        };
        let file = File::from(opened);
        let status = file.metadata().map_err(|error| failed(&shown, "read", error))?;
        if status.is_dir() {
            return Err(FsError::IsDirectory { path: shown });
        }
        if !status.is_file() {
            return Err(special(path, FileType::Unknown));
        }
        path.check_size(status.len(), self.limit)?;
        let mut bytes = Vec::new();
        // The file may grow while it is read, so the limit is enforced here as well.
        let read = file.take(self.limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| failed(&shown, "read", error))?;
        path.check_size(bytes.len() as u64, self.limit)?;
        Ok(bytes)
    }

    /// Creates a temporary file with an unused name in a directory.
    fn temporary(at: &OwnedFd, path: &FsPath) -> Result<(OwnedFd, String), FsError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        for _ in 0..TRIES {
            // Random rather than derived from the process id, which may repeat in a container and
            // then match a file that a killed process left behind.
            let mut random = [0; 8];
            getrandom::fill(&mut random).map_err(|error| {
                failed(path.as_str(), "written", std::io::Error::other(error.to_string()))
            })?;
            let name = format!(".tract-{:016x}", u64::from_ne_bytes(random));
            match sys::openat(at, &*name, flags, Mode::from_raw_mode(0o666)) {
                Err(Errno::EXIST) => {}
                opened => {
                    let opened = opened.map_err(|errno| failed(path.as_str(), "written", errno))?;
                    return Ok((opened, name));
                }
            }
        }
        Err(failed(path.as_str(), "written", Errno::EXIST))
    }

    /// Replaces a file by writing a temporary file in the same directory and renaming it.
    fn place(at: &OwnedFd, path: &FsPath, bytes: &[u8], mode: Option<Mode>) -> Result<(), FsError> {
        let name = file_name(path)?;
        let wrong = |errno: Errno| failed(path.as_str(), "written", errno);
        let (opened, temporary) = Self::temporary(at, path)?;
        let mut file = File::from(opened);
        let written = file
            .write_all(bytes)
            .map_err(|error| failed(path.as_str(), "written", error))
            // After the content, because writing clears some bits of the mode.
            .and_then(|()| mode.map_or(Ok(()), |mode| sys::fchmod(&file, mode).map_err(wrong)))
            .and_then(|()| sys::renameat(at, &*temporary, at, name).map_err(wrong));
        if written.is_err() {
            // The temporary file is useless. If it cannot be removed either, the first error is
            // reported.
            let _left = sys::unlinkat(at, &*temporary, AtFlags::empty());
        }
        written
    }

    /// Returns the directory of a file and the file, as far as they exist; `None` if the path is
    /// something other than a readable file.
    fn stored(&self, path: &FsPath) -> Result<Option<FoundFile>, FsError> {
        let Some(name) = path.name() else { return Ok(None) };
        let at = match self.parent(path, None) {
            Err(FsError::NotFound { .. }) => return Ok(Some((None, None))),
            Err(FsError::NotADirectory { .. } | FsError::Special { .. }) => return Ok(None),
            at => at?,
        };
        let file = match status(&at, path)? {
            None => None,
            Some(Status { kind: FileType::RegularFile, mode, .. }) => {
                match self.read_at(&at, name, path) {
                    Err(FsError::NotFound { .. }) => None,
                    Err(FsError::TooLarge { .. } | FsError::Special { .. }) => return Ok(None),
                    bytes => Some(StoredFile::new(bytes?.into(), mode.as_raw_mode())),
                }
            }
            Some(_) => return Ok(None),
        };
        Ok(Some((Some(at), file)))
    }

    /// Reverts one change if its result is still there. A change by another program between the
    /// check and the revert is not detected.
    fn undo(&self, change: Change) -> Result<(), FsError> {
        match change {
            Change::File { path, before, after } => {
                let found = self.stored(&path)?;
                let Some((at, found)) = found.filter(|(_, file)| undo::holds(file.as_ref(), after))
                else {
                    tracing::info!(target: "tract::fs", %path, "left as it is: changed since");
                    return Ok(());
                };
                match (before, found, at) {
                    (None, Some(_), Some(at)) => {
                        let name = path.name().unwrap_or(".");
                        sys::unlinkat(&at, name, AtFlags::empty())
                            .map_err(|errno| failed(path.as_str(), "removed", errno))
                    }
                    (None, ..) => Ok(()),
                    (Some(before), found, at) => {
                        let at = match at {
                            Some(at) => at,
                            None => self.parent(&path, Some(&mut Log::default()))?,
                        };
                        // Keep a mode that was set since.
                        let mode = match (found, after) {
                            (Some(found), Some(set)) if found.mark.mode != set.mode => {
                                found.mark.mode
                            }
                            _ => before.mark.mode,
                        };
                        Self::place(&at, &path, &before.bytes, Some(Mode::from_raw_mode(mode)))
                    }
                }
            }
            Change::MadeDirectory(path) => {
                let Some(name) = path.name() else { return Ok(()) };
                let at = match self.parent(&path, None) {
                    Err(
                        FsError::NotFound { .. }
                        | FsError::NotADirectory { .. }
                        | FsError::Special { .. },
                    ) => return Ok(()),
                    at => at?,
                };
                match sys::unlinkat(&at, name, AtFlags::REMOVEDIR) {
                    // The directory contains entries of others, so it stays.
                    Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST) => {
                        Ok(())
                    }
                    Err(errno) => Err(failed(path.as_str(), "removed", errno)),
                }
            }
            Change::RemovedDirectory(path) => {
                let at = match self.parent(&path, Some(&mut Log::default())) {
                    Err(FsError::NotADirectory { .. } | FsError::Special { .. }) => return Ok(()),
                    at => at?,
                };
                match sys::mkdirat(&at, path.name().unwrap_or("."), Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => Ok(()),
                    Err(errno) => Err(failed(path.as_str(), "made", errno)),
                }
            }
        }
    }
}

fn failed(path: &str, what: &'static str, error: impl Into<std::io::Error>) -> FsError {
    FsError::Io { path: path.to_owned(), what, source: error.into().into() }
}

/// Returns the name of a file; the root is a directory.
fn file_name(path: &FsPath) -> Result<&str, FsError> {
    path.name().ok_or_else(|| FsError::IsDirectory { path: path.to_string() })
}

fn special(path: &FsPath, kind: FileType) -> FsError {
    let found = match kind {
        FileType::Symlink => "a symbolic link",
        _ => "a special file",
    };
    FsError::Special { path: path.to_string(), found }
}

/// Returns the status of an entry, without following links.
fn status(at: &OwnedFd, path: &FsPath) -> Result<Option<Status>, FsError> {
    let name = path.name().unwrap_or(".");
    match sys::statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(Status {
            kind: FileType::from_raw_mode(found.st_mode),
            mode: Mode::from_raw_mode(found.st_mode),
            size: u64::try_from(found.st_size).unwrap_or(0),
        })),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::NOTDIR) => Err(FsError::NotADirectory { path: path.to_string() }),
        Err(errno) => Err(failed(path.as_str(), "read", errno)),
    }
}

/// Opens a subdirectory of an open directory.
fn opened(at: &OwnedFd, step: &str, here: &FsPath) -> Result<OwnedFd, FsError> {
    match sys::openat(at, step, OPEN_DIRECTORY, Mode::empty()) {
        Ok(opened) => Ok(opened),
        Err(Errno::NOENT) => Err(FsError::NotFound { path: here.to_string() }),
        Err(errno) => Err(match status(at, here)? {
            Some(Status { kind: FileType::RegularFile, .. }) => {
                FsError::NotADirectory { path: here.to_string() }
            }
            Some(Status { kind: FileType::Directory, .. }) | None => {
                failed(here.as_str(), "opened", errno)
            }
            Some(Status { kind, .. }) => special(here, kind),
        }),
    }
}

impl Filesystem for DirectoryFs {
    fn read(&self, path: &FsPath) -> Result<Vec<u8>, FsError> {
        let name = file_name(path)?;
        self.read_at(&self.parent(path, None)?, name, path)
    }

    fn write(&self, path: &FsPath, bytes: &[u8]) -> Result<(), FsError> {
        let name = file_name(path)?;
        path.check_size(bytes.len() as u64, self.limit)?;
        let mut log = self.log();
        let at = self.parent(path, Some(&mut log))?;
        let mode = match status(&at, path)? {
            None => None,
            Some(Status { kind: FileType::RegularFile, mode, .. }) => Some(mode),
            Some(Status { kind: FileType::Directory, .. }) => {
                return Err(FsError::IsDirectory { path: path.to_string() });
            }
            Some(Status { kind, .. }) => return Err(special(path, kind)),
        };
        let kept = mode.map(|mode| Mode::from_raw_mode(mode.as_raw_mode() & !SET_ID));
        if log.has_marks(self.owner) {
            let stored = |mode: Mode| -> Result<StoredFile, FsError> {
                Ok(StoredFile::new(self.read_at(&at, name, path)?.into(), mode.as_raw_mode()))
            };
            let before = mode.map(stored).transpose()?;
            let mode = kept.map_or(0, Mode::as_raw_mode);
            let after = Some(StoredFile::new(bytes.into(), mode).mark);
            log.add(self.owner, Change::File { path: path.clone(), before, after });
        }
        Self::place(&at, path, bytes, kept)
    }

    fn remove(&self, path: &FsPath) -> Result<(), FsError> {
        let name = file_name(path)?;
        let mut log = self.log();
        let at = self.parent(path, None)?;
        let flags = match status(&at, path)? {
            None => return Err(FsError::NotFound { path: path.to_string() }),
            Some(Status { kind: FileType::RegularFile, mode, .. }) => {
                if log.has_marks(self.owner) {
                    let bytes = self.read_at(&at, name, path)?;
                    let before = Some(StoredFile::new(bytes.into(), mode.as_raw_mode()));
                    log.add(self.owner, Change::File { path: path.clone(), before, after: None });
                }
                AtFlags::empty()
            }
            Some(Status { kind: FileType::Directory, .. }) => AtFlags::REMOVEDIR,
            Some(Status { kind, .. }) => return Err(special(path, kind)),
        };
        sys::unlinkat(&at, name, flags).map_err(|errno| failed(path.as_str(), "removed", errno))?;
        if flags == AtFlags::REMOVEDIR {
            log.add(self.owner, Change::RemovedDirectory(path.clone()));
        }
        Ok(())
    }

    fn entry(&self, path: &FsPath) -> Result<Option<Entry>, FsError> {
        let at = match self.parent(path, None) {
            Err(FsError::NotFound { .. } | FsError::NotADirectory { .. }) => return Ok(None),
            at => at?,
        };
        let Some(status) = status(&at, path)? else { return Ok(None) };
        entry(path, status).map(Some).ok_or_else(|| special(path, status.kind))
    }

    fn list(&self, directory: &FsPath) -> Result<Vec<Entry>, FsError> {
        let at = self.directory(directory, None)?;
        let wrong = |errno: Errno| failed(directory.as_str(), "listed", errno);
        let mut entries = Vec::new();
        for found in sys::Dir::read_from(at.as_fd()).map_err(wrong)? {
            let found = found.map_err(wrong)?;
            // Names that are not UTF-8 cannot be requested.
            let Ok(name) = found.file_name().to_str() else { continue };
            if matches!(name, "." | "..") {
                continue;
            }
            let path = directory.join(name);
            // It may have been removed since.
            let Some(status) = status(&at, &path)? else { continue };
            entries.extend(entry(&path, status));
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
    }

    fn max_file_bytes(&self) -> u64 {
        self.limit
    }

    fn view(&self) -> Option<Arc<dyn Filesystem>> {
        let owner = self.log().next_id();
        let (name, root) = (Arc::clone(&self.name), Arc::clone(&self.root));
        Some(Arc::new(Self { name, root, limit: self.limit, log: Arc::clone(&self.log), owner }))
    }
}

fn entry(path: &FsPath, status: Status) -> Option<Entry> {
    let (is_directory, size_bytes) = match status.kind {
        FileType::Directory => (true, 0),
        FileType::RegularFile => (false, status.size),
        _ => return None,
    };
    Some(Entry { path: path.to_string(), is_directory, size_bytes })
}

impl Snapshot for DirectoryFs {
    fn name(&self) -> &str {
        &self.name
    }

    fn snapshot(&self) -> Result<SavedState, BoxError> {
        Ok(SavedState::new(Mark::set(&self.log, self.owner)))
    }

    fn restore(&self, saved: SavedState) -> Result<(), BoxError> {
        let mark: Mark = saved.take()?;
        mark.check(&self.log)?;
        let mut failed = Vec::new();
        // The lock is held until all changes are reverted: another view must not write between the
        // check of a file and its replacement.
        let mut log = self.log();
        for change in log.take_since(&mark) {
            if let Err(error) = self.undo(change) {
                let cause = std::error::Error::source(&error);
                failed.push(cause.map_or(error.to_string(), |why| format!("{error}: {why}")));
            }
        }
        drop(log);
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
    }
}
