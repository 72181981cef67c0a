//! Converts sled's errors into store errors.

use std::io::ErrorKind;
use tract_core::{StoreError, StoreErrorKind, StoreResult};
use tract_kv::files;

pub(crate) const BACKEND: &str = "sled";

/// Creates an error of the store.
pub(crate) fn new(
    kind: StoreErrorKind,
    op: &'static str,
    message: impl Into<String>,
) -> StoreError {
    StoreError::new(kind, BACKEND, op, message)
}

/// Converts a sled error into a store error.
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

/// Converts an operating system error into a store error.
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
        // sled reports this error only as text.
        sled::Error::Io(error) if error.to_string().contains("could not acquire lock") => {
            StoreErrorKind::Busy
        }
        sled::Error::Io(error) if error.kind() == ErrorKind::InvalidData => {
            StoreErrorKind::Corrupt { object: None }
        }
        sled::Error::Io(error) => files::io_kind(error),
    }
}

/// Calls sled and converts panics into errors.
pub(crate) fn contained<T>(
    op: &'static str,
    call: impl FnOnce() -> StoreResult<T>,
) -> StoreResult<T> {
    files::contained(BACKEND, op, call)
}
