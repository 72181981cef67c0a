//! What can go wrong in an import.

use std::fmt::Display;

use tract_core::StoreError;

/// The result of an import.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of an import as a whole. What is wrong with one conversation is in its report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine or the store fails.
    #[error(transparent)]
    Engine(#[from] tract_engine::Error),
    /// Other writers kept moving the branches that the import moves; none was moved.
    #[error("branches kept moving during the import")]
    KeptMoving,
    /// The system has no thread to give for reading.
    #[error("no thread for reading: {0}")]
    Thread(#[source] std::io::Error),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Engine(error.into())
    }
}

/// Reports a text that is not what it was, or that cannot be written.
pub(crate) fn damaged(error: impl Display) -> tract_engine::Error {
    tract_engine::Error::Damaged { object: None, what: error.to_string() }
}

impl Error {
    /// Returns the stable word for it, which the command line prints too.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Engine(error) => error.code(),
            Self::KeptMoving => "conflict",
            Self::Thread(_) => "runtime",
        }
    }

    /// Returns what to do about it, where something helps.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::Engine(error) => error.notes(),
            Self::KeptMoving => vec!["run it again while no other process writes".to_owned()],
            Self::Thread(_) => vec!["allow this process more threads".to_owned()],
        }
    }
}
