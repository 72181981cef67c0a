//! What the handlers, and the repository's own rules, make of a request before it is written.

mod carry;
mod change;

use std::sync::{Arc, OnceLock};

use tract_core::{Blob, CommitId, Content, Draft, Part, RefName, ToolAnswer};
use tract_hooks::{
    BeforeCommit, BeforeCompress, CommitAction, Decision, DecisionRecord, HandlerFailure,
    OnFailure, ToolResultAction, ToolResultReceived, ToolSummarization,
};

pub(crate) use self::change::MergeRuling;
use super::{DeferredOperation, Document, Rejected};
use crate::error::Result;
use crate::plan::{PlannedCommit, Request};
use crate::repo::Repo;

/// The name that the repository's own rule for summaries decides under.
const AUTOMATIC: &str = "tool-summarization";

/// What becomes of a request.
pub(crate) enum Ruling {
    /// It is written as it was asked for.
    AsAsked,
    /// This is written instead.
    Instead(Box<Request>),
    /// Nothing is written but the record of that.
    Rejected(Box<Rejected>, Document),
    /// It waits to be decided.
    Deferred(DeferredOperation, Document),
}

/// Where a request would be written.
#[derive(Clone, Copy)]
pub(crate) struct WriteTarget<'a> {
    pub(crate) repo: &'a Repo,
    pub(crate) branch: &'a RefName,
    pub(crate) head: Option<CommitId>,
    /// Where a write keeps what it read of the configuration.
    pub(crate) summaries: Option<&'a Configured>,
}

/// Which results are summarized automatically, as it was read.
pub(crate) type Configured = OnceLock<Option<Arc<ToolSummarization>>>;

impl<'a> WriteTarget<'a> {
    pub(crate) fn new(repo: &'a Repo, branch: &'a RefName, head: Option<CommitId>) -> Self {
        Self { repo, branch, head, summaries: None }
    }
}

impl Ruling {
    /// Asks about a request that could be carried out. `tool` is the name of the tool whose
    /// result it brings, as the call has it.
    pub(crate) async fn on(
        place: WriteTarget<'_>,
        request: &Request,
        planned: &PlannedCommit,
        tool: Option<String>,
    ) -> Result<Self> {
        let hooks = place.repo.hooks();
        match request {
            Request::Append(draft) => place.append(draft, planned, tool).await,
            Request::Edit { target, content, details } if hooks.has_handler::<BeforeCommit>() => {
                Box::pin(place.edit(*target, content, details, planned)).await
            }
            Request::Compress { .. } if hooks.has_handler::<BeforeCompress>() => {
                Box::pin(place.compress(request, planned)).await
            }
            Request::Import(_)
            | Request::Edit { .. }
            | Request::Annotate { .. }
            | Request::Compress { .. }
            | Request::Revert { .. }
            | Request::Tools { .. }
            | Request::Note { .. } => Ok(Self::AsAsked),
        }
    }
}

/// What became of a message so far.
enum MessageRuling {
    Same,
    Changed(Box<Draft>),
    Stop(Ruling),
}

