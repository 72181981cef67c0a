//! Why there is no answer from a model.

use std::time::Duration;

use crate::partial::PartialReply;

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The provider cannot be reached, or is out of order.
    #[error("the model cannot be reached: {message}")]
    Unavailable {
        /// What happened.
        message: String,
        /// The cause.
        #[source]
        source: Option<BoxError>,
    },
    /// There was no answer in time.
    #[error("the model did not answer within {after:?}")]
    Timeout {
        /// How long was waited.
        after: Duration,
    },
    /// Too many requests.
    #[error("the provider limits the rate of requests: {message}")]
    RateLimited {
        /// What the provider said.
        message: String,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// The provider does not accept the credentials.
    #[error("the provider refused access: {message}")]
    Unauthorized {
        /// What the provider said.
        message: String,
    },
    /// The provider does not accept the request.
    #[error("the provider refused the request: {message}")]
    InvalidRequest {
        /// What the provider said.
        message: String,
    },
    /// The answer is not what the provider's dialect says.
    #[error("the answer could not be read: {message}")]
    InvalidReply {
        /// What was expected and what was found.
        message: String,
        /// The cause.
        #[source]
        source: Option<BoxError>,
    },
    /// The answer is larger than the caller takes.
    #[error("the answer is too large: more than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// The stream ended without the word that ends an answer.
    #[error("the stream ended before the answer did")]
    Cut,
    /// The caller cancelled it.
    #[error("the request was cancelled")]
    Cancelled,
    /// The answer broke off after a part of it had arrived.
    #[error("the answer broke off: {cause}")]
    BrokenOff {
        /// Why.
        #[source]
        cause: Box<ModelError>,
        /// The part that arrived.
        partial: Box<PartialReply>,
    },
    /// Anything else.
    #[error("{message}")]
    Other {
        /// What happened.
        message: String,
        /// The cause.
        #[source]
        source: Option<BoxError>,
    },
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl ModelError {
    /// Makes an error that no other variant fits.
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other { message: message.into(), source: None }
    }

    /// Returns the stable word for the variant.
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

    /// Returns what to do about it, where something helps.
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
