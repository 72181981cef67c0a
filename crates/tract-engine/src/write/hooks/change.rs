//! Applies handlers' decisions to messages, edits, summaries and merges.

use tract_core::{Change, CommitRef, Content, Draft, Op};
use tract_hooks::{
    BeforeCommit, BeforeCompress, CommitAction, CompressAction, Decision, MergeAction,
};

use super::{DecisionSource, Ruled, WriteTarget, edited_content};
use crate::plan::{Details, PlannedCommit, Request, Selection};
use crate::write::pending::{Document, PendingRequest, RecordedDecision, fresh_id};

impl WriteTarget<'_> {
    /// Asks about a message or an edit.
    pub(super) async fn commit(self, request: &Request, planned: &PlannedCommit) -> Ruled<Request> {
        let draft = match request {
            Request::Append(draft) => draft.clone(),
            Request::Edit { details, .. } => Draft {
                message: details.message.clone(),
                metadata: details.metadata.clone(),
                ..Draft::new(edited_content(planned)?).origin(details.origin.clone())
            },
            _ => return Ok(None),
        };
        let event = BeforeCommit {
            head: self.head,
            op: planned.record.op.clone(),
            ..BeforeCommit::new(self.branch.clone(), draft)
        };
        let decision = self.repo.hooks().before_commit(&event).await;
        let source = DecisionSource::of(&decision);
        let pending_request = match request {
            Request::Edit { target, details, .. } => {
                let (content, details) = (event.draft.content, details.clone());
                PendingRequest::Edit { target: *target, content, details }
            }
            _ => PendingRequest::Append(Box::new(event.draft)),
        };
        self.changed(source, Ok(decision.into_action()), request, pending_request)
    }

    pub(super) async fn compress(
        self,
        request: &Request,
        planned: &PlannedCommit,
    ) -> Ruled<Request> {
        let Request::Compress { select, content, role, details } = request else {
            return Ok(None);
        };
        // Pin the messages that the summary was made of: messages that arrive before it is written
        // must not be hidden by it.
        let select = match &planned.record.op {
            Op::Compress { targets } => Selection::Exactly(targets.clone()),
            _ => select.clone(),
        };
        let mut before = 0;
        let mut sources = Vec::new();
        for change in &planned.changes {
            if let Change::Remove { slot: CommitRef::Id(slot), row } = change {
                sources.push(*slot);
                // Versions made by this write are not stored yet, so their tokens are not counted.
                if let CommitRef::Id(version) = row.version
                    && let Ok(content) = self.repo.content_of(version).await
                {
                    before += self.repo.count(&content.text());
                }
            }
        }
        let pending_request = PendingRequest::Compress {
            select,
            content: content.clone(),
            role: role.clone(),
            details: details.clone(),
        };
        let event = BeforeCompress {
            head: self.head,
            tokens_before: before,
            tokens_after: self.repo.count(&content.text()),
            ..BeforeCompress::new(self.branch.clone(), sources, content.clone())
        };
        let decision = self.repo.hooks().before_compress(&event).await;
        let source = DecisionSource::of(&decision);
        let action = match decision.into_action() {
            CompressAction::Pass | CompressAction::Approve => Ok(CommitAction::Approve),
            CompressAction::Edit(text) => Ok(CommitAction::Edit(match content {
                Content::User(_) => Content::user(text),
                Content::System(_) => Content::system(text),
                _ => Content::assistant(text),
            })),
            CompressAction::Reject(reason) => Ok(CommitAction::Reject(reason)),
            CompressAction::Defer(reason) => Ok(CommitAction::Defer(reason)),
        };
        self.changed(source, action, request, pending_request)
    }

    /// Applies a handler's decision to a request, or the reason why it cannot be carried out.
    pub(super) fn changed(
        self,
        mut source: DecisionSource,
        action: Result<CommitAction, String>,
        request: &Request,
        pending_request: PendingRequest,
    ) -> Ruled<Request> {
        let why = match action {
            Ok(CommitAction::Pass | CommitAction::Approve) => {
                return Ok(self.as_requested(&source, request));
            }
            Ok(CommitAction::Edit(other)) => {
                let Some(content) = pending_request.content() else { return Ok(None) };
                match self.fitting(content, other) {
                    Ok(other) => {
                        return self.instead(pending_request, other, &source, "edit", |_| {});
                    }
                    Err(why) => why,
                }
            }
            Ok(CommitAction::Reject(reason)) => {
                return self.rejected(pending_request, source, reason);
            }
            Ok(CommitAction::Defer(reason)) => {
                return self.deferred(pending_request, source, reason);
            }
            Err(why) => why,
        };
        match source.invalid(self.repo, &why) {
            None => Ok(self.as_requested(&source, request)),
            Some(failure) => self.rejected(pending_request, source, failure),
        }
    }

    /// Applies a handler's decision to a merge. Returns its record: in the details of the merge
    /// commit, or as a document for a fast-forward.
    pub(crate) fn merge(
        self,
        decision: Decision<MergeAction>,
        request: PendingRequest,
    ) -> Ruled<(Details, Document)> {
        let source = DecisionSource::of(&decision);
        match decision.into_action() {
            MergeAction::Pass | MergeAction::Approve => {}
            MergeAction::Reject(reason) => return self.rejected(request, source, reason),
            MergeAction::Defer(reason) => return self.deferred(request, source, reason),
        }
        let (Some(action), PendingRequest::Merge { source: merged, details, .. }) =
            (source.unchanging(), &request)
        else {
            return Ok(None);
        };
        let (commit, mut details) = (Some(*merged), details.clone());
        let record = source.record(self.repo, action).after(details.origin.detail.as_ref());
        details.origin.detail = record.to_json();
        let (id, branch) = (fresh_id("d")?, self.branch.clone());
        let decided = RecordedDecision { id, branch, record, request, commit };
        Ok(Some(Box::new((details, Document::decided(&decided)?))))
    }
}
