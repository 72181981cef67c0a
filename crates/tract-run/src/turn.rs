//! One turn: ask the model, run what it asks for, commit all of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tract_compile::Compiled;
use tract_core::{
    Applied, By, Commit, CommitId, Draft, ModelError, Piece, ProgressSink, RefName, RefTarget,
    Reply, StopReason, ToolCall, Usage,
};
use tract_engine::plan::Request;
use tract_engine::{
    Alongside, DeferredCall, Pending, TurnAnswer, TurnRecord, Txn, WriteOptions, broken_off,
    generation_config, reply_draft,
};
use tract_tools::dispatch::{
    Answer, Approval, Approvals, Cause, Dispatcher, Recorded, Served, Turn, TurnError,
};
use tract_tools::prompt::{OPEN_SECTIONS, OpenedSections, RenderedPrompt};
use tract_tools::{Call, IntoCalls as _, Lookup, hydrate_repairing, hydrate_with};

use crate::agent::Agent;
use crate::answers::{self, given_up};
use crate::effects::Effects;
use crate::error::{Result, RunError};
use crate::journal::{BranchJournal, Elsewhere, deferred};
use crate::progress::Progress;
use crate::session::Stored;

/// A call that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answered {
    /// The provider's id of the call.
    pub call_id: String,
    /// The tool's name.
    pub tool_name: String,
    /// How it ended, as a word: `succeeded`, `failed`, `denied`, `interrupted`, and so on.
    pub outcome: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// What the tool's answer was, before a hook changed it.
    pub text: String,
    /// What only the operator reads.
    pub operator: Option<String>,
    /// How long it took, in microseconds.
    pub duration_us: u64,
    /// The commit of the answer; absent while a hook has it wait.
    pub commit: Option<CommitId>,
}

/// How a turn ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum TurnEnd {
    /// The model asked for nothing: it has said all.
    Said,
    /// All calls are answered: it is the model's turn.
    Called,
    /// Some calls wait until somebody has decided.
    Waiting,
    /// It was cancelled; all calls that were asked for are answered.
    Cancelled,
    /// A call ended it; all calls are answered.
    Ended(TurnError),
}

/// What came of a turn. All of it is committed.
#[derive(Debug)]
#[non_exhaustive]
pub struct TurnDone {
    /// The commit of the model's reply; absent when calls of an earlier one were answered.
    pub reply: Option<CommitId>,
    /// What it said.
    pub text: String,
    /// Why the model stopped, as its provider said.
    pub stop_reason: Option<StopReason>,
    /// What it cost.
    pub usage: Option<Usage>,
    /// The calls that were answered, in order.
    pub answers: Vec<Answered>,
    /// What waits until somebody has decided.
    pub pending: Vec<String>,
    /// How it ended.
    pub end: TurnEnd,
}

impl TurnDone {
    pub(crate) fn new(end: TurnEnd) -> Self {
        Self {
            reply: None,
            text: String::new(),
            stop_reason: None,
            usage: None,
            answers: Vec::new(),
            pending: Vec::new(),
            end,
        }
    }
}

/// Calls that are to be answered together.
pub(crate) struct Calls {
    /// The message that asks for them.
    pub(crate) commit: CommitId,
    /// Each call with its place in the message, and what becomes of it, in order.
    pub(crate) each: Vec<(u32, ToolCall, Then)>,
    /// What was approved.
    pub(crate) approvals: Vec<Approval>,
    /// Who asks.
    pub(crate) served: Option<Served>,
    /// What waits already.
    pub(crate) pending: Vec<String>,
    /// What became of them on other branches, when an earlier process asked for them.
    pub(crate) elsewhere: Elsewhere,
    /// The claims on their effects.
    pub(crate) effects: Arc<Effects>,
}

/// What becomes of a call.
pub(crate) enum Then {
    /// It is run.
    Run(Call),
    /// It is answered without being run: a text for the model, and a word for how it ended.
    GiveUp(&'static str, &'static str),
    /// It was answered before, and is not run again.
    Recorded(Recorded),
}

