//! The loop of a run: takes turns until there is a reason to stop, from any state of the branch.

use std::sync::PoisonError;

use tract_compile::Compiled;
use tract_core::telemetry::{agent_run, names};
use tract_core::{CommitId, Content, Draft, StopReason, Usage};
use tract_engine::{Operation, unanswered};
use tract_tools::policy::PastCalls;
use tract_tools::session::SessionHold;

use crate::agent::Agent;
use crate::error::{Result, RunError};
use crate::message::IntoMessage;
use crate::position::Position;
use crate::progress::{Progress, Stop};
use crate::session::{ELSEWHERE, Stored};
use crate::telemetry::say_end;
use crate::turn::{TurnDone, TurnEnd};

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The reason why it stopped.
    pub stop: Stop,
    /// The last answer of the model.
    pub text: String,
    /// The number of requests to the model.
    pub steps: u32,
    /// The number of answered calls.
    pub calls: u32,
    /// The token usage of the model's answers, as far as it was reported.
    pub usage: Usage,
    /// Tokens estimated for the budget, because the provider does not report them. They are not
    /// included in [`usage`](Self::usage).
    pub estimated_tokens: u64,
    /// The head of the branch.
    pub head: Option<CommitId>,
    /// The pending approvals, by name.
    pub pending: Vec<String>,
    /// The provider's stop reason of the last reply, if tract does not know it. Such a reply counts
    /// as complete.
    pub unknown_stop_reason: Option<String>,
}

impl Agent {
    /// Takes turns until there is a reason to stop. The message, a text of the user or a [`Draft`],
    /// is committed first. With `None` the run continues from the head of the branch.
    ///
    /// # Behavior
    /// - Everything is committed to the branch: the message, the instructions and tools if they
    ///   changed, each reply, and the answers of each turn, in one durable write with the state of
    ///   the tools.
    /// - Calls that an earlier process left open are answered first: those that had started as
    ///   interrupted, those that were approved by running them, others according to
    ///   [`on_resume`](Self::on_resume).
    /// - All its writes are one operation. One undo reverts them, but not the effects of tools.
    /// - One run at a time works on a [`Session`](tract_tools::Session). Another run, on this
    ///   branch or another, waits up to [`wait_for_others`](Self::wait_for_others).
    /// - When it is cancelled, it answers every requested call, commits that, and stops.
    ///
    /// # Errors
    /// [`RunError::Model`] if the model does not answer, [`RunError::Session`] if another run holds
    /// the session, [`RunError::CallsWait`] if a message is to be recorded while earlier calls
    /// wait, and errors of the store, planners and hooks. Committed work stays, and another run
    /// continues from there.
    pub async fn run(&self, message: impl IntoMessage) -> Result<Report> {
        let message = message.into_message();
        let (_hold, agent) = self.begin().await?;
        let span = agent_run(self.repo.name(), &self.branch);
        let done = span.instrument(agent.run_operation(message)).await;
        say_end(&span, &done, |report| {
            span.set(names::TRACT_STOP, report.stop.code());
            (report.head, report.steps, report.calls.into(), report.usage)
        });
        done
    }

    /// Waits until no other run works on the session, because both would write its state. Returns
    /// this agent, bound to one operation, so that a run or a turn can be undone as a whole.
    async fn begin(&self) -> Result<(SessionHold, Self)> {
        let by = format!("a run on {}", self.branch.as_str());
        let hold = self.session.hold(by, Some(self.patience), &self.cancellation).await?;
        // One operation for all turns of the run, so that one undo reverts it.
        let repo = match self.repo.operation() {
            Some(_) => self.repo.clone(),
            None => self.repo.within(Operation::begin()?),
        };
        let agent = Self { repo, session: hold.session().clone(), ..self.clone() };
        Ok((hold, agent))
    }

    async fn run_operation(&self, message: Option<Draft>) -> Result<Report> {
        let mut stored = self.load().await?;
        let mut report = Report {
            stop: Stop::Answered,
            text: String::new(),
            steps: 0,
            calls: 0,
            usage: Usage::new(0, 0),
            estimated_tokens: 0,
            head: None,
            pending: Vec::new(),
            unknown_stop_reason: None,
        };
        let stop = self.take_turns(&mut stored, message, &mut report).await;
        // Also after an error: the turns before it are recorded, and the session has their state.
        report.head = self.repo.head_of(&self.branch).await?;
        if let Some(head) = report.head {
            self.leave(head, stored);
        }
        report.stop = stop?;
        self.tell(&Progress::Stopped(&report.stop));
        Ok(report)
    }

