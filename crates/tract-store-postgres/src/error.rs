//! Converts PostgreSQL's errors into store errors.

use tokio_postgres::error::{Error, SqlState};
use tract_core::{BlobId, ObjectId, StoreError, StoreErrorKind};

pub(crate) const BACKEND: &str = "postgres";
/// The error code that the functions raise for an erased blob; see `functions.sql`.
const ERASED: &str = "TR001";

/// Whether a failed attempt may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// It would fail again.
    Never,
    /// It was rolled back because of a concurrent transaction. It may be repeated on any
    /// connection.
    Again,
    /// Connecting failed, so nothing was sent.
    Unreached,
    /// The connection was lost during the statement, so the outcome is unknown.
    Lost,
}

/// A failed attempt.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) retry: Retry,
    pub(crate) error: StoreError,
}

impl Failed {
    /// Copies the failure for another caller of the same group.
    pub(crate) fn duplicate(&self) -> Self {
        let StoreError { kind, op, message, .. } = &self.error;
        Self { retry: self.retry, error: new(kind.clone(), op, message.clone()) }
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self { retry: Retry::Never, error }
    }
}

impl From<Failed> for StoreError {
    fn from(failed: Failed) -> Self {
        failed.error
    }
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

/// Converts a statement's error, and decides whether it may be repeated.
pub(crate) fn failed(op: &'static str, error: Error) -> Failed {
    let Some(state) = error.code().cloned() else {
        // A value that the driver cannot encode or decode does not come from a server with this
        // store.
        let (kind, retry) = if error.is_closed() || is_io(&error) {
            (StoreErrorKind::Unavailable, Retry::Lost)
        } else {
            (StoreErrorKind::Engine, Retry::Never)
        };
        return Failed { retry, error: new(kind, op, error.to_string()).with_source(error) };
    };
    if let Some(blob) = erased_blob(&error) {
        return StoreError::erased(BACKEND, op, blob).into();
    }
    let message =
        error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned());
    let code = state.code();
    // 40001: serialization failure. 40P01: deadlock. 23505: another transaction has inserted the
    // same object, which the next attempt finds. 57P0x: the server ended the connection. 53300: it
    // has no connection left.
    let retry = match code {
        "40001" | "40P01" | "23505" => Retry::Again,
        "57P01" | "57P02" | "57P03" | "57P05" => Retry::Lost,
        "53300" => Retry::Unreached,
        _ if code.starts_with("08") => Retry::Lost,
        _ => Retry::Never,
    };
    Failed { retry, error: new(kind(&state), op, format!("{message} ({code})")).with_source(error) }
}

/// Returns the blob that the functions report as erased.
fn erased_blob(error: &Error) -> Option<BlobId> {
    let server_error =
        error.as_db_error().filter(|server_error| server_error.code().code() == ERASED)?;
    server_error.detail()?.parse().ok()
}

/// Converts an error of connecting. Nothing was sent to the server yet.
pub(crate) fn unreached(op: &'static str, error: Error) -> Failed {
    let failed = failed(op, error);
    let retry = match failed.retry {
        Retry::Lost | Retry::Again => Retry::Unreached,
        retry => retry,
    };
    Failed { retry, ..failed }
}

fn is_io(error: &Error) -> bool {
    let first = std::error::Error::source(error);
    std::iter::successors(first, |cause| cause.source()).any(|cause| cause.is::<std::io::Error>())
}

fn kind(state: &SqlState) -> StoreErrorKind {
    match state.code() {
        "53100" => StoreErrorKind::Full,
        "25006" | "42501" => StoreErrorKind::ReadOnly,
        "40001" | "40P01" | "55P03" | "57014" | "53300" => StoreErrorKind::Busy,
        "3D000" | "3F000" | "42P01" => StoreErrorKind::NoStore,
        "54000" => StoreErrorKind::TooLarge,
        "XX001" | "XX002" => StoreErrorKind::Corrupt { object: None },
        code if code.starts_with("28") || code.starts_with("08") || code.starts_with("57P") => {
            StoreErrorKind::Unavailable
        }
        _ => StoreErrorKind::Engine,
    }
}
