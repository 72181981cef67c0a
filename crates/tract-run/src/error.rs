//! Errors of runs.

use tract_core::json::JsonError;
use tract_core::{CommitId, ModelError};
use tract_tools::pin::PinDocumentError;
use tract_tools::prompt::RenderError;
use tract_tools::{RegistryError, SessionError};

/// The result of a run.
pub type Result<T, E = RunError> = std::result::Result<T, E>;

/// The error type of this crate. Earlier commits stay, and the branch can be resumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An error of the store, a planner or a hook.
    #[error("{0}")]
    Engine(#[from] tract_engine::Error),
    /// The model did not answer.
    #[error("{error}")]
    Model {
        /// The model's error.
        #[source]
        error: ModelError,
        /// The note that records the part that arrived.
        recorded: Option<CommitId>,
    },
    /// The state of the tools cannot be stored.
    #[error("{0}")]
    Session(#[from] SessionError),
    /// The tools cannot be combined in one registry.
    #[error("{0}")]
    Registry(#[from] RegistryError),
    /// The instructions cannot be rendered.
    #[error("{0}")]
    Prompt(#[from] RenderError),
    /// A value cannot be serialized as JSON.
    #[error("expected something that becomes JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A value cannot be written as canonical JSON.
    #[error("expected JSON with a canonical form: {0}")]
    Canonical(#[from] JsonError),
    /// The approvals cannot be read, so it is unknown which calls may run.
    #[error(transparent)]
    Pins(#[from] PinDocumentError),
    /// The branch contains no message to answer.
    #[error("expected a message to answer on the branch, found none")]
    NothingToAnswer,
    /// Calls wait for a decision, so no message can follow them.
    #[error("calls wait for a decision: {}", .pending.join(", "))]
    CallsWait {
        /// The names of the pending approvals.
        pending: Vec<String>,
    },
    /// Another run works on the calls, and did not finish while this one waited.
    #[error("{by} is running the calls of this message, on {branch}")]
    Held {
        /// The other run.
        by: String,
        /// The ref of the branch that it works on.
        branch: String,
    },
    /// A person approved a call of a tool that this run does not have. The call stays open.
    #[error("call {call_id:?} of {tool:?} is approved, but this run has no such tool")]
    ApprovedTool {
        /// The call.
        call_id: String,
        /// The tool's name.
        tool: String,
        /// The tool's server, if it has one.
        server: Option<String>,
    },
    /// The record of an effect cannot be read, so it is unknown which calls may run.
    #[error("{name}: expected the record of an effect: {why}")]
    Effect {
        /// The document.
        name: String,
        /// The reason.
        why: String,
    },
    /// A commit of the branch does not have the form that runs write.
    #[error("expected {expected}, found something else in {commit}")]
    Unreadable {
        /// The content that was expected.
        expected: &'static str,
        /// The commit.
        commit: CommitId,
    },
}

impl RunError {
    /// Returns the stable code of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Engine(_) => "engine",
            Self::Model { error, .. } => error.code(),
            Self::Session(SessionError::Held { .. }) => "held",
            Self::Session(_) => "session",
            Self::Registry(_) => "registry",
            Self::Prompt(_) => "prompt",
            Self::Json(_) | Self::Canonical(_) => "invalid_json",
            Self::Pins(_) => "pins",
            Self::NothingToAnswer => "nothing_to_answer",
            Self::CallsWait { .. } => "calls_wait",
            Self::Held { .. } => "held",
            Self::ApprovedTool { .. } => "approved_tool",
            Self::Effect { .. } => "effect",
            Self::Unreadable { .. } => "unreadable",
        }
    }

    /// Returns hints for fixing it.
    pub fn notes(&self) -> Vec<String> {
        let one = |note: &str| vec![note.to_owned()];
        match self {
            Self::Engine(error) => error.notes(),
            Self::Model { error, .. } => error.notes(),
            Self::Pins(error) => one(error.note()),
            Self::NothingToAnswer => one("record a message first, or run with a task"),
            Self::CallsWait { .. } => {
                one("decide the pending approvals, run without a task, then give it again")
            }
            Self::Held { .. } => {
                one("wait for it to end, or stop it, then run again: finished work is recorded")
            }
            Self::Session(SessionError::Held { .. }) => {
                one("wait for it, or give each agent a session of its own")
            }
            Self::ApprovedTool { server, .. } => vec![match server {
                Some(server) => format!("run again with the tools of server {server:?}"),
                None => "run again with the tools of the run that asked for it".to_owned(),
            }],
            Self::Effect { .. }
            | Self::Session(_)
            | Self::Registry(_)
            | Self::Prompt(_)
            | Self::Json(_)
            | Self::Canonical(_)
            | Self::Unreadable { .. } => Vec::new(),
        }
    }
}

/// Wraps an error, to pass it through the engine's batch callbacks.
pub(crate) fn into_engine(error: RunError) -> tract_engine::Error {
    match error {
        RunError::Engine(error) => error,
        other => tract_engine::Error::Damaged { object: None, what: other.to_string() },
    }
}
