//! Runs the calls of one turn, in order.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tract_core::{CancellationToken, ToolError};
use tract_hooks::wait::within;

use super::Dispatcher;
use super::answer::{CallAnswer, Dispatched};
use super::call::{Bounds, Call, CallOutcome, judge};
use super::error::{Cause, TurnError};
use super::group::run_all;
use super::handler;
use super::hold::StateHolder;
use super::limits::{DispatchLimits, Permit};
use super::outcome::{DispatchStage, Outcome};
use super::scope::CallScope;
use super::state::{self, TurnSnapshot};
use super::turn::RunningTurn;
use crate::cancel::unless_cancelled;
use crate::event::Event;

pub(super) struct Run<'a> {
    pub(super) dispatcher: &'a Dispatcher,
    pub(super) turn: &'a Arc<RunningTurn>,
    pub(super) answers: Vec<CallAnswer>,
    ended: Option<TurnError>,
    /// The turn that holds state which the calls may change. If set, none of the calls run.
    pub(super) kept_out_by: Option<StateHolder>,
    /// The other run that works on the calls. Once set, the remaining calls are left to it.
    held: Option<String>,
}

/// A call, with its outcome if it is not going to run.
type AdmittedCall = (Call, Option<CallOutcome>);

/// The outcome of running a call, before its events are published and its state is settled.
struct RunOutcome {
    call_outcome: CallOutcome,
    attempts: Attempts,
}

#[derive(Default)]
struct Attempts {
    count: u32,
    /// Events of all attempts.
    events: Vec<Event>,
    /// Number of leading events that belong to failed attempts.
    lost: usize,
    before: Guard,
}

/// Ends the scope and restores the snapshot on drop, unless it was taken out. This covers turns
/// whose future is dropped.
#[derive(Default)]
struct Guard {
    scope: Option<Arc<CallScope>>,
    before: Option<TurnSnapshot>,
}

impl Guard {
    fn restore(&mut self) -> Result<(), String> {
        self.before.take().map_or(Ok(()), state::restore)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(scope) = self.scope.take() {
            scope.end();
        }
        if let Err(error) = self.restore() {
            tracing::error!(target: "tract::dispatch", %error, "a turn was dropped");
        }
    }
}

impl<'a> Run<'a> {
    pub(super) fn new(
        dispatcher: &'a Dispatcher,
        turn: &'a Arc<RunningTurn>,
        kept_out_by: Option<StateHolder>,
    ) -> Self {
        Self { dispatcher, turn, answers: Vec::new(), ended: None, kept_out_by, held: None }
    }

    pub(super) async fn all(mut self, calls: Vec<crate::hydrate::Hydrated>) -> Dispatched {
        self.answers.reserve(calls.len());
        let turn = self.turn;
        let mut group: Vec<AdmittedCall> = Vec::new();
        for (place, hydrated) in calls.into_iter().enumerate() {
            let mut call = Call::new(hydrated, place, turn);
            // Only read-only calls share a group. One that may change something has to see what the
            // calls before it did, and must not run while they read.
            let parallel = call.is_read_only() && self.dispatcher.options.concurrent > 1;
            if !parallel {
                self.flush(&mut group).await;
            }
            if self.is_over() {
                self.left_out(&call);
                continue;
            }
            call.begin(turn);
            let mut call_outcome = self.admit(&mut call).await;
            // A policy sees only settled calls, and a call in the group may be the one that it
            // requires, such as a read before a write. So settle the group and ask again.
            let denied =
                |call_outcome: &CallOutcome| call_outcome.stage == Some(DispatchStage::Policy);
            if !group.is_empty() && call_outcome.as_ref().is_some_and(denied) {
                self.flush(&mut group).await;
                if self.is_over() {
                    self.left_out(&call);
                    continue;
                }
                call_outcome = self.admit(&mut call).await;
            }
            group.push((call, call_outcome));
            if !parallel {
                self.flush(&mut group).await;
            }
        }
        self.flush(&mut group).await;
        Dispatched { answers: self.answers, ended: self.ended }
    }

