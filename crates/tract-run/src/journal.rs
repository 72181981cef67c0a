//! The notes on a branch that mark calls as started or as waiting for a decision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tract_compile::History;
use tract_core::{
    AuthorKind, Commit, CommitId, Content, JsonText, Op, Origin, RefName, ToolTraits,
};
use tract_engine::Repo;
use tract_engine::plan::{Details, Request};
use tract_tools::dispatch::{CallKey, CallStart, Journal, Recorded, Start};
use tract_tools::snapshot::BoxError;

use crate::effects::{ERASED_ANSWER, Effects, erased_answer};
use crate::error::Result;

/// The origin of notes that mark calls as started.
const STARTED: &str = "run/started";
/// The origin of notes that list the deferred calls by the key of their effect.
const DEFERRED: &str = "run/deferred";

#[derive(Serialize, Deserialize)]
struct Marks {
    calls: Vec<Mark>,
}

/// A call and the key of its effect.
#[derive(Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) call_id: String,
    pub(crate) tool: String,
    pub(crate) key: CallKey,
}

fn note(origin: &str, message: &str, calls: Vec<Mark>) -> serde_json::Result<Request> {
    let names = calls.iter().map(|call| format!("{} ({})", call.tool, call.call_id));
    let names = names.collect::<Vec<_>>().join(", ");
    let details = Details {
        message: Some(format!("{message} {names}")),
        origin: Origin { id: Some(origin.to_owned()), ..AuthorKind::Tool.into() },
        ..Details::default()
    };
    Ok(Request::Note { content: Some(JsonText::of(&Marks { calls })?), details })
}

/// Makes the note that lists the deferred calls.
pub(crate) fn deferred(calls: Vec<Mark>) -> serde_json::Result<Request> {
    note(DEFERRED, "waiting for approval of", calls)
}

/// The outcomes of a message's calls on other branches that contain the message.
#[derive(Clone, Debug, Default)]
pub(crate) struct OtherBranches {
    /// The answers of tools, by the key of the effect.
    recorded: BTreeMap<CallKey, Recorded>,
    /// Calls that were marked as started somewhere.
    started: BTreeSet<String>,
    /// The same by the ids of the calls.
    answered: BTreeMap<String, Recorded>,
    /// Placeholders for answers that were erased. They win over copies of the answers elsewhere.
    erased: BTreeMap<String, Recorded>,
}

impl OtherBranches {
    /// Reads all other branches that contain the message, including those that have compressed it.
    pub(crate) async fn of(repo: &Repo, branch: &RefName, message: CommitId) -> Result<Self> {
        let mut elsewhere = Self::default();
        for other in repo.branches().await? {
            if branch.branch_name() == Some(other.name.as_str()) {
                continue;
            }
            let history = repo.fold(Some(other.head)).await?;
            let since = HistoryTail::walked(repo, other.head, message).await?;
            if since.reached || history.view().contains(message) {
                elsewhere.take(repo, &history, &since, message).await?;
            }
        }
        Ok(elsewhere)
    }

    async fn take(
        &mut self,
        repo: &Repo,
        history: &History,
        since: &HistoryTail,
        message: CommitId,
    ) -> Result<()> {
        let marked = Marked::of(repo, since).await?;
        let shown = history.view().rows();
        let shown = shown.filter(|row| row.answers.is_some_and(|call| call.slot == message));
        let shown: BTreeMap<CommitId, CommitId> =
            shown.map(|row| (row.slot, row.version)).collect();
        let answers: BTreeSet<CommitId> = shown.keys().chain(&since.answers).copied().collect();
        for slot in answers {
            let commit = repo.require_commit(slot).await?;
            let version = shown.get(&slot).copied().unwrap_or(slot);
            let Some((call_id, recorded)) = self.answer_of(repo, slot, version, &commit).await?
            else {
                continue;
            };
            if may_have_run(&commit) {
                self.started.insert(call_id);
                continue;
            }
            let started = || marked.started.get(&call_id).copied();
            if let Some(key) = key_of(&commit).or_else(started) {
                self.recorded.insert(key, recorded.clone());
                self.answered.insert(call_id, recorded);
            }
        }
        self.started.extend(marked.started.into_keys());
        Ok(())
    }

