//! sled's failures as those of the store border.

use std::io::ErrorKind;
use tract_core::{StoreError, StoreErrorKind, StoreResult};
use tract_kv::files;

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
        // sled reports it only as text.
        sled::Error::Io(error) if error.to_string().contains("could not acquire lock") => {
            StoreErrorKind::Busy
        }
        sled::Error::Io(error) if error.kind() == ErrorKind::InvalidData => {
            StoreErrorKind::Corrupt { object: None }
        }
        sled::Error::Io(error) => files::io_kind(error),
    }
}

/// Calls sled, whose panics are answers too.
pub(crate) fn contained<T>(
    op: &'static str,
    call: impl FnOnce() -> StoreResult<T>,
) -> StoreResult<T> {
    files::contained(BACKEND, op, call)
}
