//! Pending approvals: decisions on deferred operations, and results of a turn that are written
//! together. A call whose result is rejected still gets an answer.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use tract_core::{
    Applied, AuthorKind, Blob, BoundCall, Commit, CommitId, Content, Draft, Op, Origin, RefName,
    RefTarget, ToolCall,
};
use tract_hooks::{DecisionRecord, Hooks, Summarize};

use crate::plan::{
    History, Records, Refusal, Request, ResolveFn, Selection, edited_slot, plan, version_of,
    with_text,
};
use crate::repo::Repo;
use crate::repo::error::{DeferredOperation, Error, Rejected, Result};
use crate::verbs::merge::{MergeProgress, Merged, merge_in, merge_of, resolve_kept};
use crate::write::fetch::plan_with;
use crate::write::hooks::{NotWritten, WriteTarget, summary_of};
use crate::write::pending::{
    DECISIONS, Document, PENDING, Pending, PendingRequest, RecordedDecision, damaged, fresh_id,
    read_decided, read_pending, record_change,
};
use crate::write::races::Attempts;
use crate::write::requests::check_decided_edit;
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
    /// Reads the original of a changed message: the content that a handler replaced when it was
    /// committed, or the first version before any edit; `None` if the commit has no content, or its
    /// message is unchanged.
    ///
    /// # Errors
    /// When the store fails, or a blob is damaged.
    pub async fn original_of(&self, id: CommitId) -> Result<Option<Content>> {
        let commit = self.require_commit(id).await?;
        let Some(kind) = &commit.kind else { return Ok(None) };
        let first = match &commit.op {
            Op::Edit { .. } => {
                let slot = edited_slot(id, &self.changes(&commit).await?);
                let Some(slot) = slot else { return Ok(None) };
                // A slot is a name: its commit may not be stored.
                let Some(first) = self.commit(slot).await? else { return Ok(None) };
                first
            }
            _ => commit.clone(),
        };
        let original = first.keeps.first().copied();
        match original.filter(|_| first.origin.by == AuthorKind::Hook) {
            Some(original) => {
                let blob = self.require_blob(original).await?;
                let text = blob.text().ok_or(tract_core::ContentError::NotText)?;
                Ok(Some(Content::from_blob(kind, text)?))
            }
            None if first.id() == id => Ok(None),
            None => self.content_of(first.id()).await.map(Some),
        }
    }

    /// Lists the pending approvals, oldest first.
    ///
    /// # Errors
    /// When the store fails, or a document is damaged.
    pub async fn pending(&self) -> Result<Vec<Pending>> {
        let mut found = Vec::new();
        for (_, target) in self.store().list_refs(self.name(), PENDING).await? {
            found.push(read_pending(self, &target).await?);
        }
        found.sort_by(|a, b| (a.created_at_us, &a.id).cmp(&(b.created_at_us, &b.id)));
        Ok(found)
    }

    /// Reads a pending approval by its name or a prefix of it.
    ///
    /// # Errors
    /// [`Error::UnknownPending`]; [`Error::AlreadyDecided`] when it was decided before.
    pub async fn pending_operation(&self, id: &str) -> Result<Pending> {
        Ok(waiting(self, id).await?.1)
    }

    /// Lists the decisions that are stored as documents, oldest first: rejections, and decisions on
    /// pending approvals. All other decisions are recorded in the commits that they led to.
    ///
    /// # Errors
    /// When the store fails, or a document is damaged.
    pub async fn decisions(&self) -> Result<Vec<RecordedDecision>> {
        let mut found = Vec::new();
        for (_, target) in self.store().list_refs(self.name(), DECISIONS).await? {
            found.push(read_decided(self, &target).await?);
        }
        found.sort_by(|a, b| (a.record.at_us, &a.id).cmp(&(b.record.at_us, &b.id)));
        Ok(found)
    }

    /// Reads a decision that is stored as a document, with the original request.
    ///
    /// # Errors
    /// When the store fails, or the document is damaged.
    pub async fn decision(&self, id: &str) -> Result<Option<RecordedDecision>> {
        let Ok(name) = RefName::new(format!("{DECISIONS}{id}")) else { return Ok(None) };
        match self.ref_target(&name).await? {
            Some(target) => read_decided(self, &target).await.map(Some),
            None => Ok(None),
        }
    }

    /// Stores a pending approval without asking the handlers. Returns it with its new name. A
    /// summary covers the messages that the branch has now.
    ///
    /// # Errors
    /// When the store fails; [`Error::Refused`] for a summary of messages that cannot be
    /// summarized.
    pub async fn defer(
        &self,
        branch: &RefName,
        mut pending_request: PendingRequest,
        by: &str,
        reason: impl Into<String>,
    ) -> Result<Pending> {
        let head = self.head_of(branch).await?;
        let request = pending_request.clone().request();
        if let (PendingRequest::Compress { select, .. }, Some(request)) =
            (&mut pending_request, request)
        {
            let history = self.fold(head).await?;
            let mut records = Records::default();
            let planner = |records: &Records| plan(&request, &history, records);
            let planned = plan_with(self, head, &mut records, planner).await?;
            if let Op::Compress { targets } = planned.record.op {
                // A person approves the summary of these messages. A selection by position or
                // pattern would be evaluated again when it is carried out, and could then replace
                // messages that are not in the summary.
                *select = Selection::Exactly(targets);
            }
        }
        let place = WriteTarget::new(self, branch, head);
        let event = match &pending_request {
            PendingRequest::Append(draft) if matches!(draft.content, Content::ToolResult(_)) => {
                "tool_result_received"
            }
            PendingRequest::Append(_) | PendingRequest::Edit { .. } => "before_commit",
            PendingRequest::Compress { .. } => "before_compress",
            PendingRequest::Merge { .. } => "before_merge",
            PendingRequest::Call { .. } => "before_dispatch",
        };
        let (pending, document) = place.pending("p", pending_request, event, by, reason.into())?;
        Txn::store_document(self, &document, "defer").await?;
        Ok(pending)
    }

    /// Carries out a pending approval on the current branch. A call is only released: the process
    /// that runs tools has to run it.
    ///
    /// # Errors
    /// [`Error::UnknownPending`], [`Error::AlreadyDecided`]; [`Error::Refused`] when it is no
    /// longer possible, or edits a message that changed since. It then stays pending.
    pub async fn approve(&self, id: &str) -> Result<RecordedDecision> {
        decide(self, id, DecisionKind::Approve).await
    }

    /// Discards a pending approval. If it is a result, or a call, that is still open, the call is
    /// answered by an error with the reason. The original stays readable with the decision.
    ///
    /// # Errors
    /// As [`approve`](Self::approve).
    pub async fn reject(&self, id: &str, reason: impl Into<String>) -> Result<RecordedDecision> {
        decide(self, id, DecisionKind::Reject(reason.into())).await
    }

    /// Carries out a pending approval with another text. The original is kept.
    ///
    /// # Errors
    /// As [`approve`](Self::approve); [`Error::NoText`] for a merge and for a call.
    pub async fn edit_pending(
        &self,
        id: &str,
        text: impl Into<String>,
    ) -> Result<RecordedDecision> {
        decide(self, id, DecisionKind::Edit(text.into())).await
    }

    /// Carries out a pending approval with a summary of its text. The original is kept.
    ///
    /// # Errors
    /// As [`edit_pending`](Self::edit_pending); [`Error::Summary`] when no usable summary could be
    /// made. It then stays pending.
    pub async fn summarize_pending(&self, id: &str, how: &Summarize) -> Result<RecordedDecision> {
        decide(self, id, DecisionKind::Summarize(how.clone())).await
    }

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
        let mut settled: Vec<Option<ResultWrite>> = turn.results.iter().map(|_| None).collect();
        let mut attempts = Attempts::new(self);
        loop {
            let mut txn = Txn::new(self)?;
            let planned = add_turn(&mut txn, branch, turn, &documents, &mut settled).await;
            let (answers, also) = match planned {
                Ok(planned) => planned,
                // The branch may have moved since it was read, and its commits may be collected.
                Err(error) => {
                    attempts.again(error).await?;
                    continue;
                }
            };
            if attempts.won(txn.apply("commit", &WriteOptions::default()).await).await? {
                return Ok(TurnRecorded { answers, pending, also });
            }
        }
    }
}

