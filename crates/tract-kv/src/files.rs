//! Shared code of engines with files: opening, copies, errors.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, Instant};

use tract_core::store::{WriteMode, format_copy_path, unfinished_copy_path};
use tract_core::{StoreError, StoreErrorKind, StoreResult};

/// Options for opening a store in files.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the method of the same name says what each is")]
pub struct FileOptions {
    /// Creates the store and its folder if they do not exist; off by default.
    pub create: bool,
    /// Opens for reading only, shared with other readers; off by default. No process may have the
    /// store open for writing, and the last writer must have closed it. Engines that do not support
    /// it fail with `Unsupported`.
    pub read_only: bool,
    /// Maximum wait for another process that has the store open; then opening fails with `Busy`.
    /// 5 s by default.
    pub busy_timeout: Duration,
    /// The thread that writes run on.
    pub write_mode: WriteMode,
    /// Stores recovery data with every write, so that opening after a crash need not scan the whole
    /// file; on by default. Without it, a write is some microseconds faster, and opening after a
    /// crash takes time proportional to the file size. Ignored by engines without this choice.
    pub quick_repair: bool,
}

impl Default for FileOptions {
    /// Opens an existing store for reading and writing, with a busy timeout of five seconds.
    fn default() -> Self {
        Self {
            create: false,
            read_only: false,
            busy_timeout: Duration::from_secs(5),
            write_mode: WriteMode::Thread,
            quick_repair: true,
        }
    }
}

/// Returns the error for a path without a store.
pub fn no_store(backend: &'static str, path: &Path) -> StoreError {
    let message = format!("there is no store at {}", path.display());
    StoreError::new(StoreErrorKind::NoStore, backend, "open", message)
}

/// Returns the error for a closed engine.
pub fn closed(backend: &'static str, op: &'static str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, backend, op, "the store is closed")
}

/// Calls `open` again while it returns `Busy`, until the timeout. It polls, because file locks
/// cannot be waited for.
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

/// Maps an operating system error of a store that was found when it was opened.
pub fn io_kind(error: &io::Error) -> StoreErrorKind {
    match error.kind() {
        // A missing store is reported when it is opened, before the engine is called.
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied => {
            StoreErrorKind::Unavailable
        }
        ErrorKind::ReadOnlyFilesystem => StoreErrorKind::ReadOnly,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            StoreErrorKind::Full
        }
        // The file is truncated: a page that it should contain is missing.
        ErrorKind::UnexpectedEof => StoreErrorKind::Corrupt { object: None },
        _ => StoreErrorKind::Engine,
    }
}

/// Adds the path to errors about opening, reading, writing or a full disk.
pub fn at(path: &Path) -> impl Fn(StoreError) -> StoreError {
    use StoreErrorKind::{Full, ReadOnly, Unavailable};
    move |mut error| {
        if matches!(error.kind, Unavailable | ReadOnly | Full) {
            error.message = format!("{}: {}", path.display(), error.message);
        }
        error
    }
}

/// Calls an engine that panics on damaged files or disk errors, and converts the panic into an
/// error. After a panic in a write, the caller must not write through that engine again; reads are
/// safe, because everything read is verified by its hash.
///
/// # Errors
/// Those of the call. A panic becomes `Full` or `Engine` if its message contains an operating
/// system error, else `Corrupt`.
pub fn contained<T>(
    backend: &'static str,
    op: &'static str,
    call: impl FnOnce() -> StoreResult<T>,
) -> StoreResult<T> {
    const FULL: [&str; 3] = ["StorageFull", "QuotaExceeded", "FileTooLarge"];
    tract_core::contained(call).unwrap_or_else(|panic| {
        // The message of an `unwrap` is all that remains of the operating system error.
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

/// Makes the names in a folder durable. Errors are ignored: systems that cannot flush a folder do
/// not need it.
pub fn sync_folder(folder: &Path) {
    if let Ok(folder) = std::fs::File::open(folder) {
        let _ = folder.sync_all();
    }
}

/// Creates a complete and durable copy of a store with `write`, named `PATH.format-N`, unless it
/// exists. The copy is written under a temporary name and renamed when it is complete.
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
