//! The error type of imports.

use std::fmt::Display;

use tract_core::StoreError;

/// The result of an import.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of an import as a whole. Problems of one conversation are in its report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine or the store fails.
    #[error(transparent)]
    Engine(#[from] tract_engine::Error),
    /// Other writers kept moving the branches that the import moves. No branch was moved.
    #[error("branches kept moving during the import")]
    KeptMoving,
    /// The system cannot start a thread for reading.
    #[error("no thread for reading: {0}")]
    Thread(#[source] std::io::Error),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Engine(error.into())
    }
}

/// Creates the error for a text that does not match its id, or cannot be written.
pub(crate) fn damaged(error: impl Display) -> tract_engine::Error {
    tract_engine::Error::Damaged { object: None, what: error.to_string() }
}

impl Error {
    /// Returns the stable code, which the command line prints as well.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Engine(error) => error.code(),
            Self::KeptMoving => "conflict",
            Self::Thread(_) => "runtime",
        }
    }

    /// Returns hints about what to do; empty if there are no hints.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::Engine(error) => error.notes(),
            Self::KeptMoving => vec!["run it again while no other process writes".to_owned()],
            Self::Thread(_) => vec!["allow this process more threads".to_owned()],
        }
    }
}