enum DecisionKind {
    Approve,
    Reject(String),
    Edit(String),
    Summarize(Summarize),
}

async fn decide(repo: &Repo, id: &str, kind: DecisionKind) -> Result<RecordedDecision> {
    let (target, pending) = waiting(repo, id).await?;
    if pending.request.conflicts().is_some() {
        return Box::pin(decide_kept(repo, &pending.id, kind)).await;
    }
    let name = RefName::new(format!("{PENDING}{}", pending.id))?;
    // The caller makes the decision, so the handlers are not asked again.
    let plain = repo.with_hooks(Hooks::new());
    let (request, record) = decided(repo, &pending, &kind).await?;
    let mut id = pending.id.clone();
    let mut races = repo.races();
    loop {
        let mut txn = Txn::new(&plain)?;
        // The document is deleted in the batch that carries out the request. Of two callers
        // that decide, one finds it deleted, so nothing is carried out twice.
        txn.move_from(&name, Some(target.clone()), None);
        let commit = match &kind {
            DecisionKind::Reject(reason) => {
                refused(&mut txn, &pending, reason, record.clone()).await?
            }
            DecisionKind::Approve | DecisionKind::Edit(_) | DecisionKind::Summarize(_) => {
                match carried_out(&mut txn, &pending, &request).await {
                    Ok(commit) => commit,
                    // If another caller decided it first, carrying it out again fails: report
                    // that it was already decided.
                    Err(error) => {
                        waiting(repo, &pending.id).await?;
                        return Err(error);
                    }
                }
            }
        };
        let decided = RecordedDecision {
            id: id.clone(),
            branch: pending.branch.clone(),
            record: record.clone(),
            request: pending.request.clone(),
            commit: commit.map(|commit| commit.id()),
        };
        // Added after planning, because the record names the commit that was made.
        txn.add_document(&Document::decided(&decided)?)?;
        let what = format!("pending {}", record.action);
        match txn.apply(&what, &WriteOptions::default()).await? {
            Applied::Done | Applied::Already => return Ok(decided),
            Applied::Conflict(conflict) => {
                // It was decided elsewhere, or the branch moved.
                waiting(repo, &pending.id).await?;
                if conflict.name.as_str().strip_prefix(DECISIONS) == Some(id.as_str()) {
                    // The name was used twice, and an older decision is stored under it.
                    id = fresh_id("d")?;
                }
                races.lose().await?;
            }
            Applied::Moved(_) => races.lose().await?,
        }
    }
}

