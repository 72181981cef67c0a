//! redb's failures as those of the store border.

use redb::StorageError;
use tract_core::{StoreError, StoreErrorKind, StoreResult};

pub(crate) const BACKEND: &str = "redb";

/// Makes an error of our own.
pub(crate) fn new(
    kind: StoreErrorKind,
    op: &'static str,
    message: impl Into<String>,
) -> StoreError {
    StoreError::new(kind, BACKEND, op, message)
}

/// Makes an error of redb one of the store's.
pub(crate) fn engine<E: Into<redb::Error>>(op: &'static str) -> impl Fn(E) -> StoreError {
    move |error| {
        let error = error.into();
        let message = match &error {
            redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch => {
                "the file is open elsewhere, and one process at a time may write it".to_owned()
            }
            redb::Error::RepairAborted => {
                "the file was not closed by who wrote last: open it for writing once".to_owned()
            }
            error => error.to_string(),
        };
        new(kind(&error), op, message).with_source(error)
    }
}

fn kind(error: &redb::Error) -> StoreErrorKind {
    use redb::Error;
    use std::io::ErrorKind;
    match error {
        Error::Corrupted(_) => StoreErrorKind::Corrupt { object: None },
        // Tables of these names with other types, or a file that no version of ours wrote.
        Error::TableTypeMismatch { .. }
        | Error::TypeDefinitionChanged { .. }
        | Error::TableIsMultimap(_)
        | Error::UpgradeRequired(_) => StoreErrorKind::NotAStore,
        Error::DatabaseAlreadyOpen | Error::LockProtocolMismatch => StoreErrorKind::Busy,
        Error::RepairAborted | Error::DatabaseClosed => StoreErrorKind::Unavailable,
        Error::ValueTooLarge(_) => StoreErrorKind::TooLarge,
        Error::PreviousIo => StoreErrorKind::Poisoned,
        Error::Io(error) => match error.kind() {
            // Where there is no store, opening has said so before the engine is asked.
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied => {
                StoreErrorKind::Unavailable
            }
            ErrorKind::ReadOnlyFilesystem => StoreErrorKind::ReadOnly,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                StoreErrorKind::Full
            }
            // The file ends before a page that it should hold.
            ErrorKind::UnexpectedEof => StoreErrorKind::Corrupt { object: None },
            _ => StoreErrorKind::Engine,
        },
        _ => StoreErrorKind::Engine,
    }
}

/// Names the place in an error that says that it cannot be opened, read or written.
pub(crate) fn at(path: &std::path::Path) -> impl Fn(StoreError) -> StoreError {
    move |mut error| {
        if matches!(error.kind, StoreErrorKind::Unavailable | StoreErrorKind::ReadOnly) {
            error.message = format!("{}: {}", path.display(), error.message);
        }
        error
    }
}

/// Calls redb, which panics on some damaged files: that is an answer too.
pub(crate) fn contained<T>(
    op: &'static str,
    call: impl FnOnce() -> StoreResult<T>,
) -> StoreResult<T> {
    // What redb leaves behind it marks itself: a transaction that is dropped while unwinding
    // makes the next opening repair the file, and its own locks are poisoned.
    tract_core::contained(call).unwrap_or_else(|panic| {
        let message = format!("the file is damaged: {panic}");
        Err(new(StoreErrorKind::Corrupt { object: None }, op, message))
    })
}

/// Makes an error of reading pages one of the store's.
pub(crate) fn storage(op: &'static str) -> impl Fn(StorageError) -> StoreError {
    engine(op)
}
