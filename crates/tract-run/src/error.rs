//! Why a run cannot go on.

use tract_core::json::JsonError;
use tract_core::{CommitId, ModelError};
use tract_tools::pin::{PinError, PinPolicy};
use tract_tools::prompt::RenderError;
use tract_tools::{RegistryError, SessionError};

/// The result of a run.
pub type Result<T, E = RunError> = std::result::Result<T, E>;

/// Why a run cannot go on. What was committed before stays, and the branch can be resumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The store, a planner or a hook refuses.
    #[error("{0}")]
    Engine(#[from] tract_engine::Error),
    /// There is no answer from the model.
    #[error("{error}")]
    Model {
        /// Why.
        #[source]
        error: ModelError,
        /// The note that records what had come of it.
        recorded: Option<CommitId>,
    },
    /// The state of the tools cannot be kept.
    #[error("{0}")]
    Session(#[from] SessionError),
    /// The tools do not go together.
    #[error("{0}")]
    Registry(#[from] RegistryError),
    /// The instructions cannot be rendered.
    #[error("{0}")]
    Prompt(#[from] RenderError),
    /// Something does not become JSON.
    #[error("expected something that becomes JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Something has no canonical JSON.
    #[error("expected JSON with a canonical form: {0}")]
    Canonical(#[from] JsonError),
    /// What was approved cannot be read, so nobody knows what may run.
    #[error("{name}: {error}")]
    Pins {
        /// The document.
        name: String,
        /// Why.
        #[source]
        error: PinError,
    },
    /// There is nothing to answer on the branch.
    #[error("expected a message to answer on the branch, found none")]
    NothingToAnswer,
    /// Calls wait until somebody has decided, so nothing can be said after them.
    #[error("calls wait to be decided: {}", .pending.join(", "))]
    CallsWait {
        /// What waits, by name.
        pending: Vec<String>,
    },
    /// What stands on the branch is not what a run has written.
    #[error("expected {expected}, found something else in {commit}")]
    Unreadable {
        /// What should be there.
        expected: &'static str,
        /// The commit.
        commit: CommitId,
    },
}

impl RunError {
    /// Returns the stable word for the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Engine(_) => "engine",
            Self::Model { error, .. } => error.code(),
            Self::Session(_) => "session",
            Self::Registry(_) => "registry",
            Self::Prompt(_) => "prompt",
            Self::Json(_) | Self::Canonical(_) => "json",
            Self::Pins { .. } => "pins",
            Self::NothingToAnswer => "nothing_to_answer",
            Self::CallsWait { .. } => "calls_wait",
            Self::Unreadable { .. } => "unreadable",
        }
    }

    /// Returns what to do about it, where something helps.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::Engine(error) => error.notes(),
            Self::Model { error, .. } => error.notes(),
            Self::Pins { name, .. } if name == PinPolicy::DOCUMENT => {
                vec!["say it again: tract tools policy approved-only".to_owned()]
            }
            Self::Pins { .. } => vec!["approve the tool again: tract tools trust".to_owned()],
            Self::NothingToAnswer => vec!["say something first".to_owned()],
            Self::CallsWait { .. } => {
                vec!["decide what waits, run again, and say it then".to_owned()]
            }
            Self::Session(_)
            | Self::Registry(_)
            | Self::Prompt(_)
            | Self::Json(_)
            | Self::Canonical(_)
            | Self::Unreadable { .. } => Vec::new(),
        }
    }
}
