//! A call during dispatch, and its outcome.

use std::time::{Duration, Instant};

use tract_core::telemetry::{self, Span, ToolCallInfo, captures_content, names};
use tract_core::{BoundCall, JsonText, RenderedValue, ToolError, ToolResult, ToolTraits};

use super::answer::Deferral;
use super::error::{Cause, TurnError};
use super::handler::HandlerOutcome;
use super::journal::{CallKey, CallStart, Recorded};
use super::outcome::{DispatchStage, Outcome, ToolInvoked};
use super::turn::Turn;
use crate::hydrate::Hydrated;

/// A call that dispatch works on.
pub(super) struct Call {
    pub(super) hydrated: Hydrated,
    /// Position among the calls of the turn.
    place: usize,
    /// The traits that dispatch relies on.
    pub(super) traits: ToolTraits,
    pub(super) key: Option<CallKey>,
    /// Whether hooks have run.
    pub(super) hooked: bool,
    pub(super) decided_by: Option<String>,
    /// Whether a person approved it.
    pub(super) approved: bool,
    /// The claim that was made before it ran.
    pub(super) start: Option<CallStart>,
    /// Notes for the operator from the checks before the handler.
    pub(super) notes: Vec<String>,
    started_at_us: i64,
    began: Instant,
}

impl Call {
    pub(super) fn new(hydrated: Hydrated, place: usize, turn: &Turn) -> Self {
        Self {
            traits: reliable(&hydrated),
            hydrated,
            place,
            key: None,
            hooked: false,
            decided_by: None,
            approved: false,
            start: None,
            notes: Vec::new(),
            started_at_us: turn.context.clock().now_us(),
            began: Instant::now(),
        }
    }

    /// Restarts the clock of the call, so that waiting for earlier calls does not count.
    pub(super) fn begin(&mut self, turn: &Turn) {
        self.started_at_us = turn.context.clock().now_us();
        self.began = Instant::now();
    }

    pub(super) fn id(&self) -> &str {
        &self.hydrated.id
    }

    pub(super) fn name(&self) -> &str {
        self.hydrated.tool_name()
    }

    /// Replaces the call by one with other arguments.
    pub(super) fn replace(&mut self, hydrated: Hydrated) {
        self.traits = reliable(&hydrated);
        self.key = None;
        self.hydrated = hydrated;
    }

    /// Returns the key of its effect; `None` if the call cannot run.
    pub(super) fn name_effect(&mut self) -> Option<CallKey> {
        let (tool, bound) = (self.hydrated.definition()?, self.hydrated.bound.as_ref()?);
        let id = &self.hydrated.id;
        Some(*self.key.get_or_insert_with(|| CallKey::of(tool, id, bound.arguments.as_str())))
    }

    /// Returns its key in approvals, which includes the server that would run it.
    pub(super) fn approval_key(&self) -> Option<CallKey> {
        let (tool, bound) = (self.hydrated.definition()?, self.hydrated.bound.as_ref()?);
        let server = self.server();
        Some(CallKey::of_server(server, tool, &self.hydrated.id, bound.arguments.as_str()))
    }

    fn server(&self) -> Option<&str> {
        self.hydrated.tool.as_ref()?.origin().map(|origin| origin.server.as_str())
    }

    /// Returns the exact call that would run, for the person who decides.
    pub(super) fn bound_call(&self) -> Option<BoundCall> {
        let hydrated = &self.hydrated;
        let (tool, bound) = (hydrated.tool.as_ref()?, hydrated.bound.as_ref()?);
        let definition = tool.definition().schema();
        let provenance = &hydrated.provenance;
        let text = |text: &String| JsonText::of(text);
        let edits = provenance.edits.iter().map(JsonText::of);
        let repair = provenance.repair.iter().map(JsonText::of);
        let changes = edits.chain(repair).chain(self.notes.iter().map(text)).flatten();
        let (name, arguments) = (tool.name(), bound.arguments.as_str());
        Some(BoundCall {
            server: self.server().map(str::to_owned),
            repaired: provenance.repaired,
            changes: changes.collect(),
            ..BoundCall::new(name, definition.id(), definition.text(), arguments)
        })
    }