    /// Runs the calls of the group that may run, then settles all calls in order.
    async fn flush(&mut self, group: &mut Vec<AdmittedCall>) {
        let group = std::mem::take(group);
        let ready = group.iter().filter(|(_, call_outcome)| call_outcome.is_none());
        let parallel = ready.count() > 1;
        let done = if parallel { self.run_group(&group).await } else { Vec::new() };
        // One entry for each call of the group without an outcome, in the same order.
        let mut done = done.into_iter();
        for (call, call_outcome) in group {
            if self.is_over() {
                self.left_out(&call);
                continue;
            }
            match call_outcome {
                Some(call_outcome) => self.answer(&call, call_outcome),
                None if parallel => match done.next().flatten() {
                    Some(executed) => self.settle(&call, executed, false),
                    None => self.left_out(&call),
                },
                None => {
                    let executed = self.execute(&call, true).await;
                    self.settle(&call, executed, true);
                    // Before the next call starts: after a crash, a claim without an answer counts
                    // as interrupted. Calls that run in parallel are read-only and claim nothing.
                    self.keep_answer(&call).await;
                }
            }
        }
    }

    /// Runs the calls of a group without an outcome in parallel. Returns one result for each,
    /// `None` for those after a call that ends the turn.
    async fn run_group(&self, group: &[AdmittedCall]) -> Vec<Option<RunOutcome>> {
        let options = &self.dispatcher.options;
        let limits = DispatchLimits::new(options.concurrent);
        let limits = Arc::new(limits.of_each_tool(options.concurrent_of_one_tool));
        let ready = group.iter().filter(|(_, call_outcome)| call_outcome.is_none());
        let jobs = ready.map(|(call, _)| (call.name(), self.execute(call, false)));
        let stops = |executed: &RunOutcome| executed.call_outcome.ends.is_some();
        run_all(jobs, &limits, stops).await
    }

    /// Runs the handler within a span.
    async fn execute(&self, call: &Call, alone: bool) -> RunOutcome {
        let span = call.span(self.turn);
        let mut attempts = Attempts::default();
        let ended = span.instrument(self.attempts(call, alone, &mut attempts)).await;
        let call_outcome = ended.unwrap_or_else(|kept| *kept);
        if span.is_recording() {
            call_outcome.say(&span, attempts.count);
        }
        RunOutcome { call_outcome, attempts }
    }

    /// Runs the handler, with retries where they may help. Returns the outcome of the last attempt,
    /// or of the check that prevented it as the error. A call that runs alone gets a snapshot, and
    /// its events are published at once.
    async fn attempts(
        &self,
        call: &Call,
        alone: bool,
        attempts: &mut Attempts,
    ) -> Result<CallOutcome, Box<CallOutcome>> {
        let broken = |stage, text, error| CallOutcome::of_broken_host(call, stage, text, error);
        let most = if call.traits.idempotent { self.dispatcher.options.attempts.max(1) } else { 1 };
        let mut wait = self.dispatcher.options.backoff;
        loop {
            // Snapshot only after the permit is granted, so that a rollback does not undo other
            // calls' changes.
            let permit = self.permit(call).await?;
            if alone {
                let text = "the call did not run: its effects could not be undone";
                let before = state::snapshot(self.turn);
                attempts.before.before =
                    Some(before.map_err(|error| broken(DispatchStage::Snapshot, text, error))?);
            }
            // The wait for the permit takes time, so the turn is checked again.
            if let Some(over) = self.turn_over(call) {
                return Err(over.into());
            }
            attempts.count += 1;
            let call_outcome = self.attempt(call, alone, attempts).await;
            // Other handlers may run during the backoff, so the permit is released first.
            drop(permit);
            let again = call_outcome.retryable && attempts.count < most;
            if !again || self.turn_over(call).is_some() {
                return Ok(call_outcome);
            }
            let restored = attempts.before.restore();
            restored.map_err(|error| broken(DispatchStage::Restore, NOT_UNDONE, error))?;
            // The events of the failed attempt stay in the list: the session's log keeps them, its
            // state does not.
            attempts.lost = attempts.events.len();
            within(Some(wait), self.turn.context.cancellation().cancelled()).await;
            wait = wait.saturating_mul(2);
        }
    }

