//! The error type of this crate.

/// The error type of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Errors of the engine.
    #[error(transparent)]
    Engine(#[from] tract_engine::Error),
    /// A context cannot be compiled to a request.
    #[error(transparent)]
    Form(#[from] tract_providers::FormError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The reason.
        source: std::io::Error,
    },
    /// The server, or the file that is being written, failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The operating system cannot provide randomness.
    #[error("no randomness for the token: {0}")]
    Random(String),
    /// The requested page does not exist.
    #[error("{0}")]
    NotFound(String),
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
