//! The events of a stream, and the errors of reading them.

use tract_core::{ModelError, PartialReply, ReplyDelta};
use tract_sse::SseError;

use crate::error::ImportError;

/// Why a stream is not an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// An event violates the dialect.
    #[error("an event of the stream: {0}")]
    Shape(#[from] ImportError),
    /// The provider reported an error within the stream.
    #[error("the provider reported within the stream: {message}")]
    Provider {
        /// The provider's code of the error, such as `overloaded_error`.
        kind: Option<String>,
        /// The provider's message.
        message: String,
    },
    /// The stream ended without its end marker.
    #[error("the stream ended before the answer did")]
    Cut,
    /// The answer ended, but the arguments of a call are not a JSON object.
    #[error("the arguments of the call {name:?} are not whole: the model stopped within them")]
    Arguments {
        /// The name of the tool.
        name: String,
    },
    /// The stream is larger than its limit.
    #[error("the stream is too large: more than {limit_bytes} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit_bytes: u64,
    },
}

impl From<SseError> for StreamError {
    fn from(error: SseError) -> Self {
        match error {
            SseError::TooLong { limit_bytes } => Self::TooLarge { limit_bytes: limit_bytes as u64 },
        }
    }
}

impl From<StreamError> for ModelError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Cut => Self::Cut,
            StreamError::TooLarge { limit_bytes } => Self::TooLarge { limit_bytes },
            StreamError::Provider { kind, message } => of_kind(kind.as_deref(), message),
            error @ (StreamError::Shape(_) | StreamError::Arguments { .. }) => {
                Self::InvalidReply { message: error.to_string(), source: Some(Box::new(error)) }
            }
        }
    }
}

/// Converts the provider's code of an error.
pub(crate) fn of_kind(kind: Option<&str>, message: String) -> ModelError {
    match kind.unwrap_or_default() {
        // Google uses the codes of gRPC, in capitals.
        "insufficient_quota" | "RESOURCE_EXHAUSTED" => {
            ModelError::RateLimited { message, retry_after: None }
        }
        kind if kind.contains("rate_limit") => {
            ModelError::RateLimited { message, retry_after: None }
        }
        kind if kind.contains("overloaded") || kind.contains("server_error") => {
            ModelError::Unavailable { message, source: None }
        }
        "api_error" | "timeout_error" | "UNAVAILABLE" | "INTERNAL" | "DEADLINE_EXCEEDED" => {
            ModelError::Unavailable { message, source: None }
        }
        "authentication_error" | "permission_error" | "UNAUTHENTICATED" | "PERMISSION_DENIED" => {
            ModelError::Unauthorized { message }
        }
        "invalid_request_error"
        | "not_found_error"
        | "request_too_large"
        | "INVALID_ARGUMENT"
        | "NOT_FOUND"
        | "FAILED_PRECONDITION" => ModelError::InvalidRequest { message },
        _ => ModelError::other(format!("the provider answered with an error: {message}")),
    }
}

/// Receives the pieces of an answer.
pub(crate) type OnPiece<'a> = &'a mut dyn FnMut(ReplyDelta);

/// An answer of one dialect that is being assembled from a stream.
pub(crate) trait Accumulate: Send {
    /// Adds an event: its name, if the dialect has names, and its data.
    fn event(&mut self, name: &str, data: &str, on_piece: OnPiece<'_>) -> Result<(), StreamError>;

    /// Returns whether the end marker has arrived.
    fn is_ended(&self) -> bool;

    /// Returns the body that an unstreamed answer would have.
    fn body(&mut self) -> Result<String, StreamError>;

    /// Returns the part that has arrived.
    fn partial(&self) -> PartialReply;
}