    /// Waits for a permit of the shared limits while the turn continues.
    async fn permit(&self, call: &Call) -> Result<Option<Permit>, Box<CallOutcome>> {
        let Some(limits) = &self.dispatcher.limits else { return Ok(None) };
        let context = &self.turn.context;
        let request = limits.permit(call.name());
        let token = context.cancellation();
        match unless_cancelled(context.remaining(), token, request).await.flatten() {
            Some(permit) => Ok(Some(permit)),
            None => Err(self.turn_over(call).unwrap_or_else(|| time_is_over(call)).into()),
        }
    }

    async fn attempt(&self, call: &Call, alone: bool, attempts: &mut Attempts) -> CallOutcome {
        let turn = self.turn;
        let Some(bound) = &call.hydrated.bound else {
            let text = format!("nothing here runs the tool {:?}", call.name());
            return CallOutcome::failed(Outcome::Invalid, DispatchStage::Lookup, text);
        };
        let (number, reads) = (attempts.count, call.traits.read_only);
        let scope = Arc::new(CallScope::new(turn, call.key, number, reads, alone));
        attempts.before.scope = Some(Arc::clone(&scope));
        let bounds = Bounds {
            own: call.timeout().or(self.dispatcher.options.timeout),
            of_turn: turn.context.remaining(),
        };
        let token: CancellationToken = turn.context.cancellation().child();
        let mut context = turn
            .context_of(call.id())
            .with_cancellation(token.clone())
            .with_shared_resource(Arc::clone(&scope));
        if let (Some(own), now_us) = (bounds.own, turn.context.clock().now_us()) {
            let own = i64::try_from(own.as_micros()).unwrap_or(i64::MAX);
            let own = now_us.saturating_add(own);
            context =
                context.with_deadline_us(turn.context.deadline_us().map_or(own, |us| us.min(own)));
        }
        let grace = self.dispatcher.options.grace;
        let ran = handler::run(bound, &context, bounds.limit(), &token, grace).await;
        // Cancel the work that the handler started and left running, then end the scope: a task
        // that outlives the handler must not publish or write files, because a rollback would miss
        // its changes.
        token.cancel();
        let (events, untaken) = scope.end();
        attempts.before.scope = None;
        attempts.events.extend(events);
        // After the scope has ended, so that the outcome cannot miss an event that was refused
        // late.
        let mut call_outcome = judge(call, ran, bounds, turn);
        if let Some(error) = untaken {
            call_outcome.mark_failed(call, DispatchStage::Commit, NOT_TAKEN_IN, error);
        }
        // Resources are closed before the call is settled: if that fails, the call fails and is
        // rolled back.
        let unclosed = scope.close();
        if !unclosed.is_empty() {
            let text = "the tool's work could not be finished, so it was undone";
            call_outcome.mark_failed(call, DispatchStage::CleanUp, text, unclosed.join("; "));
        }
        call_outcome
    }