/// Completes or discards a kept merge.
async fn decide_kept(repo: &Repo, id: &str, kind: DecisionKind) -> Result<RecordedDecision> {
    match kind {
        DecisionKind::Approve => {
            let nothing: Arc<ResolveFn> = Arc::new(|_| None);
            match resolve_kept(repo, id, &nothing).await? {
                (_, Some(recorded)) => Ok(recorded),
                (MergeProgress::Kept(kept), None) => {
                    let open = kept.open().map(|open| open.conflict.clone()).collect();
                    Err(Refusal::Conflicts(open).into())
                }
                (MergeProgress::Merged(_), None) => Err(damaged("a merge without a record")),
            }
        }
        DecisionKind::Reject(reason) => repo.abort_merge(id, reason).await,
        DecisionKind::Edit(_) | DecisionKind::Summarize(_) => Err(Error::NoText),
    }
}

/// Returns the request to carry out for a decision, and the record of it.
async fn decided(
    repo: &Repo,
    pending: &Pending,
    kind: &DecisionKind,
) -> Result<(PendingRequest, DecisionRecord)> {
    let action = match kind {
        DecisionKind::Approve => "approve",
        DecisionKind::Reject(_) => "reject",
        DecisionKind::Edit(_) => "edit",
        DecisionKind::Summarize(_) => "summarize",
    };
    let mut record = own_record(repo, &pending.event, action);
    record.pending = Some(pending.id.clone());
    let mut record = record.after(deferral(pending).to_json().as_ref());
    let text = match kind {
        DecisionKind::Approve => {
            return Ok((decided_request(&pending.request, &record, None)?, record));
        }
        DecisionKind::Reject(reason) => {
            record.reason = Some(reason.clone());
            return Ok((pending.request.clone(), record));
        }
        DecisionKind::Edit(text) => text.clone(),
        DecisionKind::Summarize(how) => {
            let content = pending.request.content().ok_or(Error::NoText)?;
            let tool = match content {
                Content::ToolResult(answer) => answer.name.clone(),
                _ => None,
            };
            let place = WriteTarget::new(repo, &pending.branch, pending.head);
            let summary = summary_of(place, content, tool.as_deref(), how).await?;
            record.instructions = how.instructions.clone();
            record.model = summary.by;
            summary.text
        }
    };
    let old = pending.request.content().ok_or(Error::NoText)?;
    let new = with_text(old, &text);
    record_change(repo, &mut record, old, &new)?;
    Ok((decided_request(&pending.request, &record, Some(new))?, record))
}

/// Starts the record of a decision by this handle's author.
pub(crate) fn own_record(repo: &Repo, event: &str, action: &str) -> DecisionRecord {
    let mut record = DecisionRecord::new(event, action, repo.now_us());
    record.handler = Some(repo.who().to_owned()).filter(|who| !who.is_empty());
    record
}

