//! Edits, summaries and merges: what handlers make of them.

use tract_core::{Change, CommitId, CommitRef, Content, Draft, Op};
use tract_hooks::{
    BeforeCommit, BeforeCompress, CommitAction, CompressAction, Decision, MergeAction,
};

use super::{DecisionSource, Ruling, WriteTarget, edited_content as reads, not_here};
use crate::error::Result;
use crate::pending::{Document, PendingRequest};
use crate::plan::{Details, NewContent, PlannedCommit, Request, Selection};

/// What becomes of a merge.
pub(crate) enum MergeRuling {
    /// It is made; this is recorded of it: in the details of a commit, or as a document where
    /// the branch is merely forwarded.
    Go(Option<Box<(Details, Document)>>),
    /// It does not.
    Not(Ruling),
}

impl WriteTarget<'_> {
    pub(super) async fn edit(
        self,
        target: CommitId,
        new: &NewContent,
        details: &Details,
        planned: &PlannedCommit,
    ) -> Result<Ruling> {
        let content = reads(planned)?;
        let draft = Draft {
            message: details.message.clone(),
            metadata: details.metadata.clone(),
            ..Draft::new(content.clone()).origin(details.origin.clone())
        };
        let event = BeforeCommit::new(self.branch.clone(), draft)
            .head(self.head)
            .op(planned.record.op.clone());
        let decision = self.repo.hooks().before_commit(&event).await;
        let source = DecisionSource::of(&decision);
        let request = Request::Edit { target, content: new.clone(), details: details.clone() };
        let pending_request = PendingRequest::Edit { target, content, details: details.clone() };
        self.changed(source, Ok(decision.into_action()), request, pending_request)
    }

    pub(super) async fn compress(
        self,
        request: &Request,
        planned: &PlannedCommit,
    ) -> Result<Ruling> {
        let Request::Compress { select, content, role, details } = request else {
            return Ok(Ruling::AsAsked);
        };
        // The summary is of these messages. What arrives later is not under it, however long it
        // takes until it is written.
        let select = match &planned.record.op {
            Op::Compress { targets } => Selection::Exactly(targets.clone()),
            _ => select.clone(),
        };
        let mut before = 0;
        let mut sources = Vec::new();
        for change in &planned.changes {
            if let Change::Remove { slot: CommitRef::Id(slot), row } = change {
                sources.push(*slot);
                // What this very write made is not stored yet; its tokens are not counted.
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
        let event = BeforeCompress::new(self.branch.clone(), sources, content.clone())
            .head(self.head)
            .tokens(before, self.repo.count(&content.text()));
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
            other => Err(not_here(&other)),
        };
        self.changed(source, action, request.clone(), pending_request)
    }

    /// Rules on an edit or a summary by a handler's answer, or by why that cannot be carried out.
    fn changed(
        self,
        mut source: DecisionSource,
        action: Result<CommitAction, String>,
        request: Request,
        mut pending_request: PendingRequest,
    ) -> Result<Ruling> {
        let why = match action {
            Ok(CommitAction::Pass | CommitAction::Approve) => {
                return Ok(self.as_requested(&source, request));
            }
            Ok(CommitAction::Edit(other)) => {
                let (PendingRequest::Edit { content, details, .. }
                | PendingRequest::Compress { content, details, .. }) = &mut pending_request
                else {
                    return Ok(Ruling::AsAsked);
                };
                match self.fitting(content, other) {
                    Ok(other) => {
                        let draft = Draft::new(content.clone()).origin(details.origin.clone());
                        let changed = self.instead(&draft, other, &source, "edit", |_| {})?;
                        *content = changed.content;
                        details.origin = changed.origin;
                        details.keeps.splice(0..0, changed.keeps);
                        let instead = pending_request.request().unwrap_or(request);
                        return Ok(Ruling::Instead(Box::new(instead)));
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
            Ok(other) => not_here(&other),
            Err(why) => why,
        };
        match source.invalid(self.repo, &why) {
            None => Ok(self.as_requested(&source, request)),
            Some(failure) => self.rejected(pending_request, source, failure),
        }
    }

    /// Rules on a merge by a handler's answer.
    pub(crate) fn merge(
        self,
        decision: Decision<MergeAction>,
        pending_request: PendingRequest,
    ) -> Result<MergeRuling> {
        let mut source = DecisionSource::of(&decision);
        match decision.into_action() {
            MergeAction::Pass | MergeAction::Approve => {}
            MergeAction::Reject(reason) => {
                return self.rejected(pending_request, source, reason).map(MergeRuling::Not);
            }
            MergeAction::Defer(reason) => {
                return self.deferred(pending_request, source, reason).map(MergeRuling::Not);
            }
            other => {
                if let Some(failure) = source.invalid(self.repo, &not_here(&other)) {
                    return self.rejected(pending_request, source, failure).map(MergeRuling::Not);
                }
            }
        }
        let PendingRequest::Merge { details, .. } = &pending_request else {
            return Ok(MergeRuling::Go(None));
        };
        let mut details = details.clone();
        let Some(record) = self.noted(&source, details.origin.detail.as_ref()) else {
            return Ok(MergeRuling::Go(None));
        };
        details.origin.detail = record.to_json();
        let document = self.decided(pending_request, record)?;
        Ok(MergeRuling::Go(Some(Box::new((details, document)))))
    }
}