    /// Settles a call that ran. Events of a call from a group are published here.
    fn settle(&mut self, call: &Call, executed: RunOutcome, alone: bool) {
        let turn = self.turn;
        let RunOutcome { mut call_outcome, mut attempts } = executed;
        if !alone && turn.session.is_some() {
            // Events of failed attempts belong in the log only: publish them, then restore the
            // state, which leaves logs as they are.
            let lost = attempts.lost.min(attempts.events.len());
            let (failed, published) = attempts.events.split_at(lost);
            if !failed.is_empty() {
                let kept = state::snapshot(turn).and_then(|before| {
                    let taken = failed.iter().try_for_each(|event| state::publish(turn, event));
                    state::restore(before).and(taken)
                });
                if let Err(error) = kept {
                    call_outcome.mark_failed(call, DispatchStage::Commit, NOT_TAKEN_IN, error);
                }
            }
            // Publish only now, so that events arrive in the order of the calls. The snapshot makes
            // a rollback possible, as if the call had run alone.
            match state::snapshot(turn) {
                Ok(before) => attempts.before.before = Some(before),
                Err(error) => {
                    let text = "the call's result could not be taken in";
                    let stage = DispatchStage::Snapshot;
                    call_outcome = CallOutcome::of_broken_host(call, stage, text, error);
                }
            }
            for event in published {
                if let Err(error) = state::publish(turn, event) {
                    call_outcome.mark_failed(call, DispatchStage::Commit, NOT_TAKEN_IN, error);
                }
            }
        }
        self.finish(call, call_outcome, attempts);
    }

    /// Answers a call that did not run.
    fn answer(&mut self, call: &Call, call_outcome: CallOutcome) {
        self.finish(call, call_outcome, Attempts::default());
    }

    /// Reports to the session how the call ended, and stores the answer.
    fn finish(&mut self, call: &Call, mut call_outcome: CallOutcome, attempts: Attempts) {
        let Attempts { count, events, before: mut guard, .. } = attempts;
        for note in &call.notes {
            call_outcome.tell(note.clone());
        }
        let tell = |call_outcome: &CallOutcome| {
            let invoked = Arc::new(call.invoked(call_outcome, count));
            state::publish(self.turn, &Event::shared(Arc::clone(&invoked))).map(|()| invoked)
        };
        let mut invoked = None;
        if call_outcome.success() {
            match tell(&call_outcome) {
                Ok(event) => {
                    // The session accepted the result, so the snapshot is dropped. Until here every
                    // error rolls the call back.
                    guard.before = None;
                    invoked = Some(event);
                    self.remember(call);
                }
                Err(error) => {
                    call_outcome.mark_failed(call, DispatchStage::Commit, NOT_TAKEN_IN, error)
                }
            }
        }
        let invoked = match invoked {
            Some(invoked) => invoked,
            None => {
                // Restore before reporting: a restore afterwards would also undo what reducers made
                // of the report.
                if let Err(error) = guard.restore() {
                    let ends = call_outcome.ends.take();
                    let notes = std::mem::take(&mut call_outcome.operator);
                    let stage = DispatchStage::Restore;
                    let unknown = call_outcome.unknown.then_some(call_outcome.text);
                    call_outcome = CallOutcome::of_broken_host(call, stage, NOT_UNDONE, error);
                    if let Some(text) = unknown {
                        call_outcome.unknown = true;
                        call_outcome.text = text;
                    }
                    notes.into_iter().for_each(|notes| call_outcome.tell(notes));
                    ends.into_iter().for_each(|ends| call_outcome.tell(ends.to_string()));
                }
                tell(&call_outcome).unwrap_or_else(|error| {
                    call_outcome.tell(format!("not in the session's log: {error}"));
                    Arc::new(call.invoked(&call_outcome, count))
                })
            }
        };
        trace(call, &call_outcome);
        let open = call_outcome.deferred.is_some() || call_outcome.held.is_some();
        let is_error = !call_outcome.success() && !open;
        self.held = self.held.take().or_else(|| call_outcome.held.clone());
        self.answers.push(CallAnswer {
            call_id: call.id().to_owned(),
            tool_name: call.name().to_owned(),
            text: call_outcome.text,
            operator: call_outcome.operator,
            is_error,
            value: call_outcome.value,
            deferred: call_outcome.deferred,
            held: call_outcome.held,
            events,
            invoked,
        });
        if self.ended.is_none() {
            self.ended = call_outcome.ends;
        }
        debug_assert!(guard.before.is_none(), "it is kept, or was undone");
    }

