//! Answers calls: runs them or uses known answers, and records all answers together.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tract_core::{CommitId, Draft, ProgressSink, RefName, ToolCall};
use tract_engine::{BatchAttachment, DeferredCall, Pending, TurnAnswer, TurnRecord};
use tract_tools::dispatch::{Approvals, Cause, Turn, TurnError};
use tract_tools::prompt::{OPEN_SECTIONS, OpenedSections, RenderedPrompt};
use tract_tools::{Call, hydrate_repairing, hydrate_with};

use super::{AnsweredCall, CallStep, Calls, MAIN, TurnDone, TurnEnd};
use crate::agent::Agent;
use crate::answers::{self, undispatched};
use crate::effects::Effects;
use crate::error::{Result, RunError};
use crate::journal::{BranchJournal, Mark, deferred};
use crate::progress::Progress;
use crate::session::Stored;

impl Agent {
    /// Runs calls of a message, and commits their answers and the state of the tools in one durable
    /// write.
    pub(crate) async fn answer(
        &self,
        stored: &mut Stored,
        message: CommitId,
        effects: &Arc<Effects>,
        calls: Calls,
    ) -> Result<TurnDone> {
        let mut done = TurnDone::new(TurnEnd::Called);
        done.pending.clone_from(&calls.pending);
        let run = |(index, _, then): &(u32, ToolCall, CallStep)| match then {
            CallStep::Run(call) => Some((*index, call.clone())),
            CallStep::Answer(..) => None,
        };
        let (indices, to_run): (Vec<u32>, Vec<Call>) = calls.each.iter().filter_map(run).unzip();
        let rendered = self.rendered()?.map(Arc::new);
        let elsewhere = calls.elsewhere.clone();
        let journal = BranchJournal { effects: Arc::clone(effects), elsewhere, indices };
        let mut turn = self.dispatch_turn(&calls, rendered.as_ref(), journal);
        turn.commit = Some(message);
        let policies = rendered.iter().flat_map(|rendered| rendered.policies()).cloned();
        let mut dispatcher = self.dispatcher.clone();
        dispatcher.policies.extend(self.pin_gate().into_iter().chain(policies));
        let registry = self.registry();
        let hydrated = match &self.repair {
            Some(repair) => hydrate_repairing(to_run, registry, &self.hydration, &**repair).await,
            None => hydrate_with(to_run, registry, &self.hydration),
        };
        let dispatched = dispatcher.dispatch(hydrated, &turn).await;
        if let Some(ended) = dispatched.ended {
            done.end = self.ended(ended)?;
        }

        let mut record = TurnRecord::default();
        let mut answered = Vec::new();
        let mut waiting = Vec::new();
        let mut answers = dispatched.answers.into_iter();
        let mut late = BTreeMap::new();
        let mut held = None;
        for (index, call, then) in calls.each {
            match then {
                CallStep::Answer(answer, outcome, replayed) => {
                    record.results.push(undispatched(&call, &answer, outcome, replayed)?);
                    answered.push(AnsweredCall::without_run(call, answer, outcome));
                }
                CallStep::Run(_) => {
                    let Some(answer) = answers.next() else { continue };
                    match (answers::draft(&answer)?, &answer.deferred) {
                        (Some(draft), _) => {
                            late.insert(index, draft.clone());
                            record.results.push(draft);
                            answered.push(AnsweredCall::of(&answer));
                        }
                        (None, Some(deferral)) => {
                            let (call_id, tool) = (answer.call_id.clone(), answer.tool_name);
                            waiting.push(Mark { call_id, tool, key: deferral.key });
                            record.deferred.push(DeferredCall {
                                call,
                                commit: message,
                                by: deferral.by.clone().unwrap_or_else(|| "approval".to_owned()),
                                reason: deferral.reason.clone(),
                                index,
                                bound: deferral.bound.clone(),
                            });
                        }
                        // Another run works on it, and answers it.
                        (None, None) => held = held.or(answer.held),
                    }
                }
            }
        }
        if !waiting.is_empty() {
            record.also.push(deferred(waiting)?);
        }
        // In the batch of the answers: a claim ends exactly when the branch has its answer.
        record.alongside = Some(Arc::clone(effects) as Arc<dyn BatchAttachment>);
        let recorded = self.record(stored, record, answered, &mut done).await;
        match recorded {
            Ok(true) => effects.done(),
            Ok(false) => effects.release().await?,
            Err(error) => {
                // The branch rejected the answers, but the results of the tools are known. After an
                // error of the store it is unknown what was written.
                if matches!(error, RunError::Engine(tract_engine::Error::Refused(_))) {
                    effects.release().await?;
                }
                return Err(error);
            }
        }
        self.correct(effects, &late).await?;
        if let Some(by) = held {
            return Err(RunError::Held { by, branch: self.branch.as_str().to_owned() });
        }
        if matches!(done.end, TurnEnd::Called) && !done.pending.is_empty() {
            done.end = TurnEnd::Waiting;
        }
        Ok(done)
    }