/// Finds a pending approval by its name or a prefix of it.
pub(crate) async fn waiting(repo: &Repo, id: &str) -> Result<(RefTarget, Pending)> {
    let all = repo.store().list_refs(repo.name(), PENDING).await?;
    let name =
        |name: &RefName| name.as_str().strip_prefix(PENDING).unwrap_or(name.as_str()).to_owned();
    let exact = all.iter().find(|(found, _)| name(found) == id);
    let mut like = all.iter().filter(|(found, _)| !id.is_empty() && name(found).starts_with(id));
    let found = match (exact, like.next(), like.next()) {
        (Some(found), ..) | (None, Some(found), None) => Some(found),
        (None, ..) => None,
    };
    if let Some((_, target)) = found {
        return Ok((target.clone(), read_pending(repo, target).await?));
    }
    if let Some(decided) = repo.decision(id).await? {
        return Err(Error::AlreadyDecided {
            id: id.to_owned(),
            action: decided.record.action,
            at_us: decided.record.at_us,
        });
    }
    let waiting = all.iter().map(|(found, _)| name(found)).collect();
    Err(Error::UnknownPending { id: id.to_owned(), waiting })
}

/// Returns the record of a deferral: handler, reason and earlier decisions.
fn deferral(pending: &Pending) -> DecisionRecord {
    let written = pending.request.origin().and_then(|origin| origin.detail.as_ref());
    let noted = written.and_then(DecisionRecord::from_json);
    noted.filter(|record| record.action == "defer").unwrap_or_else(|| {
        let mut record = DecisionRecord::new(&pending.event, "defer", pending.created_at_us);
        record.handler = Some(pending.handler.clone()).filter(|handler| !handler.is_empty());
        record.reason = Some(pending.reason.clone()).filter(|reason| !reason.is_empty());
        record.after(written)
    })
}

/// Returns the request to carry out, with the record of the decision. A changed request keeps its
/// original.
fn decided_request(
    request: &PendingRequest,
    record: &DecisionRecord,
    new: Option<Content>,
) -> Result<PendingRequest> {
    let mut request = request.clone();
    if let Some(origin) = request.origin_mut() {
        if new.is_some() {
            (origin.by, origin.id) = (AuthorKind::Hook, record.handler.clone());
        }
        origin.triggered_by = Some(record.event.clone());
        origin.detail = record.to_json();
    }
    if let Some(new) = new
        && let Some((content, _, keeps)) = request.said_mut()
    {
        keeps.insert(0, Blob::seal(content.to_blob()?));
        *content = new;
    }
    Ok(request)
}