    /// Takes one turn from the current state of the branch: answers open calls, or else asks the
    /// model.
    ///
    /// # Errors
    /// As [`run`](Self::run); [`RunError::NothingToAnswer`] if a person has to write next.
    pub async fn turn(&self) -> Result<TurnDone> {
        let (_hold, agent) = self.begin().await?;
        let span = agent_run(self.repo.name(), &self.branch);
        let done = span.instrument(agent.one_turn()).await;
        say_end(&span, &done, |turn| {
            let steps = u32::from(turn.reply.is_some());
            (turn.reply, steps, turn.answers.len() as u64, turn.usage.unwrap_or_default())
        });
        done
    }

    async fn one_turn(&self) -> Result<TurnDone> {
        let mut stored = self.load().await?;
        let take = async {
            let compiled = self.compile_head().await?;
            match self.settle_open(&mut stored, &compiled).await? {
                Some(done) => Ok(Some(done)),
                None => self.step(&mut stored, compiled, 1).await,
            }
        };
        let done = take.await;
        if let Some(head) = self.repo.head_of(&self.branch).await? {
            self.leave(head, stored);
        }
        done?.ok_or(RunError::NothingToAnswer)
    }

    /// Remembers the head and the stored state at which the agent leaves the branch and the
    /// session.
    fn leave(&self, head: CommitId, stored: Stored) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some((head, stored));
        self.session.set_position(head);
    }

    /// Sets the session to the state that the branch stores, and returns that state.
    async fn load(&self) -> Result<Stored> {
        self.read_pins().await?;
        let head = self.repo.head_of(&self.branch).await?;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Another agent may have set the session to the state of its own branch.
        let left = self.session.position();
        let left_by_this = left.is_none() || left == known.as_ref().map(|(head, _)| *head);
        let is_foreign = !left_by_this && left != head;
        if let (Some(head), Some((known, stored))) = (head, known)
            && head == known
            && !is_foreign
        {
            return Ok(stored);
        }
        *self.past.lock().unwrap_or_else(PoisonError::into_inner) =
            past_calls(&self.repo.compile(head).await?);
        let (stored, mut slices) = Stored::at(&self.repo, head).await?;
        if is_foreign || !slices.is_empty() {
            // Outcomes of calls are not stored with the session, so the known ones are kept.
            slices.extend(self.session.to_json()?.remove_entry(ELSEWHERE));
            self.session.from_json(&slices)?;
        }
        Ok(stored)
    }

    async fn take_turns(
        &self,
        stored: &mut Stored,
        message: Option<Draft>,
        report: &mut Report,
    ) -> Result<Stop> {
        if let Some(message) = message {
            let mut compiled = self.compile_head().await?;
            if let Some(done) = self.settle_open(stored, &compiled).await? {
                match self.after(&done, report) {
                    Some(Stop::Waiting) => {
                        return Err(RunError::CallsWait { pending: report.pending.clone() });
                    }
                    Some(stop) => return Ok(stop),
                    None => compiled = self.compile_head().await?,
                }
            }
            // After a failed request, the task is recorded already.
            let message = unanswered(&compiled, &message).is_none().then_some(message);
            self.say(stored, &compiled, message).await?;
        }
        loop {
            if self.cancellation.is_cancelled() {
                return Ok(Stop::Cancelled);
            }
            if let Some(Err(exceeded)) = self.budget.as_ref().map(|budget| budget.check()) {
                return Ok(Stop::Budget(exceeded));
            }
            let compiled = self.compile_head().await?;
            if let Some(done) = self.settle_open(stored, &compiled).await? {
                match self.after(&done, report) {
                    Some(stop) => return Ok(stop),
                    None => continue,
                }
            }
            // After the open calls: those of the last step must get their answers, or the history
            // ends with calls that no provider accepts.
            if let Some(most) = self.max_steps.filter(|most| report.steps >= *most) {
                return Ok(Stop::Steps(most));
            }
            let Some(done) = self.step(stored, compiled, report.steps + 1).await? else {
                let compiled = self.compile_head().await?;
                let reason = self.last_stop_reason(&compiled).await?;
                report.unknown_stop_reason = unknown(reason.as_deref());
                return Ok(stop_of(reason.as_deref()).unwrap_or(Stop::Answered));
            };
            if let Some(stop) = self.after(&done, report) {
                return Ok(stop);
            }
        }
    }

    /// Adds a turn to the report; returns the reason if it ends the run.
    fn after(&self, done: &TurnDone, report: &mut Report) -> Option<Stop> {
        if done.reply.is_some() {
            report.steps += 1;
            report.text.clone_from(&done.text);
            let reason = done.stop_reason.as_ref().map(StopReason::as_str);
            report.unknown_stop_reason = unknown(reason);
        }
        report.calls += u32::try_from(done.answers.len()).unwrap_or(u32::MAX);
        report.pending.clone_from(&done.pending);
        report.estimated_tokens = report.estimated_tokens.saturating_add(done.estimated_tokens);
        if let Some(usage) = done.usage {
            let sums = &mut report.usage;
            for (sum, more) in [
                (&mut sums.input_tokens, usage.input_tokens),
                (&mut sums.output_tokens, usage.output_tokens),
                (&mut sums.cached_tokens, usage.cached_tokens),
                (&mut sums.cache_write_tokens, usage.cache_write_tokens),
                (&mut sums.cache_write_1h_tokens, usage.cache_write_1h_tokens),
                (&mut sums.reasoning_tokens, usage.reasoning_tokens),
            ] {
                *sum = more.map(|more| sum.unwrap_or(0).saturating_add(more)).or(*sum);
            }
        }
        let ended = match &done.end {
            TurnEnd::Said => stop_of(done.stop_reason.as_ref().map(StopReason::as_str)),
            TurnEnd::Waiting => Some(Stop::Waiting),
            TurnEnd::Cancelled => Some(Stop::Cancelled),
            TurnEnd::Ended(error) => Some(Stop::Ended {
                code: error.code(),
                message: error.to_string(),
                notes: error.notes(),
            }),
            TurnEnd::Called => None,
        };
        // The turn's own reason takes precedence over a condition.
        let condition = || self.stop_if.iter().find_map(|condition| condition(done));
        ended.or_else(|| condition().map(Stop::Condition))
    }

    /// Compiles the current head of the branch.
    pub(crate) async fn compile_head(&self) -> Result<Compiled> {
        let head = self.repo.head_of(&self.branch).await?;
        Ok(self.repo.compile(head).await?)
    }

    /// Asks the model for a reply to the current branch, if no calls are open. Returns `None` if a
    /// person has to write next.
    async fn step(
        &self,
        stored: &mut Stored,
        mut compiled: Compiled,
        step: u32,
    ) -> Result<Option<TurnDone>> {
        match Position::of(&compiled) {
            Position::Nothing => return Err(RunError::NothingToAnswer),
            Position::Person => {
                let reason = self.last_stop_reason(&compiled).await?;
                if stop_of(reason.as_deref()).is_some() {
                    return Ok(None);
                }
            }
            Position::Model | Position::Calls(_) => {}
        }
        if self.say(stored, &compiled, None).await? {
            compiled = self.compile_head().await?;
        }
        self.ask(stored, &compiled, step).await.map(Some)
    }

    /// Reads the stop reason of the last message from its commit.
    async fn last_stop_reason(&self, compiled: &Compiled) -> Result<Option<String>> {
        let Some(position) = Position::last(compiled) else { return Ok(None) };
        let commit = self.repo.commit(position.commit).await?;
        let metadata = commit.and_then(|commit| commit.metadata.clone());
        let members = metadata
            .and_then(|metadata| serde_json::from_str::<serde_json::Value>(metadata.as_str()).ok());
        Ok(members.and_then(|members| members["stop_reason"].as_str().map(str::to_owned)))
    }
}