impl Agent {
    /// Asks the model at the head, and answers the calls that it asks for.
    pub(crate) async fn ask(
        &self,
        stored: &mut Stored,
        compiled: &Compiled,
        step: u32,
    ) -> Result<TurnDone> {
        let head = compiled.head().ok_or(RunError::NothingToAnswer)?;
        self.tell(&Progress::Asking { step, head });
        let mut request = compiled.request();
        request.parameters.clone_from(&self.parameters);
        let mut told = |piece: Piece| self.tell(&Progress::Piece(&piece));
        let answered = self.model.stream(&request, &self.cancellation, &mut told).await;
        let mut reply = match answered {
            Ok(reply) => reply,
            Err(error) => return self.no_answer(error).await,
        };
        if !self.keep_raw {
            reply.raw = None;
        }
        let mut draft = reply_draft(&reply)?;
        draft.generation_config =
            generation_config(self.parameters.as_ref(), reply.model.as_deref())?;
        let (commit, effects) = self.reply(head, draft, &reply).await?;
        if let (Some(budget), Some(usage)) = (&self.budget, reply.usage) {
            budget.usage(MAIN, usage);
        }
        let calls = self.calls_of(&reply, commit.id(), commit.origin.by, effects).await?;
        self.tell(&Progress::Replied { commit: commit.id(), calls: calls.each.len() });
        let mut done = match calls.each.is_empty() {
            true => TurnDone::new(TurnEnd::Said),
            false => self.answer(stored, calls).await?,
        };
        done.reply = Some(commit.id());
        done.text = reply.text();
        done.usage = reply.usage;
        done.stop_reason = reply.stop_reason;
        Ok(done)
    }

    /// Commits a reply. When it asks for calls that may have an effect, the same write says that
    /// this run works on them: from then on no other run takes them for left open.
    async fn reply(
        &self,
        head: CommitId,
        draft: Draft,
        reply: &Reply,
    ) -> Result<(Commit, Arc<Effects>)> {
        let may_act = |name: &str| match self.registry().lookup(name) {
            Lookup::Found(tool) => {
                !tool.traits().read_only || tool.definition().traits().destructive
            }
            Lookup::Ambiguous(_) => true,
            _ => false,
        };
        let acts = reply.calls().any(|call| may_act(&call.name));
        if !acts {
            let options = WriteOptions::new().expect(Some(head));
            let made = self.repo.write(&self.branch, &[Request::Append(draft)], &options).await?;
            let commit = made.into_iter().next().ok_or(RunError::NothingToAnswer)?;
            let effects = Effects::new(&self.repo, &self.branch, commit.id(), self.lease)?;
            return Ok((commit, Arc::new(effects)));
        }
        let mut txn = Txn::new(&self.repo)?;
        txn.expect(&self.branch, Some(RefTarget::Commit(head))).await?;
        let commit = txn.add(&self.branch, &Request::Append(draft)).await?;
        let (message, lease) = (commit.id(), self.lease);
        let effects = Effects::of_new_message(&self.repo, &self.branch, &mut txn, message, lease)?;
        match txn.apply("commit", &WriteOptions::new()).await? {
            Applied::Done | Applied::Already => {}
            Applied::Conflict(conflict) => {
                return Err(tract_engine::Error::from(conflict).into());
            }
        }
        effects.begun();
        Ok((commit, Arc::new(effects)))
    }

    /// The calls of a reply; those of the message in its place when a hook changed it.
    async fn calls_of(
        &self,
        reply: &Reply,
        commit: CommitId,
        by: By,
        effects: Arc<Effects>,
    ) -> Result<Calls> {
        let (calls, tool_calls): (Vec<Call>, Vec<ToolCall>) = match by {
            By::Hook => {
                let content = self.repo.content_of(commit).await?;
                ((&content).into_calls(), content.calls().cloned().collect())
            }
            _ => (reply.into_calls(), reply.calls().cloned().collect()),
        };
        let calls = tool_calls.into_iter().zip(calls.into_iter().map(Then::Run));
        let each = (0..).zip(calls).map(|(index, (call, then))| (index, call, then)).collect();
        let provider = reply.form.as_deref().and_then(|form| form.split('-').next());
        let served = reply.model.as_deref().map(|model| Served::new(provider.unwrap_or(""), model));
        let (approvals, pending, elsewhere) = (Vec::new(), Vec::new(), Elsewhere::default());
        Ok(Calls { commit, each, approvals, served, pending, elsewhere, effects })
    }

