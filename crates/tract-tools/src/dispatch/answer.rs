//! What a call is answered with.

use std::sync::Arc;

use tract_core::{BoundCall, Content, JsonText, Part, ToolAnswer};

use super::error::TurnError;
use super::journal::CallKey;
use super::outcome::{Outcome, ToolInvoked};
use crate::event::Event;

/// Why a call waits for a decision, and what would run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deferral {
    /// Why it waits.
    pub reason: String,
    /// The hook that deferred it; absent when a policy wants approval.
    pub by: Option<String>,
    /// What an [`Approval`](super::Approval) of exactly this call names.
    pub key: CallKey,
    /// What exactly would run: shown to the person who decides, and run once approved.
    pub bound: BoundCall,
}

/// The answer to one call. There is one for each, in the order of the calls.
#[derive(Clone, Debug)]
pub struct CallAnswer {
    /// The provider's id of the call.
    pub call_id: String,
    /// The tool's name, else the name as received.
    pub tool_name: String,
    /// The text for the model.
    pub text: String,
    /// The text for the operator.
    pub operator: Option<String>,
    /// Whether the call failed.
    pub is_error: bool,
    /// The value, for programs.
    pub value: Option<JsonText>,
    /// What it waits for, when there is no answer yet: nothing is committed then but the question.
    pub deferred: Option<Deferral>,
    /// The run that works on the call, when another one does: then it has no answer here.
    pub held: Option<String>,
    /// The events that the call published and the session accepted; of a failed call, those that
    /// the log keeps.
    pub events: Vec<Event>,
    /// The event that reports the call.
    pub invoked: Arc<ToolInvoked>,
}

impl CallAnswer {
    /// Returns how the call ended.
    pub fn outcome(&self) -> Outcome {
        self.invoked.outcome
    }

    /// Returns the message that answers the call; `None` while it waits for a decision, or for
    /// another run.
    pub fn content(&self) -> Option<Content> {
        match (&self.deferred, &self.held) {
            (Some(_), _) | (_, Some(_)) => None,
            (None, None) => Some(Content::ToolResult(ToolAnswer {
                call_id: self.call_id.clone(),
                name: Some(self.tool_name.clone()),
                is_error: self.is_error,
                parts: vec![Part::text(&self.text)],
            })),
        }
    }
}

/// What a turn's calls came to.
#[derive(Debug)]
#[must_use = "every call has to be answered"]
pub struct Dispatched {
    /// One answer for each call, in order.
    pub answers: Vec<CallAnswer>,
    /// Why the turn ends here. All calls are answered all the same: those after the one that ended
    /// it as not executed.
    pub ended: Option<TurnError>,
}

impl Dispatched {
    /// Walks the answers that wait for a decision.
    pub fn deferred(&self) -> impl Iterator<Item = &CallAnswer> {
        self.answers.iter().filter(|answer| answer.deferred.is_some())
    }
}
