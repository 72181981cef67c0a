//! Applies the handlers' decisions, and the repository's own rule for summaries, to a request
//! before it is written.

mod carry;
mod change;
mod summary;

use std::sync::{Arc, OnceLock};

use tract_core::{Blob, CommitId, Content, Draft, Part, RefName, ToolAnswer};
use tract_hooks::{
    BeforeCommit, BeforeCompress, CommitAction, Decision, DecisionRecord, HandlerFailure,
    OnFailure, ToolResultAction, ToolResultReceived, ToolSummarization,
};

pub(crate) use self::summary::{
    SUMMARIZATION_CONFIG, conversation, request, stored_summarization, summary_of,
};
use crate::plan::{PlannedCommit, Request};
use crate::repo::Repo;
use crate::repo::error::{DeferredOperation, Error, Rejected, Result};
use crate::write::pending::{Document, PendingRequest};

/// The name under which the repository's own rule for summaries decides.
const AUTOMATIC: &str = "tool-summarization";

/// The replacement of a request; `None` to write it unchanged.
pub(crate) type Ruled<T> = Result<Option<Box<T>>, NotWritten>;

/// The reason why a request is not written.
pub(crate) enum NotWritten {
    /// A handler rejected it; the document records that.
    Rejected(Box<Rejected>, Document),
    /// It is pending; the document records that.
    Deferred(Box<DeferredOperation>, Document),
    /// Handlers could not be asked, or their decision cannot be carried out.
    Failed(Error),
}

impl<E: Into<Error>> From<E> for NotWritten {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The branch and head that a request would be written to.
#[derive(Clone, Copy)]
pub(crate) struct WriteTarget<'a> {
    pub(crate) repo: &'a Repo,
    pub(crate) branch: &'a RefName,
    pub(crate) head: Option<CommitId>,
    /// Cache for the configuration of the write.
    pub(crate) summaries: Option<&'a Configured>,
}

/// The rules for automatic summaries, once they were read.
pub(crate) type Configured = OnceLock<Option<Arc<ToolSummarization>>>;

impl<'a> WriteTarget<'a> {
    pub(crate) fn new(repo: &'a Repo, branch: &'a RefName, head: Option<CommitId>) -> Self {
        Self { repo, branch, head, summaries: None }
    }
}

/// The event, the handler that decided, and the failures of handlers before it.
struct DecisionSource {
    event: &'static str,
    handler: Option<String>,
    failures: Vec<String>,
}

impl DecisionSource {
    fn of<A: tract_hooks::Action>(decision: &Decision<A>) -> Self {
        Self {
            event: decision.event(),
            handler: decision.by().map(str::to_owned),
            failures: decision.failures().iter().map(ToString::to_string).collect(),
        }
    }

    fn handler_name(&self) -> String {
        self.handler.clone().unwrap_or_default()
    }

    /// Starts the record of a decision.
    fn record(&self, repo: &Repo, action: &str) -> DecisionRecord {
        let mut record = DecisionRecord::new(self.event, action, repo.now_us());
        record.handler.clone_from(&self.handler);
        record.failures.clone_from(&self.failures);
        record
    }

    /// Returns the action to record when nothing changes; `None` without a decision and without a
    /// failed handler.
    fn unchanging(&self) -> Option<&'static str> {
        match (&self.handler, self.failures.is_empty()) {
            (Some(_), _) => Some("approve"),
            (None, false) => Some("pass"),
            (None, true) => None,
        }
    }

    /// Records that the handler's action cannot be carried out. Returns the reason for refusing the
    /// request, if the failure policy is to refuse.
    fn invalid(&mut self, repo: &Repo, why: &str) -> Option<String> {
        let failure = HandlerFailure::invalid(self.handler_name(), why).to_string();
        match repo.hooks().failure_policy() {
            OnFailure::PassOn => {
                self.failures.push(failure);
                self.handler = None;
                None
            }
            _ => Some(failure),
        }
    }
}

