//! What can go wrong at the edge.

use tract_compile::{Repair, Unpaired};
use tract_core::json::JsonError;
use tract_schema::Dialect;

/// A text that is not what its dialect says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The text is no JSON, or JSON that has no canonical form.
    #[error("{}{source}", at(.path))]
    Json {
        /// Where; empty for the whole text.
        path: String,
        /// What the reader met.
        source: JsonError,
    },
    /// A value is of another kind than the dialect requires there.
    #[error("{}expected {expected}, found {found}", at(.path))]
    Expected {
        /// Where, such as `messages[3].content`.
        path: String,
        /// What should be there.
        expected: &'static str,
        /// What does.
        found: &'static str,
    },
    /// A member that the dialect requires is not there.
    #[error("{}expected a member {member:?}, found none", at(.path))]
    Missing {
        /// The object.
        path: String,
        /// The member.
        member: &'static str,
    },
    /// A message says what only another dialect can: read as this one, it would be lost.
    #[error("{path}: this is part of the {shown} format, not of {requested}")]
    OtherFormat {
        /// Where, such as `messages[1].tool_calls`.
        path: String,
        /// The dialect that it was to be read in.
        requested: Dialect,
        /// What it looks like.
        shown: Dialect,
    },
    /// The text is not a conversation in any known dialect.
    #[error("expected a conversation or a request, found {found}")]
    Unknown {
        /// What it looks like.
        found: String,
    },
}

fn at(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}

impl ImportError {
    /// Returns where the text went wrong; empty for the whole text.
    pub fn path(&self) -> &str {
        match self {
            Self::Json { path, .. }
            | Self::Expected { path, .. }
            | Self::Missing { path, .. }
            | Self::OtherFormat { path, .. } => path,
            Self::Unknown { .. } => "",
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
            Self::Json { .. } | Self::Expected { .. } | Self::Missing { .. } => Vec::new(),
        }
    }
}

/// A context that does not take a form.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormError {
    /// No form has this name.
    #[error("unknown form {name:?}")]
    UnknownForm {
        /// The name.
        name: String,
    },
    /// Calls and results do not pair, in strict mode.
    #[error(transparent)]
    Unpaired(#[from] Unpaired),
    /// A stored text is not what it was when it was taken in.
    #[error("{what} is damaged: {source}")]
    Damaged {
        /// Whose text.
        what: String,
        /// What the reader met.
        source: JsonError,
    },
}

impl FormError {
    /// Returns what to do about it.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::UnknownForm { .. } => vec![format!("known are {}", crate::form::names())],
            Self::Unpaired(unpaired) => {
                let steps = unpaired.repairs.iter().map(Repair::to_string);
                steps.chain(["pairing \"repair\" makes these changes".to_owned()]).collect()
            }
            Self::Damaged { .. } => vec!["verify the store".to_owned()],
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
        /// What it said.
        message: String,
    },
    /// The text is not a reply of this provider.
    #[error(transparent)]
    Shape(#[from] ImportError),
    /// The form has no replies.
    #[error("the form {form} is not a request, so it has no reply")]
    NoRequest {
        /// The form.
        form: &'static str,
    },
}
