//! Writes the results of a turn together. A call whose result is rejected still gets an answer.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use tract_core::{
    AuthorKind, Blob, BoundCall, Commit, CommitId, Content, Draft, RefName, ToolCall,
};
use tract_hooks::DecisionRecord;

use super::error_result;
use crate::plan::{Refusal, Request};
use crate::repo::Repo;
use crate::repo::error::{DeferredOperation, Error, Rejected, Result};
use crate::write::hooks::{NotWritten, WriteTarget};
use crate::write::pending::{Document, Pending, PendingRequest};
use crate::write::races::Attempts;
use crate::write::txn::{Txn, WriteOptions};

/// The outcome of one result of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnAnswer {
    /// It was committed, unchanged or changed.
    Committed(Commit),
    /// It was rejected. The call is answered by an error with the reason.
    Rejected {
        /// The answer.
        commit: Commit,
        /// The handler, the reason and the original.
        rejected: Box<Rejected>,
    },
    /// It is pending, and the call is still open.
    Deferred(DeferredOperation),
    /// The call already had a real answer, not one made up by a run. The answer is kept and the
    /// result dropped.
    Answered {
        /// The answer that is kept.
        by: CommitId,
    },
}

/// Additional objects for the batch of a turn. It is called again for each retry of the write.
#[async_trait]
pub trait BatchAttachment: fmt::Debug + Send + Sync {
    /// Adds it to a write.
    ///
    /// # Errors
    /// When it cannot be added; nothing of the turn is written then.
    async fn add_to(&self, txn: &mut Txn<'_>) -> Result<()>;
}

/// The outcome of a turn, to be stored in one durable write.
#[derive(Clone, Debug, Default)]
pub struct TurnRecord {
    /// The results, in order. Handlers are asked about each.
    pub results: Vec<Draft>,
    /// Calls that need approval before they run.
    pub deferred: Vec<DeferredCall>,
    /// Further requests to write with them, such as the state of tools. Handlers are not asked.
    pub also: Vec<Request>,
    /// Objects other than commits to write with them, such as claims on effects.
    pub alongside: Option<Arc<dyn BatchAttachment>>,
}

/// A call that needs approval before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredCall {
    /// The call.
    pub call: ToolCall,
    /// The message with the call.
    pub commit: CommitId,
    /// The handler or policy that deferred it.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// Its position among the calls of the message, from 0.
    pub index: u32,
    /// The exact call that runs once it is approved.
    pub bound: BoundCall,
}

/// The objects that were written for a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnRecorded {
    /// The outcome of each result.
    pub answers: Vec<TurnAnswer>,
    /// The new pending approvals.
    pub pending: Vec<Pending>,
    /// The commits of the further requests.
    pub also: Vec<Commit>,
}

/// The write of one result, after handlers were asked.
enum ResultWrite {
    Request(Box<Request>, Option<(Box<Rejected>, Document)>),
    Deferred(DeferredOperation, Document),
}

impl Repo {
    /// Records the results of a turn: all in one durable write, or none. Handlers are asked once
    /// about each; a rejected result does not leave its call without an answer.
    ///
    /// # Errors
    /// As [`write`](Self::write); a message of another kind than a tool result is refused.
    pub async fn answer_turn(
        &self,
        branch: &RefName,
        results: Vec<Draft>,
    ) -> Result<Vec<TurnAnswer>> {
        let record = TurnRecord { results, ..TurnRecord::default() };
        Ok(self.record_turn(branch, &record).await?.answers)
    }

    /// Records the outcome of a turn: all in one durable write, or none. Handlers are asked once
    /// about each result; a rejected result does not leave its call without an answer.
    ///
    /// A result may arrive late, after a later run answered its call as interrupted or not
    /// executed. That answer is then reverted and replaced by the result. Any other answer is kept.
    ///
    /// # Errors
    /// As [`write`](Self::write); a message of another kind than a tool result is refused.
    pub async fn record_turn(&self, branch: &RefName, turn: &TurnRecord) -> Result<TurnRecorded> {
        let results = &turn.results;
        let (mut pending, mut documents) = (Vec::new(), Vec::new());
        if !turn.deferred.is_empty() {
            let place = WriteTarget::new(self, branch, self.head_of(branch).await?);
            for deferred in &turn.deferred {
                let (call, commit) = (deferred.call.clone(), Some(deferred.commit));
                let (index, bound) = (Some(deferred.index), Some(Box::new(deferred.bound.clone())));
                let pending_request = PendingRequest::Call { call, commit, index, bound };
                let (waits, document) = place.pending(
                    "p",
                    pending_request,
                    "before_dispatch",
                    &deferred.by,
                    deferred.reason.clone(),
                )?;
                pending.push(waits);
                documents.push(document);
            }
        }
        // The decisions of the hooks about each result, kept over lost races. Hooks may ask a
        // person or summarize, so they are asked once, while the plan is made again on every new
        // head.
        let mut settled: Vec<Option<ResultWrite>> = results.iter().map(|_| None).collect();
        let (mut races, mut attempts) = (self.races(), Attempts::new(self));
        loop {
            let mut txn = Txn::new(self)?;
            let planned = async {
                let mut answers = Vec::with_capacity(results.len());
                for (draft, settled) in results.iter().zip(&mut settled) {
                    answers.push(self.add_result(&mut txn, branch, draft, settled).await?);
                }
                for document in &documents {
                    txn.add_document(document)?;
                }
                if let Some(alongside) = &turn.alongside {
                    alongside.add_to(&mut txn).await?;
                }
                let mut also = Vec::with_capacity(turn.also.len());
                for request in &turn.also {
                    also.push(txn.add_decided(branch, request).await?);
                }
                Ok::<_, Error>((answers, also))
            };
            let (answers, also) = match planned.await {
                Ok(planned) => planned,
                // The branch may have moved since it was read, and its commits may be collected.
                Err(error) => {
                    attempts.again(error).await?;
                    continue;
                }
            };
            if races.won(txn.apply("commit", &WriteOptions::default()).await?).await? {
                return Ok(TurnRecorded { answers, pending, also });
            }
        }
    }

