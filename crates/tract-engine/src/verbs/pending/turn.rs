//! The results of a turn, written together: a call whose result is rejected is answered all the
//! same.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use tract_core::{
    AuthorKind, Blob, BoundCall, Commit, CommitId, Content, Draft, RefName, ToolCall,
};
use tract_hooks::DecisionRecord;

use super::decide::error_result;
use super::{Document, NotWritten, Pending, PendingRequest, WriteTarget};
use crate::plan::{Refusal, Request};
use crate::repo::Repo;
use crate::repo::error::{DeferredOperation, Error, Rejected, Result};
use crate::write::txn::{Txn, WriteOptions};

/// What became of one result of a turn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TurnAnswer {
    /// It was committed, as it came or changed.
    Committed(Commit),
    /// It was rejected; the call is answered by an error with the reason.
    Rejected {
        /// The answer.
        commit: Commit,
        /// Who rejected it, why, and what it was.
        rejected: Box<Rejected>,
    },
    /// It waits to be decided; the call is still open.
    Deferred(DeferredOperation),
    /// The call had an answer already, and no run had made that up: it is kept, and the result is
    /// left out.
    Answered {
        /// The answer that is kept.
        by: CommitId,
    },
}

/// What is written in the batch of a turn, in addition to its commits. It is asked again for each
/// attempt of a write that loses races.
#[async_trait]
pub trait BatchAttachment: fmt::Debug + Send + Sync {
    /// Adds it to a write.
    ///
    /// # Errors
    /// When it cannot be added; nothing of the turn is written then.
    async fn add_to(&self, txn: &mut Txn<'_>) -> Result<()>;
}

/// What came of a turn: all of it is one durable write.
#[derive(Clone, Debug, Default)]
pub struct TurnRecord {
    /// The results, in order. Handlers are asked about each.
    pub results: Vec<Draft>,
    /// Calls that wait for a decision whether they may run.
    pub deferred: Vec<DeferredCall>,
    /// What is written with them, such as the state of tools. Handlers are not asked.
    pub also: Vec<Request>,
    /// What is no commit and is written with them, such as the claims on effects.
    pub alongside: Option<Arc<dyn BatchAttachment>>,
}

/// A call that waits for a decision whether it may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredCall {
    /// The call.
    pub call: ToolCall,
    /// The message that asks for it.
    pub commit: CommitId,
    /// Who deferred it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Its place among the calls of the message, from 0.
    pub index: u32,
    /// What exactly runs once it is approved.
    pub bound: BoundCall,
}

/// What was written of a turn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TurnRecorded {
    /// What became of each result.
    pub answers: Vec<TurnAnswer>,
    /// The calls that wait now.
    pub pending: Vec<Pending>,
    /// The commits of what was written with them.
    pub also: Vec<Commit>,
}

/// How one result is written, once it was asked about.
enum ResultWrite {
    Request(Box<Request>, Option<(Box<Rejected>, Document)>),
    Deferred(DeferredOperation, Document),
}

impl Repo {
    /// Records the results of a turn: all in one durable write, or none. Handlers are asked about
    /// each once; one that rejects a result leaves no call without an answer.
    ///
    /// # Errors
    /// As [`write`](Self::write); a message that is no result is refused by its kind.
    pub async fn answer_turn(
        &self,
        branch: &RefName,
        results: Vec<Draft>,
    ) -> Result<Vec<TurnAnswer>> {
        let record = TurnRecord { results, ..TurnRecord::default() };
        Ok(self.record_turn(branch, &record).await?.answers)
    }

    /// Records what came of a turn: all in one durable write, or none. Handlers are asked about
    /// each result once; one that rejects a result leaves no call without an answer.
    ///
    /// A result may come late, for a call that a later run answered as interrupted or not executed:
    /// that answer is reverted, and the result takes its place. Any other answer is kept.
    ///
    /// # Errors
    /// As [`write`](Self::write); a message that is no result is refused by its kind.
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
        let mut settled: Vec<Option<ResultWrite>> = results.iter().map(|_| None).collect();
        let mut races = self.races();
        loop {
            let mut txn = Txn::new(self)?;
            let mut answers = Vec::with_capacity(results.len());
            for (draft, settled) in results.iter().zip(&mut settled) {
                answers.push(self.add_result(&mut txn, branch, draft, settled).await?);
            }
            for document in &documents {
                document.add_to(&mut txn)?;
            }
            if let Some(alongside) = &turn.alongside {
                alongside.add_to(&mut txn).await?;
            }
            let mut also = Vec::with_capacity(turn.also.len());
            for request in &turn.also {
                also.push(txn.add_decided(branch, request).await?);
            }
            if races.won(txn.apply("commit", &WriteOptions::default()).await?).await? {
                return Ok(TurnRecorded { answers, pending, also });
            }
        }
    }

    /// Adds one result to a write. Handlers are asked where that is not settled yet.
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
                document.add_to(txn)?;
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
                document.add_to(txn)?;
                TurnAnswer::Rejected { commit, rejected: rejected.clone() }
            }
            None => TurnAnswer::Committed(commit),
        })
    }

    /// Reverts the answer for which a result was refused, where no tool gave it: a run had found the
    /// call open and its own process ended, or taken for that. Returns any other answer: it is kept.
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

/// Whether a commit answers a call that no tool answered, as its origin says.
fn is_made_up(answer: &Commit) -> bool {
    #[derive(Deserialize)]
    struct Detail {
        outcome: String,
        // What dispatch answers by itself says where the arguments come from.
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