/// Returns the reason for stopping after a reply without calls; `None` if the model only paused and
/// continues once its reply is sent back.
fn stop_of(reason: Option<&str>) -> Option<Stop> {
    match reason {
        Some(PAUSED) => None,
        Some(reason) if reason == StopReason::MaxTokens.as_str() => Some(Stop::Truncated),
        Some(reason) if reason == StopReason::Refusal.as_str() => Some(Stop::Refused),
        _ => Some(Stop::Answered),
    }
}

/// Returns a stop reason that tract does not know. Servers of other vendors use their own names for
/// a complete reply, so such a reply is not refused.
fn unknown(reason: Option<&str>) -> Option<String> {
    let known = [
        StopReason::EndTurn,
        StopReason::ToolUse,
        StopReason::MaxTokens,
        StopReason::StopSequence,
        StopReason::Refusal,
    ];
    let is_unknown = |reason: &&str| {
        *reason != PAUSED && !reason.is_empty() && known.iter().all(|word| word.as_str() != *reason)
    };
    reason.filter(is_unknown).map(str::to_owned)
}

/// Anthropic's stop reason for a reply that its own tools interrupted. It has to be sent back
/// unchanged.
const PAUSED: &str = "pause_turn";

/// The calls of a context that succeeded.
fn past_calls(compiled: &Compiled) -> PastCalls {
    let mut past = PastCalls::new();
    for result in compiled.messages() {
        let Content::ToolResult(answer) = &result.content else { continue };
        let Some(call) = result.answers.filter(|_| !answer.is_error) else { continue };
        let index = usize::try_from(call.index).unwrap_or(usize::MAX);
        let message = compiled.message(call.slot);
        if let Some(call) = message.and_then(|message| message.content.calls().nth(index)) {
            past.push(&call.name, call.arguments.as_str());
        }
    }
    past
}
