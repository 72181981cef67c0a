//! The results of a turn, written together: a call whose result is rejected is answered all the
//! same.

use tract_core::{Applied, Blob, Commit, CommitId, Content, Draft, RefName, ToolCall};
use tract_hooks::DecisionRecord;

use super::decide::error_result;
use super::{Asked, Deferred, Document, Pending, Place, Rejected, Ruling};
use crate::error::Result;
use crate::plan::Request;
use crate::repo::Repo;
use crate::txn::Txn;
use crate::write::WriteOptions;

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
    Deferred(Deferred),
}

/// What came of a turn: all of it is one durable write.
#[derive(Clone, Debug, Default)]
pub struct TurnRecord {
    /// The results, in order. Handlers are asked about each.
    pub results: Vec<Draft>,
    /// Calls that wait until somebody has decided whether they may run.
    pub deferred: Vec<DeferredCall>,
    /// What is written beside them, such as the state of tools. Handlers are not asked.
    pub also: Vec<Request>,
}

/// A call that waits until somebody has decided whether it may run.
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
}

/// What was written of a turn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TurnRecorded {
    /// What became of each result.
    pub answers: Vec<TurnAnswer>,
    /// The calls that wait now.
    pub pending: Vec<Pending>,
    /// The commits of what was written beside them.
    pub also: Vec<Commit>,
}

/// How one result is written, once it was asked about.
enum Settled {
    Request(Box<Request>),
    Rejected(Box<Request>, Box<Rejected>, Document),
    Deferred(Deferred, Document),
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
    /// # Errors
    /// As [`write`](Self::write); a message that is no result is refused by its kind.
    pub async fn record_turn(&self, branch: &RefName, turn: &TurnRecord) -> Result<TurnRecorded> {
        let results = &turn.results;
        let (mut pending, mut documents) = (Vec::new(), Vec::new());
        if !turn.deferred.is_empty() {
            let place = Place::new(self, branch, self.head_of(branch).await?);
            for deferred in &turn.deferred {
                let (call, commit) = (deferred.call.clone(), Some(deferred.commit));
                let asked = Asked::Call { call, commit };
                let (waits, document) = place.pending(
                    asked,
                    "before_dispatch",
                    &deferred.by,
                    deferred.reason.clone(),
                )?;
                pending.push(waits);
                documents.push(document);
            }
        }
        let mut settled: Vec<Settled> = Vec::with_capacity(results.len());
        let mut races = self.races();
        loop {
            let mut txn = Txn::new(self)?;
            let mut answers = Vec::with_capacity(results.len());
            for (place, draft) in results.iter().enumerate() {
                if settled.len() <= place {
                    let request = Request::Append(draft.clone());
                    settled.push(match txn.rule(branch, &request).await? {
                        Ruling::AsAsked => Settled::Request(Box::new(request)),
                        Ruling::Instead(request) => Settled::Request(request),
                        Ruling::Rejected(rejected, document) => {
                            let answer = answer_to(draft, &rejected, self.now_us())?;
                            Settled::Rejected(Box::new(Request::Append(answer)), rejected, document)
                        }
                        Ruling::Deferred(deferred, document) => {
                            Settled::Deferred(deferred, document)
                        }
                    });
                }
                let Some(settled) = settled.get(place) else { break };
                answers.push(match settled {
                    Settled::Request(request) => {
                        TurnAnswer::Committed(txn.add_decided(branch, request).await?)
                    }
                    Settled::Rejected(request, rejected, document) => {
                        document.add_to(&mut txn)?;
                        let commit = txn.add_decided(branch, request).await?;
                        TurnAnswer::Rejected { commit, rejected: rejected.clone() }
                    }
                    Settled::Deferred(deferred, document) => {
                        document.add_to(&mut txn)?;
                        TurnAnswer::Deferred(deferred.clone())
                    }
                });
            }
            for document in &documents {
                document.add_to(&mut txn)?;
            }
            let mut also = Vec::with_capacity(turn.also.len());
            for request in &turn.also {
                also.push(txn.add_decided(branch, request).await?);
            }
            match txn.apply("commit", &WriteOptions::default()).await? {
                Applied::Done | Applied::Already => {
                    return Ok(TurnRecorded { answers, pending, also });
                }
                Applied::Conflict(_) => races.lose().await?,
            }
        }
    }
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
    record.before = Some(original.id().to_hex());
    Ok(error_result(call_id, name, &rejected.reason, Some(original), &record))
}