    /// Returns the record of its start, for the journal.
    pub(super) fn starts(&mut self) -> Option<CallStart> {
        let key = self.name_effect()?;
        Some(CallStart {
            call_id: self.id().to_owned(),
            tool_name: self.name().to_owned(),
            key,
            place: self.place,
            approved: self.approved,
        })
    }

    /// Returns whether it may run in parallel with others.
    pub(super) fn is_read_only(&self) -> bool {
        self.traits.read_only && self.hydrated.bound.is_some()
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        self.hydrated.tool.as_ref().and_then(|tool| tool.timeout())
    }

    /// Starts the span of its run.
    pub(super) fn span(&self, turn: &Turn) -> Span {
        let bound = self.hydrated.bound.as_ref();
        telemetry::tool_call(&ToolCallInfo {
            name: self.name(),
            call_id: self.id(),
            tool: self.hydrated.definition(),
            commit: turn.commit,
            view: turn.view,
            toolset: turn.toolset,
            arguments: bound.map_or("", |bound| bound.arguments.as_str()),
        })
    }

    pub(super) fn invoked(&self, call_outcome: &CallOutcome, attempts: u32) -> ToolInvoked {
        let took = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        ToolInvoked {
            call_id: self.id().to_owned(),
            tool_name: self.name().to_owned(),
            tool: self.hydrated.definition(),
            traits: self.traits,
            outcome: call_outcome.outcome,
            stage: call_outcome.stage,
            success: call_outcome.success(),
            value: call_outcome.value.clone(),
            operator: call_outcome.operator.clone(),
            decided_by: self.decided_by.clone(),
            outcome_unknown: call_outcome.unknown,
            attempts,
            replayed: call_outcome.replayed,
            idempotency_key: self.key,
            started_at_us: self.started_at_us,
            duration_us: took,
            provenance: self.hydrated.provenance.clone(),
        }
    }
}

/// Returns the traits of the tool. A destructive tool is not read-only, even if it promises to be.
fn reliable(hydrated: &Hydrated) -> ToolTraits {
    let Some(tool) = &hydrated.tool else { return ToolTraits::default() };
    let mut traits = tool.traits();
    // Read-only calls run in parallel, without a snapshot and without a claim, so a contradiction
    // is resolved to the safe side.
    traits.read_only &= !traits.destructive;
    traits
}

/// The outcome of a call.
pub(super) struct CallOutcome {
    pub(super) outcome: Outcome,
    pub(super) stage: Option<DispatchStage>,
    /// The text for the model.
    pub(super) text: String,
    pub(super) operator: Option<String>,
    pub(super) value: Option<JsonText>,
    pub(super) ends: Option<TurnError>,
    pub(super) deferred: Option<Deferral>,
    /// The other run that works on the call.
    pub(super) held: Option<String>,
    pub(super) replayed: bool,
    pub(super) retryable: bool,
    /// The tool was started, returned no answer, and may have changed something.
    pub(super) unknown: bool,
}

impl CallOutcome {
    /// Records the outcome in the span of the run.
    pub(super) fn say(&self, span: &Span, attempts: u32) {
        span.set(names::TRACT_OUTCOME, self.outcome.as_str());
        span.set(names::TRACT_ATTEMPTS, attempts);
        if !self.success() {
            span.fail(self.outcome.as_str());
        }
        if captures_content() {
            span.set(names::TOOL_RESULT, &self.text);
        }
    }

    pub(super) fn succeeded(text: String, value: Option<JsonText>) -> Self {
        Self {
            outcome: Outcome::Succeeded,
            stage: None,
            text,
            operator: None,
            value,
            ends: None,
            deferred: None,
            held: None,
            replayed: false,
            retryable: false,
            unknown: false,
        }
    }

    pub(super) fn failed(outcome: Outcome, stage: DispatchStage, text: impl Into<String>) -> Self {
        Self { outcome, stage: Some(stage), ..Self::succeeded(text.into(), None) }
    }

    /// Returns the outcome of a tool that was started and gave no answer, for any reason: it was
    /// cancelled, ran out of time, panicked, or the connection to it broke. If it may change
    /// something, its effect is marked as unknown: for the model, in the claim on the effect, and
    /// for forks.
    fn unanswered(call: &Call, outcome: Outcome, reason: &str, hint: Option<&str>) -> Self {
        let text = call.traits.unanswered(call.name(), reason, hint);
        let unknown = !call.traits.read_only;
        Self { unknown, ..Self::failed(outcome, DispatchStage::Handler, text) }
    }

