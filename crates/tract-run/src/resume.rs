//! Calls that an earlier run left open: claims them, and decides the next step of each.

use std::sync::Arc;

use tract_compile::Compiled;
use tract_core::{CommitId, Content, ToolCall, ToolTraits};
use tract_engine::{Pending, PendingRequest, RecordedDecision};
use tract_tools::dispatch::{Approval, CallKey};
use tract_tools::{Call, Lookup, hydrate_with};

use crate::agent::{Agent, OnResume};
use crate::effects::{EffectStatus, Effects, INTERRUPTED};
use crate::error::{Result, RunError};
use crate::journal::{Marked, OtherBranches};
use crate::position::{Open, Position};
use crate::progress::Progress;
use crate::session::Stored;
use crate::turn::{CallStep, Calls, TurnDone, TurnEnd};

impl Agent {
    /// Answers the open calls; returns `None` if there are none.
    pub(crate) async fn settle_open(
        &self,
        stored: &mut Stored,
        compiled: &Compiled,
    ) -> Result<Option<TurnDone>> {
        let Position::Calls(open) = Position::of(compiled) else { return Ok(None) };
        let effects =
            Arc::new(Effects::new(self.repo.clone(), self.branch.clone(), open.slot, self.lease)?);
        let waiting = self.repo.pending().await?;
        let waits = |(index, call): &(u32, ToolCall)| self.waits(&waiting, *index, call, &open);
        if open.calls.iter().all(|call| waits(call).is_some()) {
            let mut done = TurnDone::new(TurnEnd::Waiting);
            for waits in open.calls.iter().filter_map(waits) {
                self.tell_waiting(waits);
                done.pending.push(waits.id.clone());
            }
            return Ok(Some(done));
        }
        let tell = |by: &str, branch: &str| self.tell(&Progress::Held { by, branch });
        if !effects.take(&self.cancellation, self.patience, tell).await? {
            return Ok(Some(TurnDone::new(TurnEnd::Cancelled)));
        }
        let settled = self.settle_claimed(stored, open.slot, &effects).await;
        if settled.is_err() && !effects.has_answers() {
            effects.release().await?;
        }
        settled.map(Some)
    }

    /// Answers the open calls of a message that this run works on.
    async fn settle_claimed(
        &self,
        stored: &mut Stored,
        message: CommitId,
        effects: &Arc<Effects>,
    ) -> Result<TurnDone> {
        // The previous holder may have answered, so the branch is read again.
        let compiled = self.compile_head().await?;
        match (compiled.head(), Position::of(&compiled)) {
            (Some(head), Position::Calls(open)) if open.slot == message => {
                let mut calls = self.left_open(head, &open, effects).await?;
                calls.toolset = compiled.toolset();
                self.answer(stored, open.commit, effects, calls).await
            }
            _ => {
                effects.release().await?;
                Ok(TurnDone::new(TurnEnd::Called))
            }
        }
    }