    /// Returns the settings that the calls of a turn share.
    fn dispatch_turn(
        &self,
        calls: &Calls,
        rendered: Option<&Arc<RenderedPrompt>>,
        journal: BranchJournal,
    ) -> Turn {
        let mut context = self.context.clone().with_cancellation(self.cancellation.child());
        if let (Some((prompt, _)), Some(rendered)) = (&self.prompt, rendered) {
            context = context
                .with_shared_resource(Arc::clone(prompt))
                .with_shared_resource(Arc::clone(rendered));
        }
        if let Some(tell) = &self.tell {
            let tell = Arc::clone(tell);
            let sink = move |call_id: &str, line: fmt::Arguments<'_>| {
                tell(&Progress::Tool { call_id, line: &line.to_string() });
            };
            context = context.with_progress(Arc::new(sink) as Arc<dyn ProgressSink>);
        }
        let approvals: Approvals = calls.approvals.iter().cloned().collect();
        let mut turn = Turn {
            context,
            session: Some(Arc::new(self.session.clone())),
            model: Some(Arc::clone(&self.model)),
            resources: self.resources.clone(),
            budget: self.budget.clone(),
            evaluation: MAIN.into(),
            journal: Some(Arc::new(journal)),
            approvals,
            served: calls.served.clone(),
            view: calls.view,
            toolset: calls.toolset,
            past: Arc::clone(&self.past),
            wait_for_others: Some(self.patience),
            ..Turn::default()
        };
        let kept_back = self.deferred_tools();
        if rendered.is_some() || !kept_back.is_empty() {
            // Tools of a prompt can be called while their section is shown, tools of a search once
            // they have been found, and all others always.
            let hidden = |name: &str| {
                let closed = rendered.is_some_and(|rendered| {
                    (name == OPEN_SECTIONS && rendered.collapsed().is_empty())
                        || rendered.unavailable().iter().any(|known| known == name)
                });
                closed || kept_back.contains(name)
            };
            let names = self.registry().iter().map(|tool| tool.name().to_owned());
            turn.available = Some(names.filter(|name| !hidden(name)).collect());
        }
        turn
    }

    /// Converts the end of a dispatch to the end of the turn, and opens requested sections.
    fn ended(&self, error: TurnError) -> Result<TurnEnd> {
        match error {
            TurnError::VisibilityExpansion { ref sections, .. } if self.prompt.is_some() => {
                OpenedSections::open(&self.session, sections)?;
                Ok(TurnEnd::Called)
            }
            TurnError::Evaluation { cause: Cause::Cancelled, .. } => Ok(TurnEnd::Cancelled),
            error => Ok(TurnEnd::Ended(error)),
        }
    }

    /// Writes and reports the results of a turn; returns whether there was anything to write.
    async fn record(
        &self,
        stored: &mut Stored,
        mut record: TurnRecord,
        mut answered: Vec<AnsweredCall>,
        done: &mut TurnDone,
    ) -> Result<bool> {
        let unwritten = stored.unwritten(&self.repo, &self.branch, &self.session).await?;
        let before = record.also.len();
        record.also.extend(unwritten.requests.iter().cloned());
        if record.results.is_empty() && record.also.is_empty() && record.deferred.is_empty() {
            return Ok(false);
        }
        let recorded = self.repo.record_turn(&self.branch, &record).await?;
        stored.written(unwritten, recorded.also.get(before..).unwrap_or_default());
        for (answered, answer) in answered.iter_mut().zip(&recorded.answers) {
            match answer {
                TurnAnswer::Committed(commit) | TurnAnswer::Rejected { commit, .. } => {
                    answered.commit = Some(commit.id());
                }
                TurnAnswer::Answered { by } => answered.commit = Some(*by),
                TurnAnswer::Deferred(deferred) => done.pending.push(deferred.id.clone()),
            }
            self.tell(&Progress::Answered(answered));
        }
        for waits in &recorded.pending {
            self.tell_waiting(waits);
            done.pending.push(waits.id.clone());
        }
        done.answers = answered;
        Ok(true)
    }

    /// Writes the answers of calls to other branches that record them as interrupted, because they
    /// considered this run to have ended.
    async fn correct(&self, effects: &Effects, answers: &BTreeMap<u32, Draft>) -> Result<()> {
        for (index, branches) in effects.misled_branches() {
            let Some(draft) = answers.get(&index) else { continue };
            for branch in branches {
                let branch = RefName::new(branch).map_err(tract_engine::Error::from)?;
                match self.repo.answer_turn(&branch, vec![draft.clone()]).await {
                    // The call is no longer on that branch.
                    Ok(_) | Err(tract_engine::Error::Refused(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    pub(crate) fn tell_waiting(&self, waits: &Pending) {
        if let tract_engine::PendingRequest::Call { call, .. } = &waits.request {
            let (pending, reason) = (waits.id.as_str(), waits.reason.as_str());
            self.tell(&Progress::Waiting { pending, call_id: &call.id, reason });
        }
    }
}
