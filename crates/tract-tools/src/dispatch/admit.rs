//! Whether a call may run: everything before its handler.

use std::collections::VecDeque;
use std::sync::PoisonError;

use tract_core::{ToolCall, ToolError};
use tract_hooks::{BeforeDispatch, DispatchAction};

use super::answer::Deferral;
use super::call::{Call, Verdict};
use super::error::Cause;
use super::journal::CallStart;
use super::outcome::{DispatchStage, Outcome};
use super::run::Run;
use crate::budget::BudgetExceeded;
use crate::hydrate::{self, Stage, hydrate_with};
use crate::panics::guarded;
use crate::policy::{Decision, PolicyRequest};

impl Verdict {
    pub(super) fn of_spent_budget(call: &Call, exceeded: BudgetExceeded) -> Self {
        let text = format!("the call did not run: {exceeded}");
        let source = ToolError::evaluation(exceeded.to_string()).caused_by(exceeded);
        Self::failed(Outcome::Failed, DispatchStage::Turn, text).ending(
            call,
            Cause::Budget(exceeded),
            source,
        )
    }
}

impl Run<'_> {
    /// Returns what keeps a call from running; `None` when it may.
    pub(super) async fn admit(
        &mut self,
        call: &mut Call,
        behind: &VecDeque<Call>,
    ) -> Option<Verdict> {
        if let Some(over) = self.turn_over(call) {
            return Some(over);
        }
        if let Err(refused) = self.allowed(call).await {
            return Some(*refused);
        }
        // Policies, hooks and whoever decides have taken their time.
        if let Some(over) = self.turn_over(call) {
            return Some(over);
        }
        self.started(call, behind).await.err().map(|refused| *refused)
    }

    async fn allowed(&self, call: &mut Call) -> Result<(), Box<Verdict>> {
        loop {
            self.callable(call)?;
            self.policies(call)?;
            let hooks = &self.dispatcher.hooks;
            if call.hooked || !hooks.hears::<BeforeDispatch>() {
                return Ok(());
            }
            call.hooked = true;
            let Some(bound) = &call.hydrated.bound else { return Ok(()) };
            let asked = ToolCall {
                id: call.id().to_owned(),
                name: call.name().to_owned(),
                arguments: bound.arguments.as_str().to_owned(),
            };
            let mut event = BeforeDispatch::new(asked, call.traits);
            event.commit = self.turn.commit;
            let decision = hooks.before_dispatch(&event).await;
            let by = decision.by().map(str::to_owned);
            let failed = decision.failures().last().map(|failure| failure.handler.clone());
            let failures = decision.failures().iter().map(ToString::to_string);
            call.notes.extend(failures);
            match decision.into_action() {
                DispatchAction::Refuse(reason) => {
                    // A handler that broke down has refused by failing: what it said is no reason.
                    let broken = failed.is_some() && failed == by;
                    call.decided_by = by;
                    let text = match broken {
                        true => "the call did not run: a check before it failed".to_owned(),
                        false => format!("the call was refused: {reason}"),
                    };
                    let stage = DispatchStage::Hook;
                    return Err(Verdict::failed(Outcome::Denied, stage, text).into());
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
                    let sent = &call.hydrated.provenance.raw_arguments;
                    let note =
                        format!("handler {handler:?} replaced the arguments; sent were {sent}");
                    call.notes.push(note);
                    call.decided_by = by;
                    let again = self.hydrated_again(call, &arguments);
                    call.replace(again);
                }
                _ => {
                    call.decided_by = call.decided_by.take().or(by);
                    return Ok(());
                }
            }
        }
    }

    fn hydrated_again(&self, call: &Call, arguments: &str) -> hydrate::Hydrated {
        let before = &call.hydrated;
        let mut changed = hydrate::Call::new(&before.id, &before.name, arguments);
        changed.tool_id = before.tool.as_ref().map(|tool| tool.id().to_owned());
        changed.source.clone_from(&before.provenance.source);
        let options = &self.dispatcher.hydration;
        let mut again = hydrate_with(changed, &self.dispatcher.registry, options);
        // One call in, one out.
        again.pop().unwrap_or_else(|| before.clone())
    }

    /// Whether there is something that can be run.
    fn callable(&self, call: &mut Call) -> Result<(), Box<Verdict>> {
        let hydrated = &call.hydrated;
        if let Some(first) = hydrated.errors.first() {
            let outcome = match first.stage {
                Stage::Policy => Outcome::Denied,
                _ => Outcome::Invalid,
            };
            let verdict = Verdict::failed(outcome, first.stage.into(), hydrated.error_text());
            return Err(verdict.into());
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
        Err(Verdict::failed(Outcome::Invalid, DispatchStage::Lookup, text).into())
    }

    fn policies(&self, call: &mut Call) -> Result<(), Box<Verdict>> {
        let hydrated = &call.hydrated;
        let (Some(tool), Some(bound)) = (hydrated.definition(), &hydrated.bound) else {
            return Ok(());
        };
        let mut decision = hydrated.decision.clone();
        let mut wanted_by = (decision == Decision::NeedsApproval).then(|| "registry".to_owned());
        if !self.dispatcher.policies.is_empty() {
            let past = self.turn.past.lock().unwrap_or_else(PoisonError::into_inner);
            let request = PolicyRequest {
                traits: call.traits,
                validated: hydrated.provenance.validator.is_some(),
                repaired: hydrated.provenance.repaired,
                past: &past,
                ..PolicyRequest::new(&hydrated.id, call.name(), tool, bound.arguments.as_str())
            };
            for policy in &self.dispatcher.policies {
                let said = guarded(|| Ok((policy.decide(&request), policy.name().to_owned())));
                match said {
                    Ok((Decision::Allow, _)) => {}
                    Ok((Decision::NeedsApproval, name)) => {
                        decision = Decision::NeedsApproval;
                        wanted_by.get_or_insert(name);
                    }
                    Ok((Decision::Deny { reason }, name)) => {
                        let text = format!("the call was denied: {reason}");
                        let verdict = Verdict::failed(Outcome::Denied, DispatchStage::Policy, text);
                        call.decided_by = Some(name);
                        return Err(verdict.into());
                    }
                    Err(error) => {
                        let text = "the call did not run: a policy could not be asked";
                        let verdict = Verdict::failed(Outcome::Denied, DispatchStage::Policy, text);
                        return Err(verdict.operator(format!("a policy failed: {error}")).into());
                    }
                }
            }
        }
        if decision != Decision::NeedsApproval || self.approved(call) {
            return Ok(());
        }
        call.decided_by = wanted_by;
        let reason = format!("a person has to approve calls of {:?}", call.name());
        Err(deferred(call, DispatchStage::Approval, reason, None).into())
    }

    /// Whether a person has approved exactly this call.
    fn approved(&self, call: &mut Call) -> bool {
        let now_us = self.turn.context.clock().now_us();
        let Some(key) = call.name_effect() else { return false };
        match self.turn.approvals.get(&key, now_us) {
            Some(approval) => {
                call.decided_by = approval.by.clone().or_else(|| Some("approval".to_owned()));
                true
            }
            None => false,
        }
    }

    /// Counts the call and writes down that it starts, unless it was answered before.
    async fn started(&mut self, call: &Call, behind: &VecDeque<Call>) -> Result<(), Box<Verdict>> {
        const UNWRITTEN: &str = "the call did not run: its start could not be written down";
        let journal = self.turn.journal.as_ref().filter(|_| !call.traits.read_only);
        if let (Some(journal), Some(key)) = (journal, call.key) {
            match caught(journal.recorded(&key)).await {
                Ok(None) => {}
                Ok(Some(recorded)) => {
                    let verdict = match recorded.is_error {
                        false => Verdict::succeeded(recorded.text, recorded.value),
                        true => Verdict {
                            value: recorded.value,
                            ..Verdict::failed(
                                Outcome::Failed,
                                DispatchStage::Handler,
                                recorded.text,
                            )
                        },
                    };
                    return Err(Verdict { replayed: true, ..verdict }.into());
                }
                Err(error) => {
                    let stage = DispatchStage::Journal;
                    return Err(Verdict::of_broken_host(call, stage, UNWRITTEN, error).into());
                }
            }
        }
        if let Some(budget) = &self.turn.budget
            && let Err(exceeded) = budget.call(&self.turn.evaluation)
        {
            return Err(Verdict::of_spent_budget(call, exceeded).into());
        }
        let Some(journal) = journal.filter(|_| !self.marked && has_effect(call)) else {
            return Ok(());
        };
        let mut starts = Vec::new();
        for call in std::iter::once(call).chain(behind).filter(|call| has_effect(call)) {
            // Keys of those behind are not known yet: they have not been taken up.
            let hydrated = &call.hydrated;
            let (Some(tool), Some(bound)) = (hydrated.definition(), &hydrated.bound) else {
                continue;
            };
            let key = super::CallKey::of(tool, &hydrated.id, bound.arguments.as_str());
            starts.push(CallStart::new(&hydrated.id, call.name(), key));
        }
        match caught(journal.started(&starts)).await {
            Ok(()) => {
                self.marked = true;
                Ok(())
            }
            Err(error) => {
                let stage = DispatchStage::Journal;
                Err(Verdict::of_broken_host(call, stage, UNWRITTEN, error).into())
            }
        }
    }
}

/// Whether a second run would do something that a first has not.
fn has_effect(call: &Call) -> bool {
    call.hydrated.bound.is_some() && !call.traits.read_only && !call.traits.idempotent
}

fn deferred(call: &mut Call, stage: DispatchStage, reason: String, by: Option<String>) -> Verdict {
    let text = format!("waits for a decision: {reason}");
    let mut verdict = Verdict::failed(Outcome::Deferred, stage, text);
    if let Some(key) = call.name_effect() {
        verdict.deferred = Some(Deferral { reason, by, key });
    }
    verdict
}

/// Waits for the host; a panic is an error too.
async fn caught<T>(
    work: impl Future<Output = Result<T, crate::snapshot::BoxError>>,
) -> Result<T, String> {
    match tract_hooks::wait::caught(work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(panic) => Err(format!("it panicked: {panic}")),
    }
}