    /// Returns the pending request for a call on this branch.
    fn waits<'a>(
        &self,
        waiting: &'a [Pending],
        index: u32,
        call: &ToolCall,
        open: &Open,
    ) -> Option<&'a Pending> {
        waiting.iter().find(|waits| {
            waits.branch == self.branch && is_of(&waits.request, index, call, &open.commit)
        })
    }

    /// Decides the next step of each call that was left open.
    async fn left_open(&self, head: CommitId, open: &Open, effects: &Effects) -> Result<Calls> {
        let marked = Marked::since(&self.repo, head, open.slot).await?;
        let waiting = self.repo.pending().await?;
        let decisions =
            if marked.deferred.is_empty() { Vec::new() } else { self.repo.decisions().await? };
        let known = effects.known().await?;
        let elsewhere = OtherBranches::of(&self.repo, &self.branch, open.slot).await?;
        let mut calls = Calls { elsewhere, ..Calls::default() };
        for (index, call) in &open.calls {
            if let Some(waits) = self.waits(&waiting, *index, call, open) {
                self.tell_waiting(waits);
                calls.pending.push(waits.id.clone());
                continue;
            }
            // First, so that no other record of the call restores erased text.
            let then = if let Some(erased) = calls.elsewhere.erased(&call.id) {
                CallStep::Answer(erased.clone(), "succeeded", true)
            } else if let Some(known) = known.get(index) {
                self.then_known(*index, call, known, effects)
            } else if marked.started.contains_key(&call.id) {
                CallStep::give_up(INTERRUPTED, "interrupted")
            } else if let Some(answer) = calls.elsewhere.answer(&call.id) {
                CallStep::answered(answer)
            } else if calls.elsewhere.is_unanswered(&call.id) {
                CallStep::give_up(INTERRUPTED_ELSEWHERE, "interrupted")
            } else if marked.deferred.contains_key(&call.id) {
                let approved = decisions
                    .iter()
                    .rev()
                    .filter(|decided| approves(decided, *index, call, &open.commit));
                let (call, approval) = self.approved(call, &approved.collect::<Vec<_>>())?;
                calls.approvals.extend(approval);
                CallStep::Run(call)
            } else {
                self.then_not_started(call)
            };
            calls.each.push((*index, call.clone(), then));
        }
        Ok(calls)
    }

    /// Decides the next step of a call whose effect was claimed by a run that has ended.
    fn then_known(
        &self,
        index: u32,
        call: &ToolCall,
        known: &EffectStatus,
        effects: &Effects,
    ) -> CallStep {
        let traits = self.traits(call);
        match known {
            EffectStatus::Answered(answer) => CallStep::answered(answer),
            EffectStatus::Unknown { approved: false, .. }
                if self.on_resume == OnResume::Run && (traits.idempotent || traits.read_only) =>
            {
                effects.allow_again(index);
                CallStep::Run(self.resumed(call))
            }
            EffectStatus::Unknown { branch, .. } => {
                effects.give_up(index);
                let here = branch == self.branch.as_str();
                let text = if here { INTERRUPTED } else { INTERRUPTED_ELSEWHERE };
                CallStep::give_up(text, "interrupted")
            }
        }
    }

    /// Decides the next step of a call that no run has claimed. Idempotent and read-only tools run
    /// without a claim.
    fn then_not_started(&self, call: &ToolCall) -> CallStep {
        let traits = self.traits(call);
        match self.on_resume {
            OnResume::Run => CallStep::Run(self.resumed(call)),
            OnResume::Answer if traits.read_only => CallStep::give_up(NOT_ANSWERED, "not_executed"),
            OnResume::Answer if traits.idempotent => CallStep::give_up(MAY_HAVE_RUN, "interrupted"),
            OnResume::Answer => CallStep::give_up(NOT_EXECUTED, "not_executed"),
        }
    }

    fn traits(&self, call: &ToolCall) -> ToolTraits {
        match self.registry().lookup(&call.name) {
            Lookup::Found(tool) => tool.traits(),
            _ => ToolTraits::default(),
        }
    }

    /// Returns the call to run. It is not known here whether its tool was sent in strict mode, so
    /// invalid arguments are tried again with null read as absent.
    fn resumed(&self, call: &ToolCall) -> Call {
        let as_received = Call::from(call);
        if !call.arguments.contains("null") {
            return as_received;
        }
        let fits = |call: &Call| {
            let hydrated = hydrate_with(call.clone(), self.registry(), &self.hydration);
            hydrated.iter().all(|hydrated| hydrated.success())
        };
        let mut strict = as_received.clone();
        strict.null_for_absent = true;
        if !fits(&as_received) && fits(&strict) { strict } else { as_received }
    }

    /// Returns the call to run if a decision approves it, newest first: exactly the approved call,
    /// if a tool here has that server and definition. Without a valid approval the call is checked
    /// like any other.
    fn approved(
        &self,
        call: &ToolCall,
        decisions: &[&RecordedDecision],
    ) -> Result<(Call, Option<Approval>)> {
        let approval = |decided: &RecordedDecision, key| Approval {
            by: decided.record.handler.clone(),
            ..Approval::new(key)
        };
        let resumed = self.resumed(call);
        let mut newest = None;
        for decided in decisions {
            let PendingRequest::Call { bound, .. } = &decided.request else { continue };
            let Some(bound) = bound else {
                // An older document contains only the model's own arguments, so these were
                // approved.
                let read = hydrate_with(resumed.clone(), self.registry(), &self.hydration);
                let key = read.first().and_then(|read| {
                    let (tool, bound) = (read.definition()?, read.bound.as_ref()?);
                    let key = CallKey::of(tool, &call.id, &call.arguments);
                    (key == CallKey::of(tool, &call.id, bound.arguments.as_str())).then_some(key)
                });
                if let Some(key) = key {
                    return Ok((resumed, Some(approval(decided, key))));
                }
                continue;
            };
            newest.get_or_insert(bound);
            let approved = Call { approved: Some(Arc::new((**bound).clone())), ..resumed.clone() };
            let server = bound.server.as_deref();
            let here = self
                .registry()
                .by_definition(bound.tool)
                .any(|tool| tool.origin().map(|origin| origin.server.as_str()) == server);
            if here {
                let key = CallKey::of_server(server, bound.tool, &call.id, &bound.arguments);
                return Ok((approved, Some(approval(decided, key))));
            }
        }
        let Some(bound) = newest else { return Ok((resumed, None)) };
        match self.registry().lookup(&call.name) {
            Lookup::Unknown { .. } => Err(RunError::ApprovedTool {
                call_id: call.id.clone(),
                tool: bound.tool_name.clone(),
                server: bound.server.clone(),
            }),
            // The tool belongs to another server or has changed since, so it needs another
            // approval.
            _ => Ok((Call { approved: Some(Arc::new((**bound).clone())), ..resumed }, None)),
        }
    }
}

/// The answer to a call that was started on another branch and is unanswered there.
const INTERRUPTED_ELSEWHERE: &str = "interrupted, outcome unknown: the tool may have run on another \
    branch, and no answer is recorded there. Find out what became of it before you ask for it again.";
/// The answer to a call of an idempotent tool, whose start is not recorded.
const MAY_HAVE_RUN: &str = "interrupted, outcome unknown: the tool may have run, and the process \
    ended before it answered. It can be asked for again: to run twice is the same as once.";
/// The answer to a call that had not started.
const NOT_EXECUTED: &str =
    "not executed: the process ended before the tool ran. Ask for it again if it is still needed.";
/// The answer to a call of a read-only tool.
const NOT_ANSWERED: &str = "not executed: the process ended before an answer was recorded. Ask for it again if it is \
    still needed.";

/// Returns whether a request, pending or decided, is about this call or its result.
fn is_of(request: &PendingRequest, index: u32, call: &ToolCall, message: &CommitId) -> bool {
    match request {
        PendingRequest::Call { call: waits, commit, index: place, .. } => {
            waits.id == call.id
                && commit.as_ref().is_none_or(|commit| commit == message)
                && place.is_none_or(|place| place == index)
        }
        PendingRequest::Append(draft) => {
            matches!(&draft.content, Content::ToolResult(answer) if answer.call_id == call.id)
        }
        _ => false,
    }
}

fn approves(decided: &RecordedDecision, index: u32, call: &ToolCall, message: &CommitId) -> bool {
    decided.record.action == "approve"
        && matches!(decided.request, PendingRequest::Call { .. })
        && is_of(&decided.request, index, call, message)
}