impl WriteTarget<'_> {
    /// Asks about a request that was planned. `tool` is the name of the tool whose result it
    /// contains, taken from the call.
    pub(crate) async fn rule(
        self,
        request: &Request,
        planned: &PlannedCommit,
        tool: Option<String>,
    ) -> Ruled<Request> {
        let hooks = self.repo.hooks();
        match request {
            Request::Append(draft) => {
                let mut changed = None;
                if let Content::ToolResult(answer) = &draft.content {
                    changed = Box::pin(self.result(request, draft, answer, tool)).await?;
                }
                if hooks.has_handler::<BeforeCommit>() {
                    // Handlers of commits see what a handler of results made of the message.
                    let current = changed.as_deref().unwrap_or(request);
                    changed = Box::pin(self.commit(current, planned)).await?.or(changed);
                }
                Ok(changed)
            }
            Request::Edit { .. } if hooks.has_handler::<BeforeCommit>() => {
                Box::pin(self.commit(request, planned)).await
            }
            Request::Compress { .. } if hooks.has_handler::<BeforeCompress>() => {
                Box::pin(self.compress(request, planned)).await
            }
            Request::Import(_)
            | Request::Edit { .. }
            | Request::Annotate { .. }
            | Request::Compress { .. }
            | Request::Revert { .. }
            | Request::Tools { .. }
            | Request::Note { .. } => Ok(None),
        }
    }

    /// Asks about a tool result: first the handlers, then the repository's own rule.
    async fn result(
        self,
        request: &Request,
        draft: &Draft,
        answer: &ToolAnswer,
        tool: Option<String>,
    ) -> Ruled<Request> {
        let hooks = self.repo.hooks();
        let tool = answer.name.clone().or(tool);
        if !hooks.has_handler::<ToolResultReceived>() {
            let (event, handler, failures) = ("tool_result_received", None, Vec::new());
            let source = DecisionSource { event, handler, failures };
            return self.automatic(request, draft, tool.as_deref(), source).await;
        }
        let tokens = self.repo.count(&draft.content.text());
        let mut event = ToolResultReceived {
            head: self.head,
            is_error: answer.is_error,
            token_count: tokens,
            ..ToolResultReceived::new(
                self.branch.clone(),
                answer.call_id.clone(),
                answer.parts.clone(),
            )
        };
        event.tool_name = tool.clone();
        let decision = hooks.tool_result_received(&event).await;
        let source = DecisionSource::of(&decision);
        let fits = |part: &Part| {
            matches!(part, Part::Text { .. } | Part::Image { .. } | Part::Opaque { .. })
        };
        let action = match decision.into_action() {
            ToolResultAction::Pass => {
                return self.automatic(request, draft, tool.as_deref(), source).await;
            }
            ToolResultAction::Summarize(how) => {
                return self.summarized(draft, tool.as_deref(), source, &how).await;
            }
            ToolResultAction::Approve => Ok(CommitAction::Approve),
            ToolResultAction::Edit(parts) if parts.iter().all(fits) => {
                let content = Content::ToolResult(ToolAnswer { parts, ..answer.clone() });
                Ok(CommitAction::Edit(content))
            }
            ToolResultAction::Edit(_) => {
                Err("a result holds text, pictures and opaque parts alone".to_owned())
            }
            ToolResultAction::Reject(reason) => Ok(CommitAction::Reject(reason)),
            ToolResultAction::Defer(reason) => Ok(CommitAction::Defer(reason)),
        };
        self.changed(source, action, request, PendingRequest::Append(Box::new(draft.clone())))
    }

    /// Applies the repository's own rule if no handler decided.
    async fn automatic(
        self,
        request: &Request,
        draft: &Draft,
        tool: Option<&str>,
        mut source: DecisionSource,
    ) -> Ruled<Request> {
        let config = match self.summaries.and_then(OnceLock::get) {
            Some(known) => known.clone(),
            None => {
                let read = stored_summarization(self.repo).await?;
                if let Some(summaries) = self.summaries {
                    // Another task may have stored the same value first.
                    let _ = summaries.set(read.clone());
                }
                read
            }
        };
        let rule =
            config.and_then(|config| config.rule(tool, self.repo.count(&draft.content.text())));
        match rule {
            Some(how) => {
                source.handler = Some(AUTOMATIC.to_owned());
                self.summarized(draft, tool, source, &how).await
            }
            None => Ok(self.as_requested(&source, request)),
        }
    }
}

/// Replaces the texts among parts with one text. Images and other parts stay.
pub(crate) fn with_summary(answer: &ToolAnswer, text: &str) -> Content {
    let others = answer.parts.iter().filter(|part| !matches!(part, Part::Text { .. })).cloned();
    let parts = std::iter::once(Part::text(text)).chain(others).collect();
    Content::ToolResult(ToolAnswer { parts, ..answer.clone() })
}

/// Reads the content of a planned edit.
fn edited_content(planned: &PlannedCommit) -> Result<Content> {
    let text = planned
        .record
        .content
        .and_then(|id| planned.blobs.iter().find(|blob| blob.id() == id).and_then(Blob::text));
    let kind = planned.record.kind.as_ref();
    match (kind, text) {
        (Some(kind), Some(text)) => Ok(Content::from_blob(kind, text)?),
        _ => Err(tract_core::ContentError::NotText.into()),
    }
}
