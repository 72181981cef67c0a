//! Carries out decisions about messages and records them.

use tract_core::{AuthorKind, Content, Draft, Origin};
use tract_hooks::{DecisionRecord, Summarize};

use super::summary_of;
use super::{DecisionSource, NotWritten, Ruled, WriteTarget, with_summary};
use crate::plan::{Details, Request, with_answer_of};
use crate::repo::error::{DeferredOperation, Rejected, Result};
use crate::write::pending::{
    Document, Pending, PendingRequest, RecordedDecision, fresh_id, record_change,
};

impl WriteTarget<'_> {
    /// Checks that a handler's content can replace the original.
    pub(super) fn fitting(self, old: &Content, new: Content) -> Result<Content, String> {
        if old.kind() != new.kind() {
            return Err(format!("expected {}, found {}", old.kind(), new.kind()));
        }
        let content = with_answer_of(old, new);
        let blob = content.to_blob().map_err(|error| error.to_string())?;
        self.repo.limits().check_blob(blob.len()).map_err(|error| error.to_string())?;
        Ok(content)
    }

    /// Creates the replacement request. It keeps the original content and records the reason for
    /// the change.
    pub(super) fn instead(
        self,
        mut request: PendingRequest,
        content: Content,
        source: &DecisionSource,
        action: &str,
        more: impl FnOnce(&mut DecisionRecord),
    ) -> Ruled<Request> {
        let is_message = matches!(request, PendingRequest::Append(_));
        let Some((old, origin, keeps)) = request.said_mut() else { return Ok(None) };
        let mut record = source.record(self.repo, action);
        record.by = Some(origin.by.as_str().to_owned());
        let original = record_change(self.repo, &mut record, old, &content)?;
        more(&mut record);
        // If another handler changed it before, the true original is already first and stays there.
        let is_last = is_message && origin.by == AuthorKind::Hook;
        keeps.insert(if is_last { keeps.len() } else { 0 }, original);
        *origin = Origin {
            id: source.handler.clone(),
            triggered_by: Some(source.event.to_owned()),
            detail: record.after(origin.detail.as_ref()).to_json(),
            ..AuthorKind::Hook.into()
        };
        *old = content;
        Ok(request.request().map(Box::new))
    }

    /// Carries out a summary. If it fails, the result stays unchanged and the failure is recorded.
    pub(super) async fn summarized(
        self,
        draft: &Draft,
        tool: Option<&str>,
        source: DecisionSource,
        how: &Summarize,
    ) -> Ruled<Request> {
        let Content::ToolResult(answer) = &draft.content else { return Ok(None) };
        let instructions = how.instructions.clone();
        let summary = summary_of(self, &draft.content, tool, how).await;
        let mut draft = Box::new(draft.clone());
        match summary {
            Ok(summary) => {
                let content = with_summary(answer, &summary.text);
                let request = PendingRequest::Append(draft);
                self.instead(request, content, &source, "summarize", |record| {
                    record.instructions = instructions;
                    record.model = summary.by;
                })
            }
            Err(error) => {
                let mut record = source.record(self.repo, "summarize");
                record.instructions = instructions;
                record.note = Some(format!("as it came: {error}"));
                draft.origin.triggered_by = Some(source.event.to_owned());
                draft.origin.detail = record.after(draft.origin.detail.as_ref()).to_json();
                Ok(Some(Box::new(Request::Append(*draft))))
            }
        }
    }

    /// Rejects the request.
    pub(super) fn rejected<T>(
        self,
        request: PendingRequest,
        source: DecisionSource,
        reason: String,
    ) -> Ruled<T> {
        let mut record = source.record(self.repo, "reject");
        record.reason = Some(reason.clone());
        let id = fresh_id("d")?;
        let content = request.content().cloned();
        let decided = RecordedDecision {
            id: id.clone(),
            branch: self.branch.clone(),
            record: record.after(request.origin().and_then(|origin| origin.detail.as_ref())),
            request,
            commit: None,
        };
        let document = Document::decided(&decided)?;
        let (event, handler) = (source.event.to_owned(), source.handler_name());
        let rejected = Rejected { decision: id, event, handler, reason, content };
        Err(NotWritten::Rejected(Box::new(rejected), document))
    }

    /// Defers the request.
    pub(super) fn deferred<T>(
        self,
        mut request: PendingRequest,
        source: DecisionSource,
        reason: String,
    ) -> Ruled<T> {
        // Otherwise the failures of handlers before the one that deferred would be lost.
        if let Some(origin) = request.origin_mut().filter(|_| !source.failures.is_empty()) {
            let mut record = source.record(self.repo, "defer");
            record.reason = Some(reason.clone());
            origin.detail = record.after(origin.detail.as_ref()).to_json();
        }
        let (pending, document) =
            self.pending("p", request, source.event, &source.handler_name(), reason)?;
        let Pending { id, event, handler, reason, .. } = pending;
        let deferred = DeferredOperation { id, event, handler, reason };
        Err(NotWritten::Deferred(Box::new(deferred), document))
    }

    /// Creates a pending approval and its document. `first` is the first part of its name.
    pub(crate) fn pending(
        self,
        first: &str,
        request: PendingRequest,
        event: &str,
        handler: &str,
        reason: String,
    ) -> Result<(Pending, Document)> {
        let pending = Pending {
            id: fresh_id(first)?,
            event: event.to_owned(),
            branch: self.branch.clone(),
            head: self.head,
            handler: handler.to_owned(),
            reason,
            created_at_us: self.repo.now_us(),
            request,
        };
        let document = Document::pending(&pending)?;
        Ok((pending, document))
    }

    /// Returns the request unchanged except for a record of the decision; `None` if there is
    /// nothing to record.
    pub(super) fn as_requested(
        self,
        source: &DecisionSource,
        request: &Request,
    ) -> Option<Box<Request>> {
        let action = source.unchanging()?;
        let mut request = Box::new(request.clone());
        let (Request::Append(Draft { origin, .. })
        | Request::Edit { details: Details { origin, .. }, .. }
        | Request::Compress { details: Details { origin, .. }, .. }) = &mut *request
        else {
            return None;
        };
        origin.detail = source.record(self.repo, action).after(origin.detail.as_ref()).to_json();
        Some(request)
    }
}
