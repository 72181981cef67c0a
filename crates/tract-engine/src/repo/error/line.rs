//! Reasons why a line of a stream is refused.

use tract_core::stream::StreamOpError;
use tract_core::{BadTarget, RefName};

use super::Error;

/// A refused line. It had no effect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// The line is not a stream operation.
    #[error("{0}")]
    Step(#[from] StreamOpError),
    /// The engine refused the operation.
    #[error("{0}")]
    Engine(#[from] Error),
    /// A line contradicts the record in it.
    #[error("the line and its record disagree: {what}")]
    Disagrees {
        /// The contradiction.
        what: String,
    },
    /// The line cannot fast-forward a ref.
    #[error("cannot fast-forward {name}: {found} is not an ancestor of {to}")]
    Diverged {
        /// The ref.
        name: String,
        /// Its target.
        found: String,
        /// The target in the line.
        to: String,
    },
    /// The kind of the ref does not allow this target.
    #[error("{0}")]
    BadTarget(#[from] BadTarget),
    /// The line brings an approval, a policy or a decision, and the stream is not trusted with
    /// these.
    #[error("{name} is not accepted from a stream: it says what may run, or records a decision")]
    NeedsTrust {
        /// The ref.
        name: RefName,
    },
    /// A commit links to an object that is neither stored nor defined by an earlier line.
    #[error("{object} is referenced, but neither stored nor defined by an earlier line")]
    NotBrought {
        /// The missing object.
        object: String,
    },
    /// The line cannot be read.
    #[error("the line cannot be read: {0}")]
    Read(#[source] std::io::Error),
}

impl LineError {
    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Step(error) => error.code(),
            Self::Engine(error) => error.code(),
            Self::Disagrees { .. } => "record_disagrees",
            Self::Diverged { .. } => "diverged",
            Self::BadTarget(_) => "bad_ref",
            Self::NeedsTrust { .. } => "needs_trust",
            Self::NotBrought { .. } => "missing_object",
            Self::Read(_) => "unreadable_line",
        }
    }

    /// Returns hints about what to do; empty if there are no hints.
    pub fn notes(&self) -> Vec<String> {
        let note = match self {
            Self::Step(error) => return error.notes(),
            Self::Engine(error) => return error.notes(),
            Self::BadTarget(_) => return Vec::new(),
            Self::Disagrees { .. } | Self::NotBrought { .. } => {
                "the stream was changed or cut; export it again"
            }
            Self::Diverged { .. } => {
                "apply the stream to an empty repository, or move the ref away first"
            }
            Self::NeedsTrust { .. } => {
                "if the stream is your own, `tract apply --trust` takes approvals, policies and \
                 decisions"
            }
            Self::Read(_) => "each line is one JSON object in UTF-8",
        };
        vec![note.to_owned()]
    }
}
