//! PostgreSQL's failures as those of the store border.

use tokio_postgres::error::{Error, SqlState};
use tract_core::{BlobId, ObjectId, StoreError, StoreErrorKind};

pub(crate) const BACKEND: &str = "postgres";
/// What the functions raise for a blob that was erased: see `functions.sql`.
const ERASED: &str = "TR001";

/// What a failed try means for the next one.
#[derive(Debug)]
pub(crate) enum Failed {
    /// It would fail again.
    Final(StoreError),
    /// It was rolled back for what others did meanwhile: it may be tried again on any connection.
    Again(StoreError),
    /// No connection could be had: nothing was sent.
    Unreached(StoreError),
    /// The connection was lost with the statement under way: it may have happened or not.
    Lost(StoreError),
}

impl Failed {
    /// Copies the failure for another caller of the same group.
    pub(crate) fn duplicate(&self) -> Self {
        let made = |error: &StoreError| {
            StoreError::new(error.kind.clone(), BACKEND, error.op, error.message.clone())
        };
        match self {
            Self::Final(error) => Self::Final(made(error)),
            Self::Again(error) => Self::Again(made(error)),
            Self::Unreached(error) => Self::Unreached(made(error)),
            Self::Lost(error) => Self::Lost(made(error)),
        }
    }

    /// Changes the error, not what it means for the next try.
    pub(crate) fn map(self, change: impl FnOnce(StoreError) -> StoreError) -> Self {
        match self {
            Self::Final(error) => Self::Final(change(error)),
            Self::Again(error) => Self::Again(change(error)),
            Self::Unreached(error) => Self::Unreached(change(error)),
            Self::Lost(error) => Self::Lost(change(error)),
        }
    }

    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::Final(error)
            | Self::Again(error)
            | Self::Unreached(error)
            | Self::Lost(error) => error,
        }
    }
}

/// Makes an error of our own.
pub(crate) fn new(
    kind: StoreErrorKind,
    op: &'static str,
    message: impl Into<String>,
) -> StoreError {
    StoreError::new(kind, BACKEND, op, message)
}

/// Makes the error of something stored, but no object, whose bytes are wrong.
pub(crate) fn damaged(op: &'static str, what: impl Into<String>) -> StoreError {
    new(StoreErrorKind::Corrupt { object: None }, op, what)
}

/// Makes the error of an object whose stored bytes are wrong.
pub(crate) fn corrupt(op: &'static str, object: ObjectId) -> StoreError {
    StoreError::corrupt(BACKEND, op, object)
}

/// Judges a failure of a statement.
pub(crate) fn failed(op: &'static str, error: Error) -> Failed {
    let Some(state) = error.code().cloned() else {
        // What the driver cannot read or write does not come from a server of this store.
        let kind = if error.is_closed() || is_io(&error) {
            StoreErrorKind::Unavailable
        } else {
            StoreErrorKind::Engine
        };
        let broken = kind == StoreErrorKind::Unavailable;
        let error = new(kind, op, error.to_string()).with_source(error);
        return if broken { Failed::Lost(error) } else { Failed::Final(error) };
    };
    if let Some(blob) = erased_blob(&error) {
        return Failed::Final(StoreError::erased(BACKEND, op, blob));
    }
    let message =
        error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned());
    let code = state.code();
    let kind = kind(&state);
    let made = new(kind.clone(), op, format!("{message} ({code})")).with_source(error);
    match code {
        "40001" | "40P01" | "23505" => Failed::Again(made),
        "57P01" | "57P02" | "57P03" | "57P05" => Failed::Lost(made),
        "53300" => Failed::Unreached(made),
        _ if code.starts_with("08") => Failed::Lost(made),
        _ => Failed::Final(made),
    }
}

/// Returns the blob of which the functions say that it was erased.
fn erased_blob(error: &Error) -> Option<BlobId> {
    let server_error =
        error.as_db_error().filter(|server_error| server_error.code().code() == ERASED)?;
    server_error.detail()?.parse().ok()
}

/// Judges a failure to connect: nothing was asked of the server yet.
pub(crate) fn unreached(op: &'static str, error: Error) -> Failed {
    match failed(op, error) {
        Failed::Lost(error) | Failed::Again(error) => Failed::Unreached(error),
        other => other,
    }
}

fn is_io(error: &Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if inner.is::<std::io::Error>() {
            return true;
        }
        source = inner.source();
    }
    false
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
