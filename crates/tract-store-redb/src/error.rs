//! Converts redb's errors into store errors.

use tract_core::{StoreError, StoreErrorKind, StoreResult};
use tract_kv::files;

pub(crate) const BACKEND: &str = "redb";

/// Creates an error of the store.
pub(crate) fn new(
    kind: StoreErrorKind,
    op: &'static str,
    message: impl Into<String>,
) -> StoreError {
    StoreError::new(kind, BACKEND, op, message)
}

/// Converts a redb error into a store error.
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

/// Converts an operating system error into a store error.
pub(crate) fn io(op: &'static str) -> impl Fn(std::io::Error) -> StoreError {
    move |error| engine(op)(redb::Error::Io(error))
}

fn kind(error: &redb::Error) -> StoreErrorKind {
    use redb::Error;
    match error {
        Error::Corrupted(_) => StoreErrorKind::Corrupt { object: None },
        // Tables with these names but other types, or a file that no version of this store wrote.
        Error::TableTypeMismatch { .. }
        | Error::TypeDefinitionChanged { .. }
        | Error::TableIsMultimap(_)
        | Error::UpgradeRequired(_) => StoreErrorKind::NotAStore,
        Error::DatabaseAlreadyOpen | Error::LockProtocolMismatch => StoreErrorKind::Busy,
        Error::RepairAborted | Error::DatabaseClosed => StoreErrorKind::Unavailable,
        Error::ValueTooLarge(_) => StoreErrorKind::TooLarge,
        Error::PreviousIo => StoreErrorKind::Poisoned,
        Error::Io(error) => files::io_kind(error),
        _ => StoreErrorKind::Engine,
    }
}

/// Calls redb and converts panics into errors.
pub(crate) fn contained<T>(
    op: &'static str,
    call: impl FnOnce() -> StoreResult<T>,
) -> StoreResult<T> {
    // redb survives a panic: a transaction that is dropped while unwinding makes the next opening
    // repair the file, and its locks are poisoned.
    files::contained(BACKEND, op, call)
}
