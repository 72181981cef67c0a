//! sled's failures as those of the store border.

use std::io::ErrorKind;
use tract_core::{StoreError, StoreErrorKind, StoreResult};

pub(crate) const BACKEND: &str = "sled";

/// Makes an error of our own.
pub(crate) fn new(
    kind: StoreErrorKind,
    op: &'static str,
    message: impl Into<String>,
) -> StoreError {
    StoreError::new(kind, BACKEND, op, message)
}

/// Makes an error of sled one of the store's.
pub(crate) fn engine(op: &'static str) -> impl Fn(sled::Error) -> StoreError {
    move |error| {
        let message = match kind(&error) {
            StoreErrorKind::Busy => {
                "the folder is open elsewhere, one process at a time".to_owned()
            }
            _ => error.to_string(),
        };
        new(kind(&error), op, message).with_source(error)
    }
}

/// Makes an error of the operating system one of the store's.
pub(crate) fn io(op: &'static str) -> impl Fn(std::io::Error) -> StoreError {
    move |error| engine(op)(sled::Error::Io(error))
}

fn kind(error: &sled::Error) -> StoreErrorKind {
    match error {
        sled::Error::Corruption { .. } => StoreErrorKind::Corrupt { object: None },
        sled::Error::Unsupported(_) => StoreErrorKind::NotAStore,
        sled::Error::CollectionNotFound(_) | sled::Error::ReportableBug(_) => {
            StoreErrorKind::Engine
        }
        sled::Error::Io(error) => match error.kind() {
            // Where there is no store, opening has said so before the engine is asked.
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied => {
                StoreErrorKind::Unavailable
            }
            ErrorKind::ReadOnlyFilesystem => StoreErrorKind::ReadOnly,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                StoreErrorKind::Full
            }
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof => {
                StoreErrorKind::Corrupt { object: None }
            }
            // sled says it in words only.
            _ if error.to_string().contains("could not acquire lock") => StoreErrorKind::Busy,
            _ => StoreErrorKind::Engine,
        },
    }
}

/// Names the place in an error that says that it cannot be opened, read or written, or is full.
pub(crate) fn at(path: &std::path::Path) -> impl Fn(StoreError) -> StoreError {
    move |mut error| {
        if matches!(
            error.kind,
            StoreErrorKind::Unavailable | StoreErrorKind::ReadOnly | StoreErrorKind::Full
        ) {
            error.message = format!("{}: {}", path.display(), error.message);
        }
        error
    }
}

/// Calls sled, which panics on many damaged files and on some errors of the disk: that is an answer
/// too.
pub(crate) fn contained<T>(
    op: &'static str,
    call: impl FnOnce() -> StoreResult<T>,
) -> StoreResult<T> {
    // After a panic in a write the store writes no more; what is read is hashed.
    tract_core::contained(call).unwrap_or_else(|panic| {
        let panic = panic.to_string();
        // The message of an `unwrap` is all that is left of an error of the operating system.
        let (kind, what) = match panic.contains("Os { code: ") {
            true if ["StorageFull", "QuotaExceeded", "FileTooLarge"]
                .iter()
                .any(|full| panic.contains(full)) =>
            {
                (StoreErrorKind::Full, "the disk is full")
            }
            true => (StoreErrorKind::Engine, "the disk failed"),
            false => (StoreErrorKind::Corrupt { object: None }, "the files are damaged"),
        };
        Err(new(kind, op, format!("{what}: {panic}")))
    })
}
