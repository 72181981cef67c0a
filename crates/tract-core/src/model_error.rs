//! Errors of model requests.

use std::time::Duration;

use crate::partial::PartialReply;

/// Error of a model request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The provider cannot be reached, or is out of order.
    #[error("the model cannot be reached: {message}")]
    Unavailable {
        /// The failure.
        message: String,
        /// The cause.
        #[source]
        source: Option<BoxError>,
    },
    /// The model did not answer in time.
    #[error("the model did not answer within {after:?}")]
    Timeout {
        /// The time limit.
        after: Duration,
    },
    /// The provider's rate limit was exceeded.
    #[error("the provider limits the rate of requests: {message}")]
    RateLimited {
        /// The provider's message.
        message: String,
        /// The delay that the provider requested before a retry.
        retry_after: Option<Duration>,
    },
    /// The provider does not accept the credentials.
    #[error("the provider refused access: {message}")]
    Unauthorized {
        /// The provider's message.
        message: String,
    },
    /// The provider does not accept the request.
    #[error("the provider refused the request: {message}")]
    InvalidRequest {
        /// The provider's message.
        message: String,
    },
    /// The answer does not conform to the provider's dialect.
    #[error("the answer could not be read: {message}")]
    InvalidReply {
        /// The expected and the actual input.
        message: String,
        /// The cause.
        #[source]
        source: Option<BoxError>,
    },
    /// The answer exceeds the caller's limit.
    #[error("the answer is too large: more than {limit_bytes} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// The stream ended without an end marker.
    #[error("the stream ended before the answer did")]
    Cut,
    /// The caller canceled the request.
    #[error("the request was cancelled")]
    Cancelled,
    /// The answer was interrupted after a part of it had arrived.
    #[error("the answer broke off: {cause}")]
    BrokenOff {
        /// The cause.
        #[source]
        cause: Box<ModelError>,
        /// The part that arrived.
        partial: Box<PartialReply>,
    },
    /// Anything else.
    #[error("{message}")]
    Other {
        /// The failure.
        message: String,
        /// The cause.
        #[source]
        source: Option<BoxError>,
    },
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl ModelError {
    /// Creates an error of the variant `Other`.
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other { message: message.into(), source: None }
    }

    /// Returns the stable name of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "model_unavailable",
            Self::Timeout { .. } => "model_timeout",
            Self::RateLimited { .. } => "rate_limited",
            Self::Unauthorized { .. } => "unauthorized",
            Self::InvalidRequest { .. } => "invalid_request",
            Self::InvalidReply { .. } => "invalid_reply",
            Self::TooLarge { .. } => "reply_too_large",
            Self::Cut => "reply_cut",
            Self::Cancelled => "cancelled",
            Self::BrokenOff { .. } => "broken_off",
            Self::Other { .. } => "model_error",
        }
    }

    /// Returns whether the same request may succeed later.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Unavailable { .. }
            | Self::Timeout { .. }
            | Self::RateLimited { .. }
            | Self::Cut => true,
            Self::BrokenOff { cause, .. } => cause.retryable(),
            Self::Unauthorized { .. }
            | Self::InvalidRequest { .. }
            | Self::InvalidReply { .. }
            | Self::TooLarge { .. }
            | Self::Cancelled
            | Self::Other { .. } => false,
        }
    }

    /// Returns advice on how to fix the error, if there is any.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::RateLimited { retry_after: Some(after), .. } => {
                vec![format!("try again in {after:?}")]
            }
            Self::BrokenOff { cause, .. } => cause.notes(),
            Self::Unauthorized { .. } => {
                vec!["check the API key and its permissions".to_owned()]
            }
            _ if self.retryable() => vec!["try again later".to_owned()],
            _ => Vec::new(),
        }
    }
}
