//! Asks the model: commits the message before the request, and the reply.

use std::sync::Arc;

use tract_compile::Compiled;
use tract_core::telemetry::ModelCall;
use tract_core::{
    Applied, AuthorKind, Commit, CommitId, Draft, ModelError, RefTarget, Reply, ReplyDelta,
    StopReason, ToolCall, Usage,
};
use tract_engine::plan::Request;
use tract_engine::{Txn, WriteOptions, broken_off, generation_config, reply_draft};
use tract_tools::dispatch::ReplySource;
use tract_tools::{Call, IntoCalls as _, Lookup};

use super::{CallStep, Calls, MAIN, TurnDone, TurnEnd};
use crate::agent::Agent;
use crate::effects::Effects;
use crate::error::{Result, RunError};
use crate::progress::Progress;
use crate::session::Stored;

impl Agent {
    /// Commits a message to the model, preceded by instructions, tools and state if they have
    /// changed. Returns whether anything was written.
    pub(crate) async fn say(
        &self,
        stored: &mut Stored,
        compiled: &Compiled,
        message: Option<Draft>,
    ) -> Result<bool> {
        let mut requests = self.instruct(compiled).await?;
        requests.extend(message.map(Request::Append));
        let before = requests.len();
        let unwritten = stored.unwritten(&self.repo, &self.branch, &self.session).await?;
        requests.extend(unwritten.requests.iter().cloned());
        if requests.is_empty() {
            return Ok(false);
        }
        let options = WriteOptions { expect: Some(compiled.head()), ..WriteOptions::default() };
        let commits = self.repo.write(&self.branch, &requests, &options).await?;
        stored.written(unwritten, commits.get(before..).unwrap_or_default());
        Ok(true)
    }

    /// Asks the model at the head, and answers the calls that it requests.
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
        let call = ModelCall::begin(&*self.model, &request, true);
        call.conversation(self.repo.name(), &self.branch);
        let view = call.context(|| compiled.view_id(), compiled.toolset());
        let answered = {
            let mut first = call.first_piece();
            let mut on_delta = |piece: ReplyDelta| {
                first.arrived();
                self.tell(&Progress::Piece(&piece));
            };
            let streamed = self.model.stream(&request, &self.cancellation, &mut on_delta);
            call.span().instrument(streamed).await
        };
        call.end(&answered);
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
        let mut estimated_tokens = 0;
        if let Some(budget) = &self.budget {
            let usage;
            (usage, estimated_tokens) = counted_usage(&reply, compiled);
            budget.usage(MAIN, usage);
        }
        let mut calls = self.calls_of(&reply, &commit).await?;
        let is_cut = calls.give_up_if_cut(reply.stop_reason.as_ref());
        (calls.view, calls.toolset) = (view, compiled.toolset());
        self.tell(&Progress::Replied { commit: commit.id(), calls: calls.each.len() });
        let mut done = if calls.each.is_empty() {
            TurnDone::new(TurnEnd::Said)
        } else {
            self.answer(stored, commit.id(), &effects, calls).await?
        };
        if is_cut && reply.stop_reason == Some(StopReason::Refusal) {
            done.end = TurnEnd::Said;
        }
        done.reply = Some(commit.id());
        done.text = reply.text();
        done.usage = reply.usage;
        done.estimated_tokens = estimated_tokens;
        done.stop_reason = reply.stop_reason;
        Ok(done)
    }

    /// Commits a reply. If it contains calls that may have an effect, the same write stores the
    /// hold of this run, so that no other run considers them left open.
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
            let options = WriteOptions { expect: Some(Some(head)), ..WriteOptions::default() };
            let made = self.repo.write(&self.branch, &[Request::Append(draft)], &options).await?;
            let commit = made.into_iter().next().ok_or(RunError::NothingToAnswer)?;
            let effects =
                Effects::new(self.repo.clone(), self.branch.clone(), commit.id(), self.lease)?;
            return Ok((commit, Arc::new(effects)));
        }
        let mut txn = Txn::new(&self.repo)?;
        txn.expect(&self.branch, Some(RefTarget::Commit(head))).await?;
        let commit = txn.add(&self.branch, &Request::Append(draft)).await?;
        let effects =
            Effects::new(self.repo.clone(), self.branch.clone(), commit.id(), self.lease)?;
        let marker = effects.put_in(&mut txn)?;
        match txn.apply("commit", &WriteOptions::default()).await? {
            Applied::Done | Applied::Already => {}
            Applied::Conflict(conflict) => {
                return Err(tract_engine::Error::from(conflict).into());
            }
            Applied::Moved(_) => {
                return Err(tract_engine::Error::KeptMoving { attempts: 1 }.into());
            }
        }
        effects.begun(marker);
        Ok((commit, Arc::new(effects)))
    }

    /// Returns the calls of a reply, or of the message by which a hook replaced it.
    async fn calls_of(&self, reply: &Reply, commit: &Commit) -> Result<Calls> {
        let (calls, tool_calls): (Vec<Call>, Vec<ToolCall>) = match commit.origin.by {
            AuthorKind::Hook => {
                let content = self.repo.content_of(commit.id()).await?;
                ((&content).into_calls(), content.calls().cloned().collect())
            }
            _ => (reply.into_calls(), reply.calls().cloned().collect()),
        };
        let calls = tool_calls.into_iter().zip(calls.into_iter().map(CallStep::Run));
        let each = (0..).zip(calls).map(|(index, (call, then))| (index, call, then)).collect();
        let provider = reply.form.as_deref().and_then(|form| form.split('-').next());
        let served =
            reply.model.as_deref().map(|model| ReplySource::new(provider.unwrap_or(""), model));
        Ok(Calls { each, served, ..Calls::default() })
    }

    /// Records the part of an answer that arrived before it broke off.
    async fn no_answer(&self, error: ModelError) -> Result<TurnDone> {
        let mut recorded = None;
        if let ModelError::BrokenOff { cause, partial } = &error {
            let note = broken_off(cause, partial, self.parameters.as_ref())?;
            recorded = Some(self.repo.write_one(&self.branch, note).await?.id());
        }
        if self.cancellation.is_cancelled() {
            Ok(TurnDone::new(TurnEnd::Cancelled))
        } else {
            Err(RunError::Model { error, recorded })
        }
    }
}

/// Estimated number of bytes per token, used if the provider does not report tokens.
const BYTES_PER_TOKEN: usize = 4;

/// Returns the usage of a reply, with an estimate for each count that the provider does not report,
/// and the number of estimated tokens. Without an estimate such a reply would not count against the
/// budget.
fn counted_usage(reply: &Reply, compiled: &Compiled) -> (Usage, u64) {
    let reported = reply.usage.unwrap_or_default();
    let is_reported = |tokens: &u64| *tokens > 0;
    let (mut usage, mut estimated) = (reported, 0);
    if reported.input_tokens.filter(is_reported).is_none() {
        let tokens = compiled.token_count().count;
        usage.input_tokens = Some(tokens);
        estimated += tokens;
    }
    if reported.output_tokens.filter(is_reported).is_none() {
        let calls = reply.calls().map(|call| call.name.len() + call.arguments.len());
        let bytes = reply.text().len() + calls.sum::<usize>();
        let tokens = bytes.div_ceil(BYTES_PER_TOKEN) as u64;
        usage.output_tokens = Some(tokens);
        estimated += tokens;
    }
    (usage, estimated)
}