    /// Adds one result to a write. Asks the handlers unless that is settled.
    async fn add_result(
        &self,
        txn: &mut Txn<'_>,
        branch: &RefName,
        draft: &Draft,
        settled: &mut Option<ResultWrite>,
    ) -> Result<TurnAnswer> {
        let known = if let Some(known) = settled.take() {
            known
        } else {
            let request = Request::Append(draft.clone());
            let mut ruled = txn.rule(branch, &request).await;
            if let Err(NotWritten::Failed(error)) = ruled {
                if let Some(by) = self.kept_answer(txn, branch, error).await? {
                    return Ok(TurnAnswer::Answered { by });
                }
                // The call is open again within this transaction, so the hooks get to see the
                // result.
                ruled = txn.rule(branch, &request).await;
            }
            match ruled {
                Ok(instead) => {
                    ResultWrite::Request(instead.unwrap_or_else(|| Box::new(request)), None)
                }
                Err(NotWritten::Rejected(rejected, document)) => {
                    let answer = Request::Append(answer_to(draft, &rejected, self.now_us())?);
                    ResultWrite::Request(Box::new(answer), Some((rejected, document)))
                }
                Err(NotWritten::Deferred(deferred, document)) => {
                    ResultWrite::Deferred(*deferred, document)
                }
                Err(NotWritten::Failed(error)) => return Err(error),
            }
        };
        let (request, rejected) = match settled.insert(known) {
            ResultWrite::Request(request, rejected) => (request, rejected),
            ResultWrite::Deferred(deferred, document) => {
                txn.add_document(document)?;
                return Ok(TurnAnswer::Deferred(deferred.clone()));
            }
        };
        let commit = match txn.add_decided(branch, request).await {
            Err(error) => {
                if let Some(by) = self.kept_answer(txn, branch, error).await? {
                    return Ok(TurnAnswer::Answered { by });
                }
                txn.add_decided(branch, request).await?
            }
            Ok(commit) => commit,
        };
        Ok(match rejected {
            Some((rejected, document)) => {
                txn.add_document(document)?;
                TurnAnswer::Rejected { commit, rejected: rejected.clone() }
            }
            None => TurnAnswer::Committed(commit),
        })
    }

    /// Reverts the existing answer for which a result was refused, if a run made it up: that run
    /// found the call open and its process gone, or wrongly assumed so. Returns any other answer,
    /// which is kept.
    async fn kept_answer(
        &self,
        txn: &mut Txn<'_>,
        branch: &RefName,
        refused: Error,
    ) -> Result<Option<CommitId>> {
        let Error::Refused(Refusal::AlreadyAnswered { by, .. }) = refused else {
            return Err(refused);
        };
        if !self.commit(by).await?.is_some_and(|answer| is_made_up(&answer)) {
            return Ok(Some(by));
        }
        match txn.add_decided(branch, &Request::revert([by])).await {
            Ok(_) => Ok(None),
            // It was changed or summarized since.
            Err(Error::Refused(_)) => Ok(Some(by)),
            Err(error) => Err(error),
        }
    }
}

/// Returns whether a commit is a made-up answer: its origin shows that no tool gave it.
fn is_made_up(answer: &Commit) -> bool {
    #[derive(Deserialize)]
    struct Detail {
        outcome: String,
        // Answers that dispatch gives itself record the origin of the arguments.
        provenance: Option<serde::de::IgnoredAny>,
    }
    let detail = answer.origin.detail.as_ref().filter(|_| answer.origin.by == AuthorKind::Tool);
    let detail = detail.and_then(|detail| serde_json::from_str::<Detail>(detail.as_str()).ok());
    detail.is_some_and(|detail| match detail.outcome.as_str() {
        "interrupted" => true,
        "not_executed" => detail.provenance.is_none(),
        _ => false,
    })
}

fn answer_to(draft: &Draft, rejected: &Rejected, at_us: i64) -> Result<Draft> {
    let (call_id, name) = match &draft.content {
        Content::ToolResult(answer) => (answer.call_id.clone(), answer.name.clone()),
        _ => (String::new(), None),
    };
    let original = Blob::seal(draft.content.to_blob()?);
    let mut record = DecisionRecord::new(&rejected.event, "reject", at_us);
    record.handler = Some(rejected.handler.clone());
    record.reason = Some(rejected.reason.clone());
    Ok(error_result(call_id, name, &rejected.reason, Some(original), record))
}
