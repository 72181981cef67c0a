//! A directory of the host.

use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{self as sys, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::undo::{Log, Mark, Undo};
use super::{Entry, Filesystem, FsError, FsPath};
use crate::snapshot::{BoxError, Saved, Snapshot};

/// Bytes of a file that is read, written or replaced, where nobody says otherwise.
const LIMIT: u64 = 16 << 20;

/// A directory of the host, as the root of a filesystem.
///
/// # Behavior
/// - Every step of a path is opened in the directory that the step before it gave, and symbolic
///   links are not followed. So nothing leads out, also when somebody else moves directories or
///   makes links at the same time.
/// - A file is written beside its place and then moved there: it is the old one or the new one.
/// - What was changed through it is undone on [`restore`](Snapshot::restore), file by file, from
///   what was there before; what somebody else changed is left alone.
/// - Links and special files are not listed.
pub struct DirectoryFs {
    name: String,
    root: OwnedFd,
    limit: u64,
    log: Arc<Mutex<Log>>,
    temporary: AtomicU64,
}

impl fmt::Debug for DirectoryFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryFs").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What has to be known of something before it is touched.
#[derive(Clone, Copy)]
struct Status {
    kind: FileType,
    mode: Mode,
    size: u64,
}

const OPEN_DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl DirectoryFs {
    /// Opens a directory that is there.
    ///
    /// # Errors
    /// [`FsError`] when it is none.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, FsError> {
        let root = root.as_ref();
        let name = root.display().to_string();
        let flags = OPEN_DIRECTORY.difference(OFlags::NOFOLLOW);
        let opened = sys::open(root, flags, Mode::empty());
        let opened = opened.map_err(|errno| failed(&name, "opened", errno))?;
        let (log, temporary) = (Arc::default(), AtomicU64::new(0));
        Ok(Self { name, root: opened, limit: LIMIT, log, temporary })
    }

    /// Sets how many bytes a file may have that is read, written or replaced; 16 MiB by default.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        // An entry is added before its change is made, and undoing what did not happen does
        // nothing; so a panic leaves it usable.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the directory that a path is in.
    fn parent(&self, path: &FsPath) -> Result<OwnedFd, FsError> {
        self.directory(&path.parent().unwrap_or(FsPath::root()))
    }

    fn directory(&self, path: &FsPath) -> Result<OwnedFd, FsError> {
        let mut at = self.root.try_clone().map_err(|error| io(path.as_str(), "opened", error))?;
        let mut here = FsPath::root();
        for step in path.steps() {
            here = here.join(step);
            at = opened(&at, step, &here)?;
        }
        Ok(at)
    }

    /// Opens the directory that a path is in, making what is missing.
    fn made_parent(&self, path: &FsPath, log: &mut Log) -> Result<OwnedFd, FsError> {
        let mut at = self.root.try_clone().map_err(|error| io(path.as_str(), "opened", error))?;
        let mut here = FsPath::root();
        let parent = path.parent().unwrap_or(FsPath::root());
        for step in parent.steps() {
            here = here.join(step);
            at = match opened(&at, step, &here) {
                Err(FsError::NotFound { .. }) => {
                    match sys::mkdirat(&at, step, Mode::from_raw_mode(0o777)) {
                        Ok(()) => log.add(Undo::MadeDirectory(here.clone())),
                        Err(Errno::EXIST) => {}
                        Err(errno) => return Err(failed(here.as_str(), "made", errno)),
                    }
                    opened(&at, step, &here)?
                }
                found => found?,
            };
        }
        Ok(at)
    }

    fn read_at(&self, at: &OwnedFd, name: &str, path: &FsPath) -> Result<Vec<u8>, FsError> {
        // Without `NONBLOCK` a pipe would be waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let shown = path.to_string();
        let opened = match sys::openat(at, name, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Err(FsError::NotFound { path: shown }),
            Err(Errno::LOOP) => return Err(special(path, FileType::Symlink)),
            Err(errno) => return Err(failed(&shown, "read", errno)),
        };
        let file = File::from(opened);
        let status = file.metadata().map_err(|error| io(&shown, "read", error))?;
        if status.is_dir() {
            return Err(FsError::IsDirectory { path: shown });
        }
        if !status.is_file() {
            return Err(special(path, FileType::Unknown));
        }
        if status.len() > self.limit {
            return Err(FsError::TooLarge { path: shown, limit: self.limit, found: status.len() });
        }
        let mut bytes = Vec::new();
        // It may grow while it is read.
        let read = file.take(self.limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| io(&shown, "read", error))?;
        match bytes.len() as u64 > self.limit {
            true => {
                let found = bytes.len() as u64;
                Err(FsError::TooLarge { path: shown, limit: self.limit, found })
            }
            false => Ok(bytes),
        }
    }

    /// Puts bytes at a place, by a name beside it that nobody else has.
    fn place(
        &self,
        at: &OwnedFd,
        path: &FsPath,
        bytes: &[u8],
        mode: Option<Mode>,
    ) -> Result<(), FsError> {
        let name = path.name().ok_or_else(|| FsError::IsDirectory { path: path.to_string() })?;
        let number = self.temporary.fetch_add(1, Ordering::Relaxed);
        let beside = format!(".tract-{}-{number}", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let wrong = |errno: Errno| failed(path.as_str(), "written", errno);
        let opened = sys::openat(at, &*beside, flags, Mode::from_raw_mode(0o666)).map_err(wrong)?;
        let written = mode
            .map_or(Ok(()), |mode| sys::fchmod(&opened, mode).map_err(wrong))
            .and_then(|()| {
                let mut file = File::from(opened);
                let all = file.write_all(bytes);
                all.map_err(|error| io(path.as_str(), "written", error))
            })
            .and_then(|()| sys::renameat(at, &*beside, at, name).map_err(wrong));
        if written.is_err() {
            // It is of no use; where it cannot be removed either, that is told by what failed.
            let _left = sys::unlinkat(at, &*beside, AtFlags::empty());
        }
        written
    }

    fn undo(&self, step: Undo) -> Result<(), FsError> {
        let there = |path: &FsPath| -> Result<Option<(OwnedFd, Status)>, FsError> {
            match self.parent(path) {
                Ok(at) => Ok(status(&at, path)?.map(|status| (at, status))),
                Err(FsError::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        let gone = |path: &FsPath, at: &OwnedFd, flags| match path.name() {
            Some(name) => sys::unlinkat(at, name, flags)
                .map_err(|errno| failed(path.as_str(), "removed", errno)),
            None => Ok(()),
        };
        match step {
            Undo::MadeFile(path) => match there(&path)? {
                Some((at, _)) => gone(&path, &at, AtFlags::empty()),
                None => Ok(()),
            },
            Undo::MadeDirectory(path) => match there(&path)? {
                // What somebody else has put there stays, and so does the directory.
                Some((at, _)) => match gone(&path, &at, AtFlags::REMOVEDIR) {
                    Err(_) if self.list(&path).is_ok_and(|entries| !entries.is_empty()) => Ok(()),
                    gone => gone,
                },
                None => Ok(()),
            },
            Undo::ChangedFile { path, bytes, mode } => {
                let at = self.made_parent(&path, &mut Log::default())?;
                self.place(&at, &path, &bytes, Some(Mode::from_raw_mode(mode)))
            }
            Undo::RemovedDirectory(path) => {
                let at = self.made_parent(&path, &mut Log::default())?;
                match sys::mkdirat(&at, path.name().unwrap_or("."), Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => Ok(()),
                    Err(errno) => Err(failed(path.as_str(), "made", errno)),
                }
            }
        }
    }
}

fn io(path: &str, what: &'static str, error: std::io::Error) -> FsError {
    FsError::Io { path: path.to_owned(), what, source: error.into() }
}

fn failed(path: &str, what: &'static str, errno: Errno) -> FsError {
    io(path, what, errno.into())
}

fn special(path: &FsPath, kind: FileType) -> FsError {
    let found = match kind {
        FileType::Symlink => "a symbolic link",
        _ => "a special file",
    };
    FsError::Special { path: path.to_string(), found }
}

/// What is there, itself and not what it may lead to.
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

/// Opens a directory in a directory.
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
        let Some(name) = path.name() else {
            return Err(FsError::IsDirectory { path: path.to_string() });
        };
        self.read_at(&self.parent(path)?, name, path)
    }

    fn write(&self, path: &FsPath, bytes: &[u8]) -> Result<(), FsError> {
        let Some(name) = path.name() else {
            return Err(FsError::IsDirectory { path: path.to_string() });
        };
        let found = bytes.len() as u64;
        if found > self.limit {
            return Err(FsError::TooLarge { path: path.to_string(), limit: self.limit, found });
        }
        let mut log = self.log();
        let at = self.made_parent(path, &mut log)?;
        let mode = match status(&at, path)? {
            None => {
                log.add(Undo::MadeFile(path.clone()));
                None
            }
            Some(Status { kind: FileType::RegularFile, mode, .. }) => {
                if log.is_kept() {
                    let bytes = self.read_at(&at, name, path)?;
                    let (path, mode) = (path.clone(), mode.as_raw_mode());
                    log.add(Undo::ChangedFile { path, bytes, mode });
                }
                Some(mode)
            }
            Some(Status { kind: FileType::Directory, .. }) => {
                return Err(FsError::IsDirectory { path: path.to_string() });
            }
            Some(Status { kind, .. }) => return Err(special(path, kind)),
        };
        self.place(&at, path, bytes, mode)
    }

    fn remove(&self, path: &FsPath) -> Result<(), FsError> {
        let Some(name) = path.name() else {
            return Err(FsError::IsDirectory { path: path.to_string() });
        };
        let mut log = self.log();
        let at = self.parent(path)?;
        let flags = match status(&at, path)? {
            None => return Err(FsError::NotFound { path: path.to_string() }),
            Some(Status { kind: FileType::RegularFile, mode, .. }) => {
                if log.is_kept() {
                    let bytes = self.read_at(&at, name, path)?;
                    let (path, mode) = (path.clone(), mode.as_raw_mode());
                    log.add(Undo::ChangedFile { path, bytes, mode });
                }
                AtFlags::empty()
            }
            Some(Status { kind: FileType::Directory, .. }) => AtFlags::REMOVEDIR,
            Some(Status { kind, .. }) => return Err(special(path, kind)),
        };
        sys::unlinkat(&at, name, flags).map_err(|errno| failed(path.as_str(), "removed", errno))?;
        if flags == AtFlags::REMOVEDIR {
            log.add(Undo::RemovedDirectory(path.clone()));
        }
        Ok(())
    }

    fn entry(&self, path: &FsPath) -> Result<Option<Entry>, FsError> {
        let at = match self.parent(path) {
            Err(FsError::NotFound { .. } | FsError::NotADirectory { .. }) => return Ok(None),
            at => at?,
        };
        match status(&at, path)? {
            None => Ok(None),
            Some(status) => match entry(path, status) {
                Some(entry) => Ok(Some(entry)),
                None => Err(special(path, status.kind)),
            },
        }
    }

    fn list(&self, directory: &FsPath) -> Result<Vec<Entry>, FsError> {
        let at = self.directory(directory)?;
        let wrong = |errno: Errno| failed(directory.as_str(), "listed", errno);
        let mut entries = Vec::new();
        for found in sys::Dir::read_from(at.as_fd()).map_err(wrong)? {
            let found = found.map_err(wrong)?;
            // Names that are no text cannot be asked for.
            let Ok(name) = found.file_name().to_str() else { continue };
            if matches!(name, "." | "..") {
                continue;
            }
            let path = directory.join(name);
            // It may be gone by now.
            let Some(status) = status(&at, &path)? else { continue };
            entries.extend(entry(&path, status));
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
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

    fn snapshot(&self) -> Result<Saved, BoxError> {
        Ok(Saved::new(Mark::set(&self.log)))
    }

    fn restore(&self, saved: Saved) -> Result<(), BoxError> {
        let mark: Mark = saved.take()?;
        let mut failed = Vec::new();
        for step in mark.since() {
            if let Err(error) = self.undo(step) {
                let cause = std::error::Error::source(&error);
                failed.push(cause.map_or(error.to_string(), |why| format!("{error}: {why}")));
            }
        }
        match failed.is_empty() {
            true => Ok(()),
            false => Err(failed.join("; ").into()),
        }
    }
}