/// Checks that a message still has the version that was current when its edit was deferred. Neither
/// the author of the edit nor the person who decides has seen a newer one.
async fn check_version(txn: &mut Txn<'_>, pending: &Pending, target: CommitId) -> Result<()> {
    let version = match pending.head {
        // If it was deferred as part of a larger write, the commits before it may not have been
        // stored.
        Some(head) if txn.repo().commit(head).await?.is_none() => target,
        head => {
            let history = txn.fold(head).await?;
            match txn.plan_with(head, |records| version_of(&history, records, target)).await {
                Ok(version) => version,
                // There was nothing to edit at that head. Planning on the current head refuses it,
                // or succeeds.
                Err(Error::Refused(_)) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    };
    check_decided_edit(txn, &pending.branch, target, version).await
}

/// Returns whether the branch still ends with the same message as when this was deferred. A
/// continuation joins that message and must not join a newer one.
async fn is_last_message_the_same(txn: &mut Txn<'_>, pending: &Pending) -> Result<bool> {
    if let Some(head) = pending.head
        && txn.repo().commit(head).await?.is_none()
    {
        // Deferred as part of a larger write whose earlier commits were never stored.
        return Ok(false);
    }
    let head = txn.head(&pending.branch).await?;
    let (then, now) = (txn.fold(pending.head).await?, txn.fold(head).await?);
    let last = |history: &History| history.view().rows().next_back().map(|row| row.slot);
    Ok(last(&then) == last(&now))
}

/// Carries out an approved request.
async fn carried_out(
    txn: &mut Txn<'_>,
    pending: &Pending,
    pending_request: &PendingRequest,
) -> Result<Option<Commit>> {
    let branch = &pending.branch;
    if let PendingRequest::Edit { target, .. } = pending_request {
        Box::pin(check_version(txn, pending, *target)).await?;
    }
    if let Some(mut request) = pending_request.clone().request() {
        if let Request::Append(draft) = &mut request {
            draft.joins_previous =
                draft.joins_previous && is_last_message_the_same(txn, pending).await?;
        }
        return txn.add_decided(branch, &request).await.map(Some);
    }
    let Some((source, options)) = merge_of(pending_request) else { return Ok(None) };
    match merge_in(txn, branch, source, &options).await? {
        Merged::Commit(commit) => Ok(Some(commit)),
        Merged::NothingToMerge | Merged::FastForward { .. } => Ok(None),
    }
}

/// Answers the call whose result or execution was rejected; does nothing if it is no longer open,
/// or the request answers no call.
async fn refused(
    txn: &mut Txn<'_>,
    pending: &Pending,
    reason: &str,
    record: DecisionRecord,
) -> Result<Option<Commit>> {
    let (call_id, name, original) = match &pending.request {
        PendingRequest::Append(draft) => match &draft.content {
            Content::ToolResult(answer) => {
                let original = Blob::seal(draft.content.to_blob()?);
                (answer.call_id.clone(), answer.name.clone(), Some(original))
            }
            _ => return Ok(None),
        },
        PendingRequest::Call { call: ToolCall { id, name, .. }, .. } => {
            (id.clone(), Some(name.clone()), None)
        }
        PendingRequest::Edit { .. }
        | PendingRequest::Compress { .. }
        | PendingRequest::Merge { .. } => return Ok(None),
    };
    let request = Request::Append(error_result(call_id, name, reason, original, record));
    match txn.add_decided(&pending.branch, &request).await {
        Ok(commit) => Ok(Some(commit)),
        Err(Error::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the answer to a call whose result was rejected.
fn error_result(
    call_id: String,
    name: Option<String>,
    reason: &str,
    original: Option<Blob>,
    mut record: DecisionRecord,
) -> Draft {
    record.before = original.as_ref().map(|blob| blob.id().to_hex());
    let text =
        if reason.is_empty() { "rejected".to_owned() } else { format!("rejected: {reason}") };
    let mut draft = Draft::tool_result(call_id, text).is_error(true);
    if let Some(name) = name {
        draft = draft.tool_name(name);
    }
    draft.origin = Origin {
        id: record.handler.clone(),
        triggered_by: Some(record.event.clone()),
        detail: record.to_json(),
        ..AuthorKind::Hook.into()
    };
    draft.keeps.extend(original);
    draft
}

/// Adds the outcome of a turn to a write. Returns the outcome of each result, and the commits of the
/// further requests. Handlers are asked about the results that are not `settled`.
async fn add_turn(
    txn: &mut Txn<'_>,
    branch: &RefName,
    turn: &TurnRecord,
    documents: &[Document],
    settled: &mut [Option<ResultWrite>],
) -> Result<(Vec<TurnAnswer>, Vec<Commit>)> {
    let mut answers = Vec::with_capacity(turn.results.len());
    for (draft, settled) in turn.results.iter().zip(settled) {
        answers.push(add_result(txn, branch, draft, settled).await?);
    }
    for document in documents {
        txn.add_document(document)?;
    }
    if let Some(alongside) = &turn.alongside {
        alongside.add_to(txn).await?;
    }
    let mut also = Vec::with_capacity(turn.also.len());
    for request in &turn.also {
        also.push(txn.add_decided(branch, request).await?);
    }
    Ok((answers, also))
}

/// Adds one result to a write. Asks the handlers unless that is settled.
async fn add_result(
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
            if let Some(by) = kept_answer(txn, branch, error).await? {
                return Ok(TurnAnswer::Answered { by });
            }
            // The call is open again within this transaction, so the hooks get to see the
            // result.
            ruled = txn.rule(branch, &request).await;
        }
        match ruled {
            Ok(instead) => ResultWrite::Request(instead.unwrap_or_else(|| Box::new(request)), None),
            Err(NotWritten::Rejected(rejected, document)) => {
                let answer = Request::Append(answer_to(draft, &rejected, txn.repo().now_us())?);
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
            if let Some(by) = kept_answer(txn, branch, error).await? {
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
    txn: &mut Txn<'_>,
    branch: &RefName,
    refused: Error,
) -> Result<Option<CommitId>> {
    let Error::Refused(Refusal::AlreadyAnswered { by, .. }) = refused else {
        return Err(refused);
    };
    if !txn.repo().commit(by).await?.is_some_and(|answer| is_made_up(&answer)) {
        return Ok(Some(by));
    }
    match txn.add_decided(branch, &Request::revert([by])).await {
        Ok(_) => Ok(None),
        // It was changed or summarized since.
        Err(Error::Refused(_)) => Ok(Some(by)),
        Err(error) => Err(error),
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
