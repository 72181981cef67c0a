//! What is written, and recorded, once a message was decided on.

use tract_core::{AuthorKind, Blob, Content, Draft, JsonText, Origin};
use tract_hooks::{DecisionRecord, Summarize};

use super::{DecisionSource, MessageRuling, Ruling, WriteTarget, with_summary};
use crate::error::Result;
use crate::pending::{
    DeferredOperation, Document, Pending, PendingRequest, RecordedDecision, Rejected, fresh_id,
};
use crate::plan::{Request, with_answer_of};
use crate::summarize::summary_of;

impl WriteTarget<'_> {
    /// Returns what is written down of a decision that changes nothing, with what is written down
    /// already; nothing without a decision and without a failed handler.
    pub(super) fn noted(
        self,
        source: &DecisionSource,
        written: Option<&JsonText>,
    ) -> Option<DecisionRecord> {
        let action = match (&source.handler, source.failures.is_empty()) {
            (Some(_), _) => "approve",
            (None, false) => "pass",
            (None, true) => return None,
        };
        Some(source.record(self.repo, action).after(written))
    }

    /// The message stays as it is, with a record where there is something to write down.
    pub(super) fn unchanged(self, draft: &Draft, source: &DecisionSource) -> MessageRuling {
        let Some(record) = self.noted(source, draft.origin.detail.as_ref()) else {
            return MessageRuling::Same;
        };
        let mut draft = draft.clone();
        draft.origin.detail = record.to_json();
        MessageRuling::Changed(Box::new(draft))
    }

    /// The handler's answer cannot be carried out: what becomes of that, the policy says.
    pub(super) fn invalid(
        self,
        draft: &Draft,
        mut source: DecisionSource,
        why: &str,
    ) -> Result<MessageRuling> {
        match source.invalid(self.repo, why) {
            None => Ok(self.unchanged(draft, &source)),
            Some(failure) => self.stopped(draft, source, failure),
        }
    }

    /// Checks that a handler's content can replace what was asked for.
    pub(super) fn fitting(self, old: &Content, new: Content) -> Result<Content, String> {
        if old.kind() != new.kind() {
            return Err(format!("expected {}, found {}", old.kind(), new.kind()));
        }
        let content = with_answer_of(old, new);
        let blob = content.to_blob().map_err(|error| error.to_string())?;
        self.repo.limits().check_blob(blob.len()).map_err(|error| error.to_string())?;
        Ok(content)
    }

    pub(super) fn edited(
        self,
        draft: &Draft,
        content: Content,
        source: &DecisionSource,
    ) -> Result<MessageRuling> {
        let changed = self.instead(draft, content, source, "edit", |_| {})?;
        Ok(MessageRuling::Changed(Box::new(changed)))
    }

    /// Makes the message that is committed instead: it keeps the original, and says why it reads
    /// as it does.
    pub(super) fn instead(
        self,
        draft: &Draft,
        content: Content,
        source: &DecisionSource,
        action: &str,
        more: impl FnOnce(&mut DecisionRecord),
    ) -> Result<Draft> {
        let original = Blob::seal(draft.content.to_blob()?);
        let mut record = source.record(self.repo, action);
        record.by = Some(draft.origin.by.as_str().to_owned());
        record.before = Some(original.id().to_hex());
        record.after = Some(Blob::seal(content.to_blob()?).id().to_hex());
        record.tokens_before = Some(self.repo.count(&draft.content.text()));
        record.tokens_after = Some(self.repo.count(&content.text()));
        more(&mut record);
        let mut changed = Draft { content, form: None, verbatim: None, ..draft.clone() };
        changed.origin = Origin {
            id: source.handler.clone(),
            triggered_by: Some(source.event.to_owned()),
            detail: record.after(draft.origin.detail.as_ref()).to_json(),
            ..AuthorKind::Hook.into()
        };
        // What another handler changed before has its original first, and it stays first.
        match draft.origin.by {
            AuthorKind::Hook => changed.keeps.push(original),
            AuthorKind::User | AuthorKind::Model | AuthorKind::Tool | AuthorKind::Import => {
                changed.keeps.insert(0, original)
            }
        }
        Ok(changed)
    }

    /// Carries out a summary; without one the result stays as it came, with a note of that.
    pub(super) async fn summarized(
        self,
        draft: &Draft,
        tool: Option<&str>,
        source: DecisionSource,
        how: &Summarize,
    ) -> Result<MessageRuling> {
        let Content::ToolResult(answer) = &draft.content else { return Ok(MessageRuling::Same) };
        let instructions = how.instructions.clone();
        match summary_of(self, &draft.content, tool, how).await {
            Ok(summary) => {
                let content = with_summary(answer, &summary.text);
                let changed = self.instead(draft, content, &source, "summarize", |record| {
                    record.instructions = instructions;
                    record.model = summary.by;
                })?;
                Ok(MessageRuling::Changed(Box::new(changed)))
            }
            Err(error) => {
                let mut record = source.record(self.repo, "summarize");
                record.instructions = instructions;
                record.note = Some(format!("as it came: {error}"));
                let mut draft = draft.clone();
                draft.origin.triggered_by = source.handler;
                draft.origin.detail = record.after(draft.origin.detail.as_ref()).to_json();
                Ok(MessageRuling::Changed(Box::new(draft)))
            }
        }
    }

    /// The message is not committed.
    pub(super) fn stopped(
        self,
        draft: &Draft,
        source: DecisionSource,
        reason: String,
    ) -> Result<MessageRuling> {
        self.rejected(PendingRequest::Append(Box::new(draft.clone())), source, reason)
            .map(MessageRuling::Stop)
    }

    /// The message waits to be decided.
    pub(super) fn waiting(
        self,
        draft: &Draft,
        source: DecisionSource,
        reason: String,
    ) -> Result<MessageRuling> {
        self.deferred(PendingRequest::Append(Box::new(draft.clone())), source, reason)
            .map(MessageRuling::Stop)
    }

    pub(super) fn rejected(
        self,
        request: PendingRequest,
        source: DecisionSource,
        reason: String,
    ) -> Result<Ruling> {
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
        Ok(Ruling::Rejected(Box::new(rejected), document))
    }

    pub(super) fn deferred(
        self,
        mut request: PendingRequest,
        source: DecisionSource,
        reason: String,
    ) -> Result<Ruling> {
        // The failures of handlers before the one that deferred would be lost with the event.
        if let Some(origin) = request.origin_mut().filter(|_| !source.failures.is_empty()) {
            let mut record = source.record(self.repo, "defer");
            record.reason = Some(reason.clone());
            origin.detail = record.after(origin.detail.as_ref()).to_json();
        }
        let (pending, document) =
            self.pending(request, source.event, &source.handler_name(), reason)?;
        let Pending { id, event, handler, reason, .. } = pending;
        Ok(Ruling::Deferred(DeferredOperation { id, event, handler, reason }, document))
    }

    pub(in crate::pending) fn pending(
        self,
        request: PendingRequest,
        event: &str,
        handler: &str,
        reason: String,
    ) -> Result<(Pending, Document)> {
        let pending = Pending {
            id: fresh_id("p")?,
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

    /// Makes a document of a decision that no commit can contain.
    pub(super) fn decided(
        self,
        request: PendingRequest,
        record: DecisionRecord,
    ) -> Result<Document> {
        let commit = match &request {
            PendingRequest::Merge { source, .. } => Some(*source),
            _ => None,
        };
        let (id, branch) = (fresh_id("d")?, self.branch.clone());
        Document::decided(&RecordedDecision { id, branch, record, request, commit })
    }

    /// Returns the request as it was, with a record where there is something to write down.
    pub(super) fn as_requested(self, source: &DecisionSource, request: Request) -> Ruling {
        let mut request = request;
        let detail = match &mut request {
            Request::Edit { details, .. } | Request::Compress { details, .. } => {
                &mut details.origin.detail
            }
            _ => return Ruling::AsAsked,
        };
        let Some(record) = self.noted(source, detail.as_ref()) else { return Ruling::AsAsked };
        *detail = record.to_json();
        Ruling::Instead(Box::new(request))
    }
}
