//! The answers to calls.

use std::sync::Arc;

use tract_core::{BoundCall, Content, JsonText, Part, ToolAnswer};

use super::error::TurnError;
use super::journal::CallKey;
use super::outcome::{Outcome, ToolInvoked};
use crate::event::Event;

/// The reason why a call waits for a decision, and the call that would run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deferral {
    /// The reason for waiting.
    pub reason: String,
    /// The hook that deferred it; `None` if a policy requires approval.
    pub by: Option<String>,
    /// The key that an [`Approval`](super::Approval) of exactly this call contains.
    pub key: CallKey,
    /// The exact call: shown to the person who decides, and run once approved.
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
    /// Set if the call waits for a decision. It is not answered yet, and only the question is
    /// committed.
    /// committed.
    pub deferred: Option<Deferral>,
    /// The other run that works on the call, if any. The call has no answer here then.
    pub held: Option<String>,
    /// The events that the call published and the session accepted. If the call failed, only the
    /// log keeps them.
    pub events: Vec<Event>,
    /// The event that reports the call.
    pub invoked: Arc<ToolInvoked>,
}

impl CallAnswer {
    /// Returns how the call ended.
    pub fn outcome(&self) -> Outcome {
        self.invoked.outcome
    }

    /// Returns the message that answers the call; `None` while it waits for a decision or for
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

/// The results of a turn's calls.
#[derive(Debug)]
#[must_use = "every call has to be answered"]
pub struct Dispatched {
    /// One answer for each call, in order.
    pub answers: Vec<CallAnswer>,
    /// The reason why the turn ends here, if it does. All calls are answered even so: those after
    /// the one that ended it, as not executed.
    pub ended: Option<TurnError>,
}

impl Dispatched {
    /// Iterates over the answers that wait for a decision.
    pub fn deferred(&self) -> impl Iterator<Item = &CallAnswer> {
        self.answers.iter().filter(|answer| answer.deferred.is_some())
    }
}