/// Who decided, on what, and which handlers failed before.
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

    /// Starts the record of what was decided.
    fn record(&self, repo: &Repo, action: &str) -> DecisionRecord {
        let mut record = DecisionRecord::new(self.event, action, repo.now_us());
        record.handler.clone_from(&self.handler);
        record.failures.clone_from(&self.failures);
        record
    }

    /// Takes down that the answer cannot be carried out; says why it is refused, where the policy
    /// is to refuse.
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
    async fn append(
        self,
        draft: &Draft,
        planned: &PlannedCommit,
        tool: Option<String>,
    ) -> Result<Ruling> {
        let mut changed = None;
        if let Content::ToolResult(answer) = &draft.content {
            match Box::pin(self.result(draft, answer, tool)).await? {
                MessageRuling::Same => {}
                MessageRuling::Changed(draft) => changed = Some(draft),
                MessageRuling::Stop(ruling) => return Ok(ruling),
            }
        }
        if self.repo.hooks().has_handler::<BeforeCommit>() {
            let current = changed.as_deref().unwrap_or(draft);
            match Box::pin(self.commit(current, planned)).await? {
                MessageRuling::Same => {}
                MessageRuling::Changed(draft) => changed = Some(draft),
                MessageRuling::Stop(ruling) => return Ok(ruling),
            }
        }
        Ok(match changed {
            Some(draft) => Ruling::Instead(Box::new(Request::Append(*draft))),
            None => Ruling::AsAsked,
        })
    }

    /// Asks about a tool's result: the handlers, then the repository's own rule.
    async fn result(
        self,
        draft: &Draft,
        answer: &ToolAnswer,
        tool: Option<String>,
    ) -> Result<MessageRuling> {
        let hooks = self.repo.hooks();
        let tool = answer.name.clone().or(tool);
        if !hooks.has_handler::<ToolResultReceived>() {
            let (event, handler, failures) = ("tool_result_received", None, Vec::new());
            let source = DecisionSource { event, handler, failures };
            return self.automatic(draft, tool.as_deref(), source).await;
        }
        let tokens = self.repo.count(&draft.content.text());
        let mut event = ToolResultReceived::new(
            self.branch.clone(),
            answer.call_id.clone(),
            answer.parts.clone(),
        )
        .head(self.head)
        .is_error(answer.is_error)
        .token_count(tokens);
        event.tool_name = tool.clone();
        let decision = hooks.tool_result_received(&event).await;
        let source = DecisionSource::of(&decision);
        match decision.into_action() {
            ToolResultAction::Pass => self.automatic(draft, tool.as_deref(), source).await,
            ToolResultAction::Approve => Ok(self.unchanged(draft, &source)),
            ToolResultAction::Edit(parts) => {
                let fits = |part: &Part| {
                    matches!(part, Part::Text { .. } | Part::Image { .. } | Part::Opaque { .. })
                };
                if !parts.iter().all(fits) {
                    let why = "a result holds text, pictures and opaque parts alone";
                    return self.invalid(draft, source, why);
                }
                let content = Content::ToolResult(ToolAnswer { parts, ..answer.clone() });
                match self.fitting(&draft.content, content) {
                    Ok(content) => self.edited(draft, content, &source),
                    Err(why) => self.invalid(draft, source, &why),
                }
            }
            ToolResultAction::Summarize(how) => {
                self.summarized(draft, tool.as_deref(), source, &how).await
            }
            ToolResultAction::Reject(reason) => self.stopped(draft, source, reason),
            ToolResultAction::Defer(reason) => self.waiting(draft, source, reason),
            other => self.invalid(draft, source, &not_here(&other)),
        }
    }

    /// Carries out the repository's own rule, where no handler decided.
    async fn automatic(
        self,
        draft: &Draft,
        tool: Option<&str>,
        mut source: DecisionSource,
    ) -> Result<MessageRuling> {
        let config = match self.summaries.and_then(OnceLock::get) {
            Some(known) => known.clone(),
            None => {
                let read = self.repo.tool_summarization().await?;
                if let Some(summaries) = self.summaries {
                    // A faster task read the same.
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
            None => Ok(self.unchanged(draft, &source)),
        }
    }

    async fn commit(self, draft: &Draft, planned: &PlannedCommit) -> Result<MessageRuling> {
        let event = BeforeCommit::new(self.branch.clone(), draft.clone())
            .head(self.head)
            .op(planned.record.op.clone());
        let decision = self.repo.hooks().before_commit(&event).await;
        let source = DecisionSource::of(&decision);
        match decision.into_action() {
            CommitAction::Pass | CommitAction::Approve => Ok(self.unchanged(draft, &source)),
            CommitAction::Edit(content) => match self.fitting(&draft.content, content) {
                Ok(content) => self.edited(draft, content, &source),
                Err(why) => self.invalid(draft, source, &why),
            },
            CommitAction::Reject(reason) => self.stopped(draft, source, reason),
            CommitAction::Defer(reason) => self.waiting(draft, source, reason),
            other => self.invalid(draft, source, &not_here(&other)),
        }
    }
}

fn not_here(action: &impl tract_hooks::Action) -> String {
    format!("{:?} is not supported here", action.name())
}

/// Puts a text in the place of the texts among parts; pictures and the rest stay.
pub(crate) fn with_summary(answer: &ToolAnswer, text: &str) -> Content {
    let others = answer.parts.iter().filter(|part| !matches!(part, Part::Text { .. })).cloned();
    let parts = std::iter::once(Part::text(text)).chain(others).collect();
    Content::ToolResult(ToolAnswer { parts, ..answer.clone() })
}

/// Reads what a planned edit says.
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
