//! One turn: asks the model, runs the requested calls, and commits the results.

mod answer;
mod ask;

use tract_core::{CommitId, StopReason, ToolCall, ToolsetId, Usage, ViewId};
use tract_tools::Call;
use tract_tools::dispatch::{Approval, CallAnswer, Recorded, ReplySource, TurnError};

use crate::journal::OtherBranches;

/// A call that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredCall {
    /// The provider's id of the call.
    pub call_id: String,
    /// The tool's name.
    pub tool_name: String,
    /// The outcome as a word: `succeeded`, `failed`, `denied`, `interrupted`, and so on.
    pub outcome: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// The answer of the tool, before a hook changed it.
    pub text: String,
    /// The text for the operator.
    pub operator: Option<String>,
    /// The duration in microseconds.
    pub duration_us: u64,
    /// The commit of the answer; `None` while it waits for a hook's decision.
    pub commit: Option<CommitId>,
}

/// The outcome of a turn.
#[derive(Debug)]
pub enum TurnEnd {
    /// The model requested no calls, so its answer is complete.
    Said,
    /// All calls are answered, and the model continues.
    Called,
    /// Some calls wait for a decision.
    Waiting,
    /// It was cancelled; all requested calls are answered.
    Cancelled,
    /// A call ended it; all calls are answered.
    Ended(TurnError),
}

/// The outcome of a turn. All of it is committed.
#[derive(Debug)]
pub struct TurnDone {
    /// The commit of the model's reply; `None` if the turn answered calls of an earlier one.
    pub reply: Option<CommitId>,
    /// The text of the reply.
    pub text: String,
    /// The stop reason of the provider.
    pub stop_reason: Option<StopReason>,
    /// The tokens it used.
    pub usage: Option<Usage>,
    /// Tokens that were estimated for the budget, because the provider does not report them.
    pub estimated_tokens: u64,
    /// The calls that were answered, in order.
    pub answers: Vec<AnsweredCall>,
    /// The pending approvals.
    pub pending: Vec<String>,
    /// The outcome.
    pub end: TurnEnd,
}

impl TurnDone {
    pub(crate) fn new(end: TurnEnd) -> Self {
        Self {
            reply: None,
            text: String::new(),
            stop_reason: None,
            usage: None,
            estimated_tokens: 0,
            answers: Vec::new(),
            pending: Vec::new(),
            end,
        }
    }
}

/// Calls that are to be answered together.
#[derive(Default)]
pub(crate) struct Calls {
    /// The view that the model saw, if telemetry needs it.
    pub(crate) view: Option<ViewId>,
    /// The tools in force.
    pub(crate) toolset: Option<ToolsetId>,
    /// Each call with its place in the message and its next step, in order.
    pub(crate) each: Vec<(u32, ToolCall, CallStep)>,
    /// The calls that were approved.
    pub(crate) approvals: Vec<Approval>,
    /// The source of the reply.
    pub(crate) served: Option<ReplySource>,
    /// The names of pending approvals that exist already.
    pub(crate) pending: Vec<String>,
    /// Their outcomes on other branches, if an earlier process requested them.
    pub(crate) elsewhere: OtherBranches,
}

impl Calls {
    /// Answers the calls of a truncated or refused reply as not executed, because the model may not
    /// have completed them. Returns whether there were any.
    pub(crate) fn give_up_if_cut(&mut self, stop_reason: Option<&StopReason>) -> bool {
        let why = match stop_reason {
            Some(StopReason::MaxTokens) => "the reply reached the limit of tokens",
            Some(StopReason::Refusal) => "the reply was refused or filtered",
            _ => return false,
        };
        let text = format!("not executed: {why}. Ask for it again if it is still needed.");
        for (_, _, then) in &mut self.each {
            *then = CallStep::give_up(&text, "not_executed");
        }
        !self.each.is_empty()
    }
}

/// The next step of a call.
pub(crate) enum CallStep {
    /// Run it.
    Run(Call),
    /// Answer it without running it: the answer, the name of the outcome, and whether the tool gave
    /// this answer before.
    Answer(Recorded, &'static str, bool),
}

impl CallStep {
    /// Returns the step of a call that its tool answered before, in another run or on another
    /// branch.
    pub(crate) fn answered(answer: &Recorded) -> Self {
        let outcome = if answer.is_error { "failed" } else { "succeeded" };
        Self::Answer(answer.clone(), outcome, true)
    }

    /// Returns the step of a call that never runs and is answered with this text.
    pub(crate) fn give_up(text: &str, outcome: &'static str) -> Self {
        Self::Answer(Recorded { is_error: true, ..Recorded::new(text) }, outcome, false)
    }
}

/// The name under which an agent's own requests are counted against the budget.
const MAIN: &str = "main";

impl AnsweredCall {
    fn of(answer: &CallAnswer) -> Self {
        Self {
            call_id: answer.call_id.clone(),
            tool_name: answer.tool_name.clone(),
            outcome: answer.outcome().as_str().to_owned(),
            is_error: answer.is_error,
            text: answer.text.clone(),
            operator: answer.operator.clone(),
            duration_us: answer.invoked.duration_us,
            commit: None,
        }
    }

    /// Creates the answer to a call that was not run now.
    fn without_run(call: ToolCall, answer: Recorded, outcome: &str) -> Self {
        Self {
            call_id: call.id,
            tool_name: call.name,
            outcome: outcome.to_owned(),
            is_error: answer.is_error,
            text: answer.text,
            operator: None,
            duration_us: 0,
            commit: None,
        }
    }
}
