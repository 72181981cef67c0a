//! Converts SQLite's errors into store errors.

use std::path::Path;

use rusqlite::ErrorCode;
use tract_core::store::adjacent_path;
use tract_core::{ObjectId, StoreError, StoreErrorKind};

pub(crate) const BACKEND: &str = "sqlite";

/// Converts an SQLite error into a store error.
pub(crate) fn engine(op: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| {
        let message = match kind(&error) {
            StoreErrorKind::Busy => {
                "the database is locked by another process or connection".to_owned()
            }
            StoreErrorKind::NotAStore => "the file is no database".to_owned(),
            _ => match refused(&error) {
                Some(what) => format!("{error}: {what}"),
                None => error.to_string(),
            },
        };
        StoreError::new(kind(&error), BACKEND, op, message).with_source(error)
    }
}

/// Returns the failed operation if SQLite reports it. SQLite does not report the reason.
fn refused(error: &rusqlite::Error) -> Option<&'static str> {
    use rusqlite::ffi;
    let rusqlite::Error::SqliteFailure(failure, _) = error else { return None };
    match failure.extended_code {
        ffi::SQLITE_IOERR_WRITE => {
            Some("writing failed, on a failing disk or at a limit of the file's size")
        }
        ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC => Some("flushing failed"),
        ffi::SQLITE_IOERR_READ | ffi::SQLITE_IOERR_SHORT_READ => Some("reading failed"),
        ffi::SQLITE_IOERR_TRUNCATE => Some("cutting the file failed"),
        _ => None,
    }
}

fn kind(error: &rusqlite::Error) -> StoreErrorKind {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreErrorKind::Busy,
            ErrorCode::ReadOnly => StoreErrorKind::ReadOnly,
            ErrorCode::DiskFull => StoreErrorKind::Full,
            ErrorCode::NotADatabase => StoreErrorKind::NotAStore,
            ErrorCode::DatabaseCorrupt => StoreErrorKind::Corrupt { object: None },
            ErrorCode::CannotOpen | ErrorCode::PermissionDenied => StoreErrorKind::Unavailable,
            ErrorCode::TooBig => StoreErrorKind::TooLarge,
            _ => StoreErrorKind::Engine,
        },
        // Tables are strict, so a value of another type was not written by this store.
        rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..) => StoreErrorKind::Corrupt { object: None },
        _ => StoreErrorKind::Engine,
    }
}

/// Returns whether there was no room to write: on a full disk, or at a limit of the file's size,
/// which SQLite reports as a failed write.
pub(crate) fn is_out_of_room(error: &rusqlite::Error) -> bool {
    let rusqlite::Error::SqliteFailure(failure, _) = error else { return false };
    failure.code == ErrorCode::DiskFull
        || failure.extended_code == rusqlite::ffi::SQLITE_IOERR_WRITE
}

/// Returns whether the operating system failed to read, write or flush. If so, data written since
/// the last flush may be lost.
pub(crate) fn is_io(error: &StoreError) -> bool {
    let source = error.source.as_deref().and_then(|source| source.downcast_ref());
    matches!(
        source,
        Some(rusqlite::Error::SqliteFailure(failure, _)) if failure.code == ErrorCode::SystemIoFailure
    )
}

/// Adds the required space to a disk-full error. Deleting needs space too, because it writes to the
/// log, which shrinks only once its pages fit into the file.
pub(crate) fn with_space_needed(mut error: StoreError, path: &Path) -> StoreError {
    const TO_CONTINUE: u64 = 1 << 20;
    if error.kind == StoreErrorKind::Full {
        let log = std::fs::metadata(adjacent_path(path, "-wal")).map_or(0, |log| log.len());
        let folder = path.parent().unwrap_or(path).display();
        let bytes = log + TO_CONTINUE;
        error.message.push_str(&format!(
            "; make {bytes} bytes free in {folder} and try again, deleting included, or `tract copy` \
             to a store on another disk"
        ));
    }
    error
}

/// Creates an error of the store.
pub(crate) fn new(
    kind: StoreErrorKind,
    op: &'static str,
    message: impl Into<String>,
) -> StoreError {
    StoreError::new(kind, BACKEND, op, message)
}

/// Returns the error for damaged data that is not an object.
pub(crate) fn damaged(op: &'static str, what: impl Into<String>) -> StoreError {
    new(StoreErrorKind::Corrupt { object: None }, op, what)
}

/// Returns the error for an object with damaged bytes.
pub(crate) fn corrupt(op: &'static str, object: ObjectId) -> StoreError {
    StoreError::corrupt(BACKEND, op, object)
}

/// Copies an error, because every batch of a group gets its own.
pub(crate) fn again(error: &StoreError) -> StoreError {
    StoreError::new(error.kind.clone(), error.backend, error.op, error.message.clone())
}