    /// Reads the call that a commit answers, and the tool's own answer, before a handler changed or
    /// refused it.
    async fn answer_of(
        &mut self,
        repo: &Repo,
        slot: CommitId,
        version: CommitId,
        commit: &Commit,
    ) -> Result<Option<(String, Recorded)>> {
        // The bytes of an erased message remain stored if another message has the same content, so
        // the edit that erased it is checked first.
        let edited = match version == slot {
            true => None,
            false => match repo.content_of(version).await {
                Err(error) if erased_answer(&error).is_none() => return Err(error.into()),
                content => content.ok(),
            },
        };
        if let Some(now) = edited.filter(tract_engine::is_erased) {
            let Some(call_id) = call_id_of(commit) else { return Ok(None) };
            let recorded = Recorded::new(format!("{} {ERASED_ANSWER}", now.text()));
            self.erased.insert(call_id.clone(), recorded.clone());
            return Ok(Some((call_id, recorded)));
        }
        let content = match repo.original_of(slot).await {
            Ok(None) => repo.content_of(slot).await,
            Ok(Some(original)) => Ok(original),
            Err(error) => Err(error),
        };
        let error = match content {
            Ok(Content::ToolResult(answer)) => {
                let text = Content::ToolResult(answer.clone()).text();
                let recorded = Recorded { is_error: answer.is_error, ..Recorded::new(text) };
                return Ok(Some((answer.call_id, recorded)));
            }
            Ok(_) => return Ok(None),
            Err(error) => error,
        };
        let Some(recorded) = erased_answer(&error) else { return Err(error.into()) };
        let Some(call_id) = call_id_of(commit) else { return Ok(None) };
        self.erased.insert(call_id.clone(), recorded.clone());
        Ok(Some((call_id, recorded)))
    }

    /// Returns the placeholder for the answer to a call, where the answer was erased.
    pub(crate) fn erased(&self, call_id: &str) -> Option<&Recorded> {
        self.erased.get(call_id)
    }

    /// Returns whether a call was started on another branch and its outcome is unknown.
    pub(crate) fn is_unanswered(&self, call_id: &str) -> bool {
        self.started.contains(call_id) && !self.answered.contains_key(call_id)
    }

    /// Returns the answer that a tool gave to a call.
    pub(crate) fn answer(&self, call_id: &str) -> Option<&Recorded> {
        self.answered.get(call_id)
    }
}

/// Returns the provider's id of the call that a commit answers, from its origin.
fn call_id_of(commit: &Commit) -> Option<String> {
    #[derive(Deserialize)]
    struct Detail {
        call_id: String,
    }
    let detail: Detail = serde_json::from_str(commit.origin.detail.as_ref()?.as_str()).ok()?;
    Some(detail.call_id)
}

/// Returns the key of the effect of the call that a commit answers, from its origin. `None` if a
/// handler decided on the answer.
fn key_of(commit: &Commit) -> Option<CallKey> {
    #[derive(Deserialize)]
    struct Detail {
        idempotency_key: Option<CallKey>,
        attempts: Option<u32>,
        #[serde(default)]
        replayed: bool,
    }
    let detail: Detail = serde_json::from_str(commit.origin.detail.as_ref()?.as_str()).ok()?;
    let happened = detail.replayed || detail.attempts.unwrap_or(0) > 0;
    detail.idempotency_key.filter(|_| happened)
}

/// Returns whether a commit answers a call whose tool was started and gave no answer itself. Older
/// versions did not record this, so the outcome is examined as well.
fn may_have_run(commit: &Commit) -> bool {
    #[derive(Deserialize)]
    struct Detail {
        #[serde(default)]
        outcome_unknown: bool,
        #[serde(default)]
        outcome: String,
        #[serde(default)]
        traits: ToolTraits,
        #[serde(default)]
        attempts: u32,
    }
    let detail = commit.origin.detail.as_ref();
    let detail = detail.and_then(|detail| serde_json::from_str::<Detail>(detail.as_str()).ok());
    detail.is_some_and(|detail| {
        let ended = matches!(&*detail.outcome, "cancelled" | "timed_out" | "panicked");
        detail.outcome_unknown || ended && detail.attempts > 0 && !detail.traits.read_only
    })
}

