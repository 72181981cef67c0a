//! The outcome of a call, and the event that reports it.

use std::fmt;

use serde::Serialize;
use tract_core::{JsonText, ToolId, ToolTraits};

use super::journal::CallKey;
use crate::event::EventType;
use crate::hydrate::{self, Provenance};

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The tool did what was asked.
    Succeeded,
    /// The tool said that it could not, or something broke on the way.
    Failed,
    /// The call is not one that could run: unreadable, unknown, unfit.
    Invalid,
    /// A policy or a hook forbids it.
    Denied,
    /// It waits for a decision, without an answer so far.
    Deferred,
    /// It took longer than it may.
    TimedOut,
    /// The turn was cancelled while it ran.
    Cancelled,
    /// The tool panicked.
    Panicked,
    /// The turn ended before it could run.
    NotExecuted,
    /// It was started earlier, and no answer is known: the tool may have run.
    Interrupted,
    /// Another run works on it, without an answer so far.
    Open,
}

impl Outcome {
    /// Returns the word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Invalid => "invalid",
            Self::Denied => "denied",
            Self::Deferred => "deferred",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Panicked => "panicked",
            Self::NotExecuted => "not_executed",
            Self::Interrupted => "interrupted",
            Self::Open => "open",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The stage that a call reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DispatchStage {
    /// Whether the turn continues at all: time, cancellation, budget.
    Turn,
    /// Its arguments could not be read.
    Parse,
    /// Its name leads to no tool that can run now.
    Lookup,
    /// Its arguments do not fit the schema.
    Validate,
    /// The tool's own type does not take the arguments.
    Instantiate,
    /// A policy forbids it.
    Policy,
    /// A hook decided.
    Hook,
    /// A person has to decide.
    Approval,
    /// Its start could not be written down, or its earlier answer not be read.
    Journal,
    /// The state before it could not be snapshotted.
    Snapshot,
    /// The tool itself.
    Handler,
    /// A resource made for this call could not be closed.
    CleanUp,
    /// The session did not accept its events.
    Commit,
    /// The state before it could not be restored.
    Restore,
}

impl DispatchStage {
    /// Returns the word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Parse => "parse",
            Self::Lookup => "lookup",
            Self::Validate => "validate",
            Self::Instantiate => "instantiate",
            Self::Policy => "policy",
            Self::Hook => "hook",
            Self::Approval => "approval",
            Self::Journal => "journal",
            Self::Snapshot => "snapshot",
            Self::Handler => "handler",
            Self::CleanUp => "clean_up",
            Self::Commit => "commit",
            Self::Restore => "restore",
        }
    }
}

impl fmt::Display for DispatchStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<hydrate::Stage> for DispatchStage {
    fn from(stage: hydrate::Stage) -> Self {
        match stage {
            hydrate::Stage::Parse => Self::Parse,
            hydrate::Stage::Lookup => Self::Lookup,
            hydrate::Stage::Validate => Self::Validate,
            hydrate::Stage::Instantiate => Self::Instantiate,
            hydrate::Stage::Policy => Self::Policy,
        }
    }
}

/// The event of every call, however it ended. It goes to the session's log, which no failure rolls
/// back, and, with the answer, to the code that commits the turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolInvoked {
    /// The provider's id of the call.
    pub call_id: String,
    /// The tool's name.
    pub tool_name: String,
    /// The definition that the call was held against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolId>,
    /// The reliable traits of the tool.
    pub traits: ToolTraits,
    /// The outcome of the call.
    pub outcome: Outcome,
    /// The stage it reached, if it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<DispatchStage>,
    /// Whether the tool succeeded; determines the member of the value.
    pub success: bool,
    /// The value, of failed calls too where the tool gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<JsonText>,
    /// Text for the operator: causes, panics, the decider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// The policy, hook or person that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// Whether the tool was started and gave no answer, so that it is not known what it did. Only
    /// for tools that may change something.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub outcome_unknown: bool,
    /// How often the handler ran.
    pub attempts: u32,
    /// Whether the answer is the recorded one of an earlier run.
    pub replayed: bool,
    /// The key of the effect of the call, so that it is not repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<CallKey>,
    /// When dispatch took the call up: microseconds since 1970, UTC.
    pub started_at_us: i64,
    /// The duration in microseconds.
    pub duration_us: u64,
    /// The origin of the arguments.
    pub provenance: Provenance,
}

impl EventType for ToolInvoked {
    const KIND: &'static str = "tool_invoked";
}