    /// Adds the call to the past calls that policies see.
    fn remember(&self, call: &Call) {
        let Some(bound) = &call.hydrated.bound else { return };
        let mut past = self.turn.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.push(call.name(), bound.arguments.as_str());
    }

    /// Returns whether the remaining calls are not run.
    fn is_over(&self) -> bool {
        self.ended.is_some() || self.held.is_some()
    }

    /// Answers a call that is not run, because the turn ended or another run works on it.
    fn left_out(&mut self, call: &Call) {
        if let Some(by) = &self.held {
            let call_outcome = CallOutcome::held(by.clone());
            return self.answer(call, call_outcome);
        }
        let by = self.ended.as_ref().map(TurnError::call_id).unwrap_or_default();
        let text = format!("not executed: the turn ended with call {by:?}");
        let call_outcome = CallOutcome::failed(Outcome::NotExecuted, DispatchStage::Turn, text);
        self.answer(call, call_outcome);
    }

    /// Returns the outcome of a call that cannot start because the turn is over, else `None`.
    pub(super) fn turn_over(&self, call: &Call) -> Option<CallOutcome> {
        let (context, stage) = (&self.turn.context, DispatchStage::Turn);
        if context.is_cancelled() {
            let text = "the call did not run: the turn was cancelled";
            let call_outcome = CallOutcome::failed(Outcome::Cancelled, stage, text);
            return Some(call_outcome.ending(call, Cause::Cancelled, ToolError::evaluation(text)));
        }
        if context.remaining() == Some(Duration::ZERO) {
            return Some(time_is_over(call));
        }
        let exceeded = self.turn.budget.as_ref()?.check().err()?;
        Some(CallOutcome::of_spent_budget(call, exceeded))
    }
}

/// Text for the model if a failure could not be rolled back.
const NOT_UNDONE: &str = "the call failed, and its effects could not be undone";
/// Text for the model if the session did not accept a success.
const NOT_TAKEN_IN: &str = "the tool's result could not be taken in, so what it did was undone";

fn time_is_over(call: &Call) -> CallOutcome {
    let text = "the call did not run: the turn ran out of time";
    let call_outcome = CallOutcome::failed(Outcome::TimedOut, DispatchStage::Turn, text);
    call_outcome.ending(call, Cause::Deadline, ToolError::deadline_exceeded(text))
}

/// Maximum number of characters of the model's text in the log, used if there is no operator's
/// text.
const LOGGED_CHARS: usize = 1000;

/// Logs how a call ended, with the tool's name and the call's id. A failed tool is logged at `WARN`
/// with the original error (message, operator's text, all causes, panic message), everything else
/// at `DEBUG`.
fn trace(call: &Call, call_outcome: &CallOutcome) {
    let (call_id, tool, outcome) = (call.id(), call.name(), call_outcome.outcome.as_str());
    let stage = call_outcome.stage.map_or("", DispatchStage::as_str);
    let error = match (&call_outcome.operator, call_outcome.success()) {
        (Some(operator), _) => operator.clone(),
        (None, true) => String::new(),
        (None, false) => call_outcome.text.chars().take(LOGGED_CHARS).collect(),
    };
    // A recorded answer was logged when its tool ran.
    let failed = !call_outcome.replayed
        && match call_outcome.outcome {
            Outcome::Failed | Outcome::TimedOut | Outcome::Panicked | Outcome::Interrupted => true,
            _ => call_outcome.operator.is_some() && !call_outcome.success(),
        };
    if failed {
        tracing::warn!(target: "tract::dispatch", call_id, tool, outcome, stage, error)
    } else {
        tracing::debug!(target: "tract::dispatch", call_id, tool, outcome, stage, error)
    }
}
