//! Outcomes of calls, and the event that reports them.

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
    /// The tool reported a failure, or something failed on the way.
    Failed,
    /// The call cannot run: unreadable, an unknown tool, or invalid arguments.
    Invalid,
    /// A policy or a hook denied it.
    Denied,
    /// It waits for a decision and is not answered yet.
    Deferred,
    /// It exceeded its time limit.
    TimedOut,
    /// The turn was cancelled while it ran.
    Cancelled,
    /// The tool panicked.
    Panicked,
    /// The turn ended before it could run.
    NotExecuted,
    /// It was started earlier and no answer is known: the tool may have run.
    Interrupted,
    /// Another run works on it, so it is not answered here.
    Open,
}

impl Outcome {
    /// Returns the name used in JSON.
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
    /// Checking the turn: time, cancellation, budget.
    Turn,
    /// Parsing the arguments.
    Parse,
    /// Looking up a tool that can run now.
    Lookup,
    /// Validating the arguments against the schema.
    Validate,
    /// Converting the arguments to the tool's own type.
    Instantiate,
    /// Evaluating policies.
    Policy,
    /// Running hooks.
    Hook,
    /// Waiting for a person's decision.
    Approval,
    /// Recording the start, or reading an earlier answer.
    Journal,
    /// Taking a snapshot of the state.
    Snapshot,
    /// Running the tool itself.
    Handler,
    /// Closing resources made for the call alone.
    CleanUp,
    /// Publishing events to the session.
    Commit,
    /// Restoring the state.
    Restore,
}

impl DispatchStage {
    /// Returns the name used in JSON.
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

/// The event of every call, however it ended. It goes to the session's log, which is never rolled
/// back, and, with the answer, to the code that commits the turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolInvoked {
    /// The provider's id of the call.
    pub call_id: String,
    /// The tool's name.
    pub tool_name: String,
    /// The id of the tool's definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolId>,
    /// The tool's traits. A destructive tool is never read-only here.
    pub traits: ToolTraits,
    /// The outcome of the call.
    pub outcome: Outcome,
    /// The stage that was reached, if the call did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<DispatchStage>,
    /// Whether the call succeeded. Only the values of successes are routed to slices.
    pub success: bool,
    /// The value. Failed calls may have one too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<JsonText>,
    /// Text for the operator alone, such as causes of errors and panic messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// The policy, hook or person that decided on the call, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// Whether the tool was started and gave no answer, so that its effects are unknown. Only set
    /// for tools that may change something.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub outcome_unknown: bool,
    /// Number of times that the handler ran.
    pub attempts: u32,
    /// Whether the answer is one that an earlier run recorded.
    pub replayed: bool,
    /// The key of the call's effect, which prevents it from being repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<CallKey>,
    /// Time at which dispatch started on the call, in microseconds since 1970 UTC.
    pub started_at_us: i64,
    /// The duration in microseconds.
    pub duration_us: u64,
    /// The origin of the arguments.
    pub provenance: Provenance,
}

impl EventType for ToolInvoked {
    const KIND: &'static str = "tool_invoked";
}
