//! One turn: ask the model, run what it asks for, commit all of it.

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
    /// The commit of the answer; absent while a hook has it wait.
    pub commit: Option<CommitId>,
}

/// The outcome of a turn.
#[derive(Debug)]
pub enum TurnEnd {
    /// The model asked for nothing: it has said all.
    Said,
    /// All calls are answered: it is the model's turn.
    Called,
    /// Some calls wait for a decision.
    Waiting,
    /// It was cancelled; all calls that were asked for are answered.
    Cancelled,
    /// A call ended it; all calls are answered.
    Ended(TurnError),
}

/// The outcome of a turn. All of it is committed.
#[derive(Debug)]
pub struct TurnDone {
    /// The commit of the model's reply; absent when calls of an earlier one were answered.
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
    /// The view that the model saw, where telemetry asked for it.
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
    /// Answers the calls of a reply that was cut off or refused as not executed: the model may have
    /// wanted to say more, such as another argument. Returns whether there were any.
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
    /// It is run.
    Run(Call),
    /// It is answered without being run: the answer, a word for how it ended, and whether that is
    /// what its tool answered before.
    Answer(Recorded, &'static str, bool),
}

impl CallStep {
    /// A call whose tool gave this answer before, in another run or on another branch.
    pub(crate) fn answered(answer: &Recorded) -> Self {
        let outcome = if answer.is_error { "failed" } else { "succeeded" };
        Self::Answer(answer.clone(), outcome, true)
    }

    /// Answers a call that will never run with this text.
    pub(crate) fn give_up(text: &str, outcome: &'static str) -> Self {
        Self::Answer(Recorded::new(text).is_error(true), outcome, false)
    }
}

/// The evaluation that an agent's own requests are counted for.
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

    /// Makes the answer of a call that was not run now.
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
