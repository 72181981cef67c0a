//! Errors of reading and writing provider requests.

use tract_core::json::JsonError;
use tract_schema::Dialect;

/// A text that violates its dialect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The text is not JSON, or cannot be written as canonical JSON.
    #[error("{}{source}", at(.path))]
    Json {
        /// The path; empty for the whole text.
        path: String,
        /// The error of the reader.
        source: JsonError,
    },
    /// A value has another type than the dialect requires.
    #[error("{}expected {expected}, found {found}", at(.path))]
    Expected {
        /// The path, such as `messages[3].content`.
        path: String,
        /// The expected content.
        expected: &'static str,
        /// The content that was found.
        found: &'static str,
    },
    /// A required member is missing.
    #[error("{}expected a member {member:?}, found none", at(.path))]
    Missing {
        /// The object.
        path: String,
        /// The member.
        member: &'static str,
    },
    /// A message contains a member of another dialect, which would be lost.
    #[error("{path}: this is part of the {shown} format, not of {requested}")]
    OtherFormat {
        /// The path, such as `messages[1].tool_calls`.
        path: String,
        /// The dialect of the reader.
        requested: Dialect,
        /// The dialect or format that the text looks like.
        shown: Dialect,
    },
    /// The list of messages is empty, and no answer is next to it.
    #[error("the conversation has no messages")]
    NoMessages,
    /// The result of a batch's request that failed, expired or was canceled.
    #[error("the request {id:?} of the batch has no answer: {cause}")]
    NoAnswer {
        /// The name of the request in the batch.
        id: String,
        /// The reason that the provider states.
        cause: String,
    },
    /// The text is not a conversation in any known dialect.
    #[error("expected a conversation or a request, found {found}")]
    Unknown {
        /// The dialect or format that the text looks like.
        found: String,
    },
}

fn at(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}

impl ImportError {
    /// Returns the path of the error; empty for the whole text.
    pub fn path(&self) -> &str {
        match self {
            Self::Json { path, .. }
            | Self::Expected { path, .. }
            | Self::Missing { path, .. }
            | Self::OtherFormat { path, .. } => path,
            Self::NoMessages | Self::NoAnswer { .. } | Self::Unknown { .. } => "",
        }
    }

    /// Returns what to do about it.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::Unknown { .. } => vec![
                "known are request bodies, {\"messages\",\"tools\"}, and lines with \"request\""
                    .to_owned(),
                format!("name the dialect: {}", Dialect::words()),
            ],
            Self::OtherFormat { shown, .. } => {
                vec![format!("--format {shown} reads it; without --format it is detected")]
            }
            Self::Json { .. }
            | Self::Expected { .. }
            | Self::Missing { .. }
            | Self::NoMessages
            | Self::NoAnswer { .. } => Vec::new(),
        }
    }
}

/// A reply that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// The provider answered with an error.
    #[error("the provider answered with an error: {message}")]
    Provider {
        /// The message of the provider.
        message: String,
    },
    /// The text is not a reply of this provider.
    #[error(transparent)]
    Shape(#[from] ImportError),
    /// The form does not have replies.
    #[error("the form {form} is not a request, so it has no reply")]
    NoRequest {
        /// The form.
        form: &'static str,
    },
}