    /// Records what had come of an answer that broke off.
    async fn no_answer(&self, error: ModelError) -> Result<TurnDone> {
        let mut recorded = None;
        if let ModelError::BrokenOff { cause, partial } = &error {
            let note = broken_off(cause, partial, self.parameters.as_ref())?;
            recorded = Some(self.repo.write_one(&self.branch, note).await?.id());
        }
        match self.cancellation.is_cancelled() {
            true => Ok(TurnDone::new(TurnEnd::Cancelled)),
            false => Err(RunError::Model { error, recorded }),
        }
    }

    /// Runs calls, and commits all their answers with what the tools remember: one durable write.
    pub(crate) async fn answer(&self, stored: &mut Stored, calls: Calls) -> Result<TurnDone> {
        let mut done = TurnDone::new(TurnEnd::Called);
        done.pending.clone_from(&calls.pending);
        let run = |(index, _, then): &(u32, ToolCall, Then)| match then {
            Then::Run(call) => Some((*index, call.clone())),
            Then::GiveUp(..) | Then::Recorded(_) => None,
        };
        let (indices, to_run): (Vec<u32>, Vec<Call>) = calls.each.iter().filter_map(run).unzip();
        let rendered = self.rendered()?.map(Arc::new);
        let effects = Arc::clone(&calls.effects);
        let journal = BranchJournal::new(Arc::clone(&effects), calls.elsewhere.clone(), indices);
        let turn = self.dispatch_turn(&calls, rendered.as_ref(), journal);
        let policies = rendered.iter().flat_map(|rendered| rendered.policies()).cloned();
        let policies = self.pin_gate().into_iter().chain(policies);
        let dispatcher = policies.fold(self.dispatcher.clone(), Dispatcher::shared_policy);
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
                Then::Recorded(answer) => {
                    let outcome = answers::outcome_of(&answer);
                    record.results.push(answers::recorded(&call, &answer)?);
                    answered.push(Answered {
                        call_id: call.id,
                        tool_name: call.name,
                        outcome: outcome.to_owned(),
                        is_error: answer.is_error,
                        text: answer.text,
                        operator: None,
                        duration_us: 0,
                        commit: None,
                    });
                }
                Then::GiveUp(text, outcome) => {
                    record.results.push(given_up(&call, text, outcome)?);
                    answered.push(Answered {
                        call_id: call.id,
                        tool_name: call.name,
                        outcome: outcome.to_owned(),
                        is_error: true,
                        text: text.to_owned(),
                        operator: None,
                        duration_us: 0,
                        commit: None,
                    });
                }
                Then::Run(_) => {
                    let Some(answer) = answers.next() else { continue };
                    match (answers::draft(&answer)?, &answer.deferred) {
                        (Some(draft), _) => {
                            late.insert(index, draft.clone());
                            record.results.push(draft);
                            answered.push(Answered::of(&answer));
                        }
                        (None, Some(deferral)) => {
                            waiting.push((answer.call_id.clone(), answer.tool_name, deferral.key));
                            record.deferred.push(DeferredCall {
                                call,
                                commit: calls.commit,
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
        record.alongside = Some(Arc::clone(&effects) as Arc<dyn Alongside>);
        let recorded = self.record(stored, record, answered, &mut done).await;
        match recorded {
            Ok(true) => effects.done(),
            Ok(false) => effects.release().await?,
            Err(error) => {
                // The branch does not take the answers any more: what the tools did is known even
                // so. Where the store failed it is not, and neither is the state of the tools.
                if matches!(error, RunError::Engine(tract_engine::Error::Refused(_))) {
                    effects.release().await?;
                }
                return Err(error);
            }
        }
        self.correct(&effects, &late).await?;
        if let Some(by) = held {
            return Err(RunError::Held { by, branch: self.branch.as_str().to_owned() });
        }
        if matches!(done.end, TurnEnd::Called) && !done.pending.is_empty() {
            done.end = TurnEnd::Waiting;
        }
        Ok(done)
    }

    /// What the calls of a turn share.
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
        let mut turn = Turn::new()
            .context(context)
            .session(Arc::new(self.session.clone()))
            .model(Arc::clone(&self.model))
            .journal(Arc::new(journal))
            .approvals(approvals)
            .evaluation(MAIN)
            .past(Arc::clone(&self.past))
            .wait_for_others(self.patience)
            .commit(calls.commit);
        let kept_back = self.kept_back();
        if rendered.is_some() || !kept_back.is_empty() {
            // What a prompt knows of can be called while its section is shown, what a search knows
            // of once it was found, all else always.
            let hidden = |name: &str| {
                let closed = rendered.is_some_and(|rendered| {
                    (name == OPEN_SECTIONS && rendered.collapsed().is_empty())
                        || rendered.unavailable().iter().any(|known| known == name)
                });
                closed || kept_back.contains(name)
            };
            let names = self.registry().iter().map(|tool| tool.name().to_owned());
            turn = turn.available(names.filter(|name| !hidden(name)));
        }
        if let Some(resources) = &self.resources {
            turn = turn.resources(Arc::clone(resources));
        }
        if let Some(budget) = &self.budget {
            turn = turn.budget(Arc::clone(budget));
        }
        if let Some(served) = &calls.served {
            turn = turn.served(served.clone());
        }
        turn
    }

    /// What the end of dispatch means for the turn: sections that are asked for are shown.
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

    /// Writes what came of a turn, and tells of it; returns whether there was anything to write.
    async fn record(
        &self,
        stored: &mut Stored,
        mut record: TurnRecord,
        mut answered: Vec<Answered>,
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
                _ => {}
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

    /// Gives other branches the answers of calls that they were told were interrupted: this run
    /// had been taken for ended.
    async fn correct(&self, effects: &Effects, answers: &BTreeMap<u32, Draft>) -> Result<()> {
        for (index, branches) in effects.misled() {
            let Some(draft) = answers.get(&index) else { continue };
            for branch in branches {
                let branch = RefName::new(branch).map_err(tract_engine::Error::from)?;
                match self.repo.answer_turn(&branch, vec![draft.clone()]).await {
                    // The call is not on that branch any more.
                    Ok(_) | Err(tract_engine::Error::Refused(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    pub(crate) fn tell_waiting(&self, waits: &Pending) {
        if let tract_engine::Asked::Call { call, .. } = &waits.asked {
            let (pending, reason) = (waits.id.as_str(), waits.reason.as_str());
            self.tell(&Progress::Waiting { pending, call_id: &call.id, reason });
        }
    }

    /// Commits a message of whoever the agent works for, with what else has to stand before it.
    pub(crate) async fn say(
        &self,
        stored: &mut Stored,
        compiled: &Compiled,
        said: Option<Draft>,
    ) -> Result<bool> {
        let mut requests = self.instruct(compiled).await?;
        requests.extend(said.map(Request::Append));
        let before = requests.len();
        let unwritten = stored.unwritten(&self.repo, &self.branch, &self.session).await?;
        requests.extend(unwritten.requests.iter().cloned());
        if requests.is_empty() {
            return Ok(false);
        }
        let options = WriteOptions::new().expect(compiled.head());
        let commits = self.repo.write(&self.branch, &requests, &options).await?;
        stored.written(unwritten, commits.get(before..).unwrap_or_default());
        Ok(true)
    }
}

/// The evaluation that an agent's own requests are counted for.
const MAIN: &str = "main";

impl Answered {
    fn of(answer: &Answer) -> Self {
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
}