    /// Returns the outcome recorded by an earlier run.
    pub(super) fn recorded(answer: Recorded) -> Self {
        let call_outcome = if answer.is_error {
            Self::failed(Outcome::Failed, DispatchStage::Handler, answer.text)
        } else {
            Self::succeeded(answer.text, None)
        };
        Self { value: answer.value, replayed: true, ..call_outcome }
    }

    /// Returns the outcome of a call that is left to another run.
    pub(super) fn held(by: String) -> Self {
        let text = format!("the call is not answered here: {by} works on it");
        Self { held: Some(by), ..Self::failed(Outcome::Open, DispatchStage::Journal, text) }
    }

    pub(super) fn operator(mut self, text: impl Into<String>) -> Self {
        self.tell(text.into());
        self
    }

    /// Appends to the operator's text.
    pub(super) fn tell(&mut self, more: String) {
        self.operator = Some(match self.operator.take() {
            Some(text) => format!("{text}; {more}"),
            None => more,
        });
    }

    /// Ends the turn with this call.
    pub(super) fn ending(mut self, call: &Call, cause: Cause, source: ToolError) -> Self {
        let call_id = call.id().to_owned();
        self.ends = Some(TurnError::Evaluation { call_id, cause, source });
        self
    }

    /// Returns the outcome of a broken journal or snapshot, which ends the turn.
    pub(super) fn of_broken_host(
        call: &Call,
        stage: DispatchStage,
        text: &str,
        operator: String,
    ) -> Self {
        let source = ToolError::evaluation(text).operator(&*operator);
        let failed = Self::failed(Outcome::Failed, stage, text).operator(operator);
        failed.ending(call, Cause::Host, source)
    }

    pub(super) fn success(&self) -> bool {
        self.outcome == Outcome::Succeeded
    }

    /// Marks a call whose result was not accepted: a success becomes a failure. Only state with
    /// snapshots is rolled back, so the model is warned if the tool may have changed something
    /// else.
    pub(super) fn mark_failed(
        &mut self,
        call: &Call,
        stage: DispatchStage,
        text: &str,
        operator: String,
    ) {
        if self.success() {
            self.outcome = Outcome::Failed;
            self.stage = Some(stage);
            self.text = text.to_owned();
            if !call.traits.read_only {
                self.text.push_str(
                    "\nnote: effects elsewhere are not undone: check before you repeat it",
                );
            }
            self.value = None;
        }
        self.tell(operator);
    }
}

/// Time limits of a run of the handler.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// The tool's own limit.
    pub(super) own: Option<Duration>,
    /// The time left of the turn.
    pub(super) of_turn: Option<Duration>,
}

impl Bounds {
    pub(super) fn limit(self) -> Option<Duration> {
        [self.own, self.of_turn].into_iter().flatten().min()
    }

    /// Returns whether the tool's own limit ends before the turn's.
    fn is_own(self) -> bool {
        self.own.is_some_and(|own| self.of_turn.is_none_or(|turn| own < turn))
    }
}

/// Returns the outcome of a run of the handler. This is the table of failures: the texts for the
/// model and the operator, and whether the turn ends.
pub(super) fn judge(call: &Call, ran: HandlerOutcome, bounds: Bounds, turn: &Turn) -> CallOutcome {
    let name = call.name();
    match ran {
        HandlerOutcome::Returned(Ok(result)) => of_result(name, result),
        HandlerOutcome::Returned(Err(error)) => of_error(call, error, bounds, turn),
        HandlerOutcome::Panicked(panic_text) => {
            CallOutcome::unanswered(call, Outcome::Panicked, "failed: it broke down", None)
                .operator(format!("panicked: {panic_text}"))
        }
        // The tool's own limit ends the call only. The turn's limit ends the turn.
        HandlerOutcome::TimedOut if bounds.is_own() => out_of_own_time(call, bounds),
        HandlerOutcome::TimedOut => {
            out_of_time(call, ToolError::deadline_exceeded("the turn ran out of time"))
        }
        HandlerOutcome::Cancelled => {
            cancelled(call, ToolError::evaluation("the turn was cancelled"))
        }
    }
}

