//! What engines that keep their keys in files share: opening, copies, errors.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, Instant};

use tract_core::store::{WriteMode, format_copy_path, unfinished_copy_path};
use tract_core::{StoreError, StoreErrorKind, StoreResult};

/// How a store in files is opened.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the method of the same name says what each is")]
pub struct FileOptions {
    pub create: bool,
    pub read_only: bool,
    pub busy_timeout: Duration,
    pub write_mode: WriteMode,
    pub quick_repair: bool,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl FileOptions {
    /// Opens an existing store for reading and writing, with five seconds of patience.
    pub const fn new() -> Self {
        Self {
            create: false,
            read_only: false,
            busy_timeout: Duration::from_secs(5),
            write_mode: WriteMode::Thread,
            quick_repair: true,
        }
    }

    /// Makes the store, and its folder, when there is none; off by default.
    #[must_use]
    pub const fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens for reading only, together with other readers; off by default. No process may have the
    /// store open for writing, and the last writer must have closed it. An engine that cannot refuses
    /// with `Unsupported`.
    #[must_use]
    pub const fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// How long opening waits for another process that has the store open, before giving up with
    /// `Busy`.
    #[must_use]
    pub const fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// How writes reach the store.
    #[must_use]
    pub const fn write_mode(mut self, mode: WriteMode) -> Self {
        self.write_mode = mode;
        self
    }

    /// Stores with every write what opening after a kill would else have to gather from the whole
    /// file; on by default. Off, writes are some microseconds faster, and opening after a kill
    /// takes time in proportion to the size of the file. An engine without that choice passes over it.
    #[must_use]
    pub const fn quick_repair(mut self, quick: bool) -> Self {
        self.quick_repair = quick;
        self
    }
}

/// Makes the error of opening where no store is.
pub fn no_store(backend: &'static str, path: &Path) -> StoreError {
    let message = format!("there is no store at {}", path.display());
    StoreError::new(StoreErrorKind::NoStore, backend, "open", message)
}

/// Makes the error of calling an engine that was closed.
pub fn closed(backend: &'static str, op: &'static str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, backend, op, "the store is closed")
}

/// Opens again while the answer is `Busy`, until the timeout: there is no way to wait for the lock of
/// a file.
///
/// # Errors
/// Those of `open`; `Busy` after the timeout.
pub fn open_with_timeout<T>(
    timeout: Duration,
    mut open: impl FnMut() -> StoreResult<T>,
) -> StoreResult<T> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match open() {
            Err(error) if error.kind == StoreErrorKind::Busy && start.elapsed() < timeout => {
                std::thread::sleep(pause.min(timeout.saturating_sub(start.elapsed())));
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            opened => return opened,
        }
    }
}

/// Returns what an error of the operating system is to a store that was found when it was opened.
pub fn io_kind(error: &io::Error) -> StoreErrorKind {
    match error.kind() {
        // Where there is no store, opening has said so before the engine is asked.
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied => {
            StoreErrorKind::Unavailable
        }
        ErrorKind::ReadOnlyFilesystem => StoreErrorKind::ReadOnly,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            StoreErrorKind::Full
        }
        // The file ends before a page that it should contain.
        ErrorKind::UnexpectedEof => StoreErrorKind::Corrupt { object: None },
        _ => StoreErrorKind::Engine,
    }
}

/// Names the place in an error that says that it cannot be opened, read or written, or is full.
pub fn at(path: &Path) -> impl Fn(StoreError) -> StoreError {
    use StoreErrorKind::{Full, ReadOnly, Unavailable};
    move |mut error| {
        if matches!(error.kind, Unavailable | ReadOnly | Full) {
            error.message = format!("{}: {}", path.display(), error.message);
        }
        error
    }
}

/// Calls an engine that panics on damaged files or on errors of the disk: that is an answer too. The
/// caller writes no more through an engine that panicked in a write; what is read is hashed.
///
/// # Errors
/// Those of the call; for a panic `Full` or `Engine` where its message contains an error of the
/// operating system, else `Corrupt`.
pub fn contained<T>(
    backend: &'static str,
    op: &'static str,
    call: impl FnOnce() -> StoreResult<T>,
) -> StoreResult<T> {
    const FULL: [&str; 3] = ["StorageFull", "QuotaExceeded", "FileTooLarge"];
    tract_core::contained(call).unwrap_or_else(|panic| {
        // The message of an `unwrap` is all that is left of an error of the operating system.
        let of_disk = panic.contains("Os { code: ");
        let (kind, what) = if of_disk && FULL.iter().any(|full| panic.contains(full)) {
            (StoreErrorKind::Full, "the disk is full")
        } else if of_disk {
            (StoreErrorKind::Engine, "the disk failed")
        } else {
            (StoreErrorKind::Corrupt { object: None }, "its files are damaged")
        };
        Err(StoreError::new(kind, backend, op, format!("{what}: {panic}")))
    })
}

/// Makes the names in a folder durable. Where folders cannot be flushed, they need not be.
pub fn sync_folder(folder: &Path) {
    if let Ok(folder) = std::fs::File::open(folder) {
        let _ = folder.sync_all();
    }
}

/// Has `write` make a whole and durable copy of a store, named `PATH.format-N`, unless that exists.
/// It gets its name when it is whole.
///
/// # Errors
/// Those of `write`, or of the operating system.
pub fn keep_copy(
    path: &Path,
    format: u32,
    io: impl Fn(io::Error) -> StoreError,
    write: impl FnOnce(&Path) -> StoreResult<()>,
) -> StoreResult<()> {
    let copy = format_copy_path(path, format);
    if copy.exists() {
        return Ok(());
    }
    let part = unfinished_copy_path(path, format);
    let removed =
        if part.is_dir() { std::fs::remove_dir_all(&part) } else { std::fs::remove_file(&part) };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(io(error)),
        _ => {}
    }
    write(&part)?;
    std::fs::rename(&part, &copy).map_err(io)?;
    path.parent().into_iter().for_each(sync_folder);
    Ok(())
}