/// Claims the effects of calls, each with a note on the branch in the same durable write. It also
/// includes answers from other branches, which older stores and imports have without a claim.
pub(crate) struct BranchJournal {
    pub(crate) effects: Arc<Effects>,
    pub(crate) elsewhere: OtherBranches,
    /// For each dispatched call, its position in the message.
    pub(crate) indices: Vec<u32>,
}

impl BranchJournal {
    fn index(&self, call: &CallStart) -> Result<u32, BoxError> {
        let index = self.indices.get(call.place).copied();
        index.ok_or_else(|| format!("call {:?} is of no message", call.call_id).into())
    }
}

#[async_trait]
impl Journal for BranchJournal {
    async fn start(&self, call: &CallStart) -> Result<Start, BoxError> {
        let mark =
            Mark { call_id: call.call_id.clone(), tool: call.tool_name.clone(), key: call.key };
        let note = note(STARTED, "start of", vec![mark])?;
        Ok(self.effects.start(self.index(call)?, call, &note).await?)
    }

    async fn finish(&self, call: &CallStart, answer: &Recorded) -> Result<(), BoxError> {
        self.effects.finish(self.index(call)?, answer);
        Ok(())
    }

    async fn unanswered(&self, call: &CallStart) -> Result<(), BoxError> {
        self.effects.give_up(self.index(call)?);
        Ok(())
    }

    async fn recorded(&self, key: &CallKey) -> Result<Option<Recorded>, BoxError> {
        Ok(self.elsewhere.recorded.get(key).cloned())
    }
}

/// The commits of a history since a message, before any of them is read.
#[derive(Debug, Default)]
struct HistoryTail {
    /// Notes of a tool, newest first.
    notes: Vec<Commit>,
    /// Answers to the calls of the message, whether they are still shown or not.
    answers: Vec<CommitId>,
    /// The message is on the line.
    reached: bool,
}

impl HistoryTail {
    /// Walks between a head and a message.
    async fn walked(repo: &Repo, head: CommitId, message: CommitId) -> Result<Self> {
        let mut since = Self { reached: head == message, ..Self::default() };
        let mut history = repo.history(head).until(message);
        while let Some(commit) = history.next().await? {
            since.reached |= commit.parent() == Some(message);
            match commit.op {
                Op::Append { answers: Some(call), .. } if call.slot == message => {
                    since.answers.push(commit.id());
                }
                Op::Note if commit.origin.by == AuthorKind::Tool => since.notes.push(commit),
                _ => {}
            }
        }
        Ok(since)
    }
}

/// The start markers and deferrals of a history since a message.
#[derive(Debug, Default)]
pub(crate) struct Marked {
    /// Calls that have started.
    pub(crate) started: BTreeMap<String, CallKey>,
    /// Calls that wait, or waited, for a decision.
    pub(crate) deferred: BTreeMap<String, CallKey>,
}

impl Marked {
    /// Reads the marks between a head and a message.
    pub(crate) async fn since(repo: &Repo, head: CommitId, message: CommitId) -> Result<Self> {
        Self::of(repo, &HistoryTail::walked(repo, head, message).await?).await
    }

    async fn of(repo: &Repo, since: &HistoryTail) -> Result<Self> {
        let mut marked = Self::default();
        for note in &since.notes {
            marked.take(repo, note).await?;
        }
        Ok(marked)
    }

    async fn take(&mut self, repo: &Repo, commit: &Commit) -> Result<()> {
        let into = match commit.origin.id.as_deref() {
            Some(STARTED) => &mut self.started,
            Some(DEFERRED) => &mut self.deferred,
            _ => return Ok(()),
        };
        let content = repo.content_of(commit.id()).await?;
        let marks: Marks = crate::session::read(&content, "marks of calls", commit.id())?;
        for mark in marks.calls {
            // Notes are read newest first, so the first entry is the current one.
            into.entry(mark.call_id).or_insert(mark.key);
        }
        Ok(())
    }
}