fn of_result(name: &str, result: ToolResult<RenderedValue>) -> CallOutcome {
    let mut text = result.model_text();
    let value = result.value.map(|value| value.json);
    let mut call_outcome = if result.success {
        CallOutcome::succeeded(text, value)
    } else {
        if text.is_empty() {
            text = format!("tool {name:?} failed and did not say why");
        }
        let failed = CallOutcome::failed(Outcome::Failed, DispatchStage::Handler, text);
        CallOutcome { value, ..failed }
    };
    call_outcome.operator = result.operator;
    call_outcome
}

fn of_error(call: &Call, error: ToolError, bounds: Bounds, turn: &Turn) -> CallOutcome {
    let (name, stage) = (call.name(), DispatchStage::Handler);
    let reason = error.model_text();
    let is_bare = error.failure().operator.is_none() && error.failure().source.is_none();
    let operator = (!is_bare).then(|| error.operator_text());
    let retryable = error.is_retryable();
    let mut call_outcome = match error {
        ToolError::Validation(_) => CallOutcome::failed(Outcome::Invalid, stage, reason),
        ToolError::VisibilityExpansion { ref sections, .. } => {
            let (call_id, sections) = (call.id().to_owned(), sections.clone());
            let failed = CallOutcome::failed(Outcome::Failed, stage, reason);
            let ends = TurnError::VisibilityExpansion { call_id, sections, source: error };
            CallOutcome { ends: Some(ends), ..failed }
        }
        // A tool that stops because of the cancellation usually returns such an error. The tool is
        // not at fault then.
        ToolError::Evaluation(_) if turn.context.is_cancelled() => cancelled(call, error),
        ToolError::Evaluation(_) if error.is_outcome_unknown() => {
            let why = format!("failed: {error}");
            let failed = CallOutcome::unanswered(call, Outcome::Failed, &why, None);
            failed.ending(call, Cause::Tool, error)
        }
        ToolError::Evaluation(_) => {
            CallOutcome::failed(Outcome::Failed, stage, reason).ending(call, Cause::Tool, error)
        }
        // The tool noticed that its own time was over, which ends before the turn's.
        ToolError::DeadlineExceeded(_)
            if bounds.is_own() && turn.context.remaining() != Some(Duration::ZERO) =>
        {
            out_of_own_time(call, bounds)
        }
        ToolError::DeadlineExceeded(_) => out_of_time(call, error),
        // It ran, but its result cannot be read.
        ToolError::Type(_) => {
            let why = format!("gave something other than it promises: {reason}");
            CallOutcome::unanswered(call, Outcome::Failed, &why, None)
        }
        ref other if other.is_outcome_unknown() => {
            let notes = other.notes().join("; ");
            let hint = (!notes.is_empty()).then_some(&*notes);
            CallOutcome::unanswered(call, Outcome::Failed, &format!("failed: {other}"), hint)
        }
        ref other => {
            debug_assert!(!other.ends_evaluation(), "errors that end the evaluation are above");
            CallOutcome::failed(Outcome::Failed, stage, format!("tool {name:?} failed: {reason}"))
        }
    };
    if let Some(operator) = operator {
        call_outcome.tell(operator);
    }
    call_outcome.retryable = retryable && call_outcome.ends.is_none();
    call_outcome
}

fn out_of_own_time(call: &Call, bounds: Bounds) -> CallOutcome {
    let why = format!("did not answer within {:?}", bounds.own.unwrap_or_default());
    CallOutcome::unanswered(call, Outcome::TimedOut, &why, Some("ask for less in one call"))
}

fn out_of_time(call: &Call, error: ToolError) -> CallOutcome {
    let why = format!("did not end: {error}");
    let failed = CallOutcome::unanswered(call, Outcome::TimedOut, &why, None);
    failed.ending(call, Cause::Deadline, error)
}

fn cancelled(call: &Call, error: ToolError) -> CallOutcome {
    let failed = CallOutcome::unanswered(call, Outcome::Cancelled, "was cancelled", None);
    failed.ending(call, Cause::Cancelled, error)
}
