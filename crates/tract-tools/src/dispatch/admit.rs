//! Checks whether a call may run: everything before its handler.

use std::sync::PoisonError;

use tract_core::{ToolCall, ToolError};
use tract_hooks::{BeforeDispatch, DispatchAction};

use super::answer::Deferral;
use super::call::{Call, CallOutcome};
use super::error::Cause;
use super::hold::StateHolder;
use super::journal::{Recorded, Start};
use super::outcome::{DispatchStage, Outcome};
use super::run::Run;
use crate::budget::BudgetExceeded;
use crate::hydrate::{self, Stage, hydrate_with};
use crate::panics::guarded;
use crate::policy::{Decision, PolicyRequest};

impl CallOutcome {
    pub(super) fn of_spent_budget(call: &Call, exceeded: BudgetExceeded) -> Self {
        let text = format!("the call did not run: {exceeded}");
        let source = ToolError::evaluation(exceeded.to_string()).caused_by(exceeded);
        let failed = Self::failed(Outcome::Failed, DispatchStage::Turn, text);
        failed.ending(call, Cause::Budget(exceeded), source)
    }
}

impl Run<'_> {
    /// Returns the outcome that prevents a call from running; `None` if it may run.
    pub(super) async fn admit(&mut self, call: &mut Call) -> Option<CallOutcome> {
        if let Some(over) = self.turn_over(call) {
            return Some(over);
        }
        if let Some(StateHolder { by, name }) = &self.kept_out_by {
            let text = format!("not executed: {by} works on the same {name}, try again");
            return Some(CallOutcome::failed(Outcome::NotExecuted, DispatchStage::Turn, text));
        }
        if let Err(refused) = self.allowed(call).await {
            return Some(*refused);
        }
        // Policies, hooks and decisions take time, so the deadline is checked again.
        if let Some(over) = self.turn_over(call) {
            return Some(over);
        }
        // The claim comes last: after a crash, a claimed call without an answer counts as one that
        // may have run.
        self.started(call).await.err().map(|refused| *refused)
    }

    async fn allowed(&self, call: &mut Call) -> Result<(), Box<CallOutcome>> {
        loop {
            self.callable(call)?;
            let wanted_by = self.policies(call)?;
            let hooks = &self.dispatcher.hooks;
            if call.hooked || !hooks.has_handler::<BeforeDispatch>() {
                return self.approval(call, wanted_by);
            }
            // Hooks run once. After they replace arguments, the loop evaluates the policies for
            // these.
            call.hooked = true;
            let Some(bound) = &call.hydrated.bound else { return Ok(()) };
            let tool_call = ToolCall {
                id: call.id().to_owned(),
                name: call.name().to_owned(),
                arguments: bound.arguments.as_str().to_owned(),
            };
            let mut event = BeforeDispatch::new(tool_call, call.traits);
            event.commit = self.turn.commit;
            let decision = hooks.before_dispatch(&event).await;
            let by = decision.by().map(str::to_owned);
            let failed = decision.failures().last().map(|failure| failure.handler.clone());
            let failures = decision.failures().iter().map(ToString::to_string);
            call.notes.extend(failures);
            match decision.into_action() {
                DispatchAction::Refuse(reason) => {
                    // A hook that fails refuses the call. Its error is not a reason for the model
                    // to read.
                    let broken = failed.is_some() && failed == by;
                    call.decided_by = by;
                    let text = if broken {
                        "the call did not run: a check before it failed".to_owned()
                    } else {
                        format!("the call was refused: {reason}")
                    };
                    let stage = DispatchStage::Hook;
                    return Err(CallOutcome::failed(Outcome::Denied, stage, text).into());
                }
                DispatchAction::Defer(reason) => {
                    if self.approved(call) {
                        return Ok(());
                    }
                    call.decided_by.clone_from(&by);
                    return Err(deferred(call, DispatchStage::Hook, reason, by).into());
                }
                DispatchAction::Replace(arguments) => {
                    let handler = by.as_deref().unwrap_or_default();
                    if self.approved(call) {
                        // A person approved these arguments, and no others.
                        let note = format!(
                            "handler {handler:?} wanted other arguments than the approved ones: {arguments}"
                        );
                        call.notes.push(note);
                        return Ok(());
                    }
                    let sent = &call.hydrated.provenance.raw_arguments;
                    let note =
                        format!("handler {handler:?} replaced the arguments; sent were {sent}");
                    call.notes.push(note);
                    call.decided_by = by;
                    let again = self.hydrated_again(call, &arguments);
                    call.replace(again);
                }
                _ => {
                    self.approval(call, wanted_by)?;
                    call.decided_by = call.decided_by.take().or(by);
                    return Ok(());
                }
            }
        }
    }

    /// Defers a call that needs approval and has none. Hooks run first, so that the person reads
    /// the call that would run.
    fn approval(&self, call: &mut Call, wanted_by: Option<String>) -> Result<(), Box<CallOutcome>> {
        if wanted_by.is_none() || self.approved(call) {
            return Ok(());
        }
        call.decided_by = wanted_by;
        let reason = format!("a person has to approve calls of {:?}", call.name());
        Err(deferred(call, DispatchStage::Approval, reason, None).into())
    }

    fn hydrated_again(&self, call: &Call, arguments: &str) -> hydrate::Hydrated {
        let before = &call.hydrated;
        let mut changed = hydrate::Call::new(&before.id, &before.name, arguments);
        changed.tool_id = before.tool.as_ref().map(|tool| tool.id().to_owned());
        changed.source.clone_from(&before.provenance.source);
        let options = &self.dispatcher.hydration;
        let mut again = hydrate_with(changed, &self.dispatcher.registry, options);
        // Hydration returns one result for each call.
        again.pop().unwrap_or_else(|| before.clone())
    }

    /// Checks that the call was hydrated and that its tool is available.
    fn callable(&self, call: &mut Call) -> Result<(), Box<CallOutcome>> {
        let hydrated = &call.hydrated;
        if let Some(first) = hydrated.errors.first() {
            let is_denied = first.stage == Stage::Policy;
            let outcome = if is_denied { Outcome::Denied } else { Outcome::Invalid };
            let (stage, text) = (first.stage.into(), hydrated.error_text());
            return Err(CallOutcome::failed(outcome, stage, text).into());
        }
        let missing = match (&self.turn.available, &hydrated.bound) {
            (Some(names), _) if !names.contains(call.name()) => "is not available now",
            (_, None) => "cannot run here",
            (_, Some(_)) => {
                call.name_effect();
                return Ok(());
            }
        };
        let text = format!("tool {:?} {missing}", call.name());
        Err(CallOutcome::failed(Outcome::Invalid, DispatchStage::Lookup, text).into())
    }

    /// Evaluates the policies. Returns the first that requires approval, if any.
    fn policies(&self, call: &mut Call) -> Result<Option<String>, Box<CallOutcome>> {
        let hydrated = &call.hydrated;
        let (Some(tool), Some(bound)) = (hydrated.definition(), &hydrated.bound) else {
            return Ok(None);
        };
        let decision = &hydrated.decision;
        let mut wanted_by = (*decision == Decision::NeedsApproval).then(|| "registry".to_owned());
        if !self.dispatcher.policies.is_empty() {
            let past = self.turn.past.lock().unwrap_or_else(PoisonError::into_inner);
            let request = PolicyRequest {
                traits: call.traits,
                validated: hydrated.provenance.validator.is_some(),
                repaired: hydrated.provenance.repaired,
                past: &past,
                ..PolicyRequest::new(&hydrated.id, call.name(), tool, bound.arguments.as_str())
            };
            let denied =
                |text: &str| CallOutcome::failed(Outcome::Denied, DispatchStage::Policy, text);
            for policy in &self.dispatcher.policies {
                let decided = guarded(|| Ok((policy.decide(&request), policy.name().to_owned())));
                match decided {
                    Ok((Decision::Allow, _)) => {}
                    Ok((Decision::NeedsApproval, name)) => {
                        wanted_by.get_or_insert(name);
                    }
                    Ok((Decision::Deny { reason }, name)) => {
                        call.decided_by = Some(name);
                        return Err(denied(&format!("the call was denied: {reason}")).into());
                    }
                    Err(error) => {
                        let failed = denied("the call did not run: a policy could not be asked");
                        return Err(failed.operator(format!("a policy failed: {error}")).into());
                    }
                }
            }
        }
        Ok(wanted_by)
    }

    /// Returns whether a person has approved exactly this call.
    fn approved(&self, call: &mut Call) -> bool {
        let now_us = self.turn.context.clock().now_us();
        let key = call.approval_key();
        let approval = key.and_then(|key| self.turn.approvals.get(&key, now_us));
        let Some(approval) = approval else { return false };
        call.approved = true;
        call.decided_by = approval.by.clone().or_else(|| Some("approval".to_owned()));
        true
    }

    /// Charges the budget and claims the effect of the call, unless it was answered before.
    async fn started(&mut self, call: &mut Call) -> Result<(), Box<CallOutcome>> {
        const UNWRITTEN: &str = "the call did not run: its start could not be written down";
        let stage = DispatchStage::Journal;
        let journal = self.turn.journal.as_ref().filter(|_| !call.traits.read_only);
        if let (Some(journal), Some(key)) = (journal, call.key) {
            match caught(journal.recorded(&key)).await {
                Ok(None) => {}
                Ok(Some(answer)) => return Err(CallOutcome::recorded(answer).into()),
                Err(error) => {
                    return Err(CallOutcome::of_broken_host(call, stage, UNWRITTEN, error).into());
                }
            }
        }
        // After the look-up: a recorded answer costs nothing.
        if let Some(budget) = &self.turn.budget
            && let Err(exceeded) = budget.call(&self.turn.evaluation)
        {
            return Err(CallOutcome::of_spent_budget(call, exceeded).into());
        }
        let Some(journal) = journal.filter(|_| has_effect(call)) else { return Ok(()) };
        let Some(start) = call.starts() else { return Ok(()) };
        match caught(journal.start(&start)).await {
            Ok(Start::Begin) => {
                call.start = Some(start);
                Ok(())
            }
            Ok(Start::Answered(answer)) => Err(CallOutcome::recorded(answer).into()),
            Ok(Start::Interrupted(text)) => {
                Err(CallOutcome::failed(Outcome::Interrupted, stage, text).into())
            }
            Ok(Start::Held(by)) => Err(CallOutcome::held(by).into()),
            Err(error) => Err(CallOutcome::of_broken_host(call, stage, UNWRITTEN, error).into()),
        }
    }

    /// Records the last answer in the journal, if its call claimed an effect.
    pub(super) async fn keep_answer(&mut self, call: &Call) {
        let (Some(journal), Some(start)) = (&self.turn.journal, &call.start) else { return };
        let Some(answer) = self.answers.last_mut() else { return };
        let recorded = Recorded {
            text: answer.text.clone(),
            is_error: answer.is_error,
            value: answer.value.clone(),
        };
        let kept = match answer.invoked.outcome_unknown {
            true => caught(journal.unanswered(start)).await,
            false => caught(journal.finish(start, &recorded)).await,
        };
        // The effect has happened, so the turn continues. Without the answer the claim counts as
        // interrupted, and the effect is not repeated.
        if let Err(error) = kept {
            let tool = call.name();
            tracing::error!(target: "tract::dispatch", tool, %error, "an answer was not kept");
        }
    }
}

/// Returns whether the effect of a call is claimed: if a second run would change something again,
/// or if a person approved it to happen once.
fn has_effect(call: &Call) -> bool {
    let once = !call.traits.idempotent || call.approved;
    call.hydrated.bound.is_some() && !call.traits.read_only && once
}

fn deferred(
    call: &mut Call,
    stage: DispatchStage,
    reason: String,
    by: Option<String>,
) -> CallOutcome {
    let text = format!("waits for a decision: {reason}");
    let mut call_outcome = CallOutcome::failed(Outcome::Deferred, stage, text);
    if let (Some(key), Some(bound)) = (call.approval_key(), call.bound_call()) {
        call_outcome.deferred = Some(Deferral { reason, by, key, bound });
    }
    call_outcome
}

/// Awaits the journal. A panic becomes an error.
async fn caught<T>(
    work: impl Future<Output = Result<T, crate::snapshot::BoxError>>,
) -> Result<T, String> {
    match tract_hooks::wait::caught(work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(panic) => Err(format!("it panicked: {panic}")),
    }
}
