//! What the handlers, and the repository's own rules, make of a request before it is written.

use tract_core::{
    Blob, By, Change, CommitId, Content, Draft, Origin, Part, RefName, This, ToolAnswer,
};
use tract_hooks::{
    BeforeCommit, BeforeCompress, CommitAction, CompressAction, Decision, DecisionRecord,
    HandlerFailure, OnFailure, Summarize, ToolResultAction, ToolResultReceived,
};

use super::{Asked, Decided, Deferred, Document, Pending, Rejected, fresh_id};
use crate::error::Result;
use crate::plan::{Details, NewContent, Planned, Request};
use crate::repo::Repo;
use crate::summarise::summary_of;

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
    Deferred(Deferred, Document),
}

/// Where a request would be written.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) repo: &'a Repo,
    pub(crate) branch: &'a RefName,
    pub(crate) head: Option<CommitId>,
}

impl Ruling {
    /// Asks about a request that could be carried out. `tool` is the name of the tool whose
    /// result it brings, as the call has it.
    pub(crate) async fn on(
        place: Place<'_>,
        request: &Request,
        planned: &Planned,
        tool: Option<String>,
    ) -> Result<Self> {
        let hooks = place.repo.hooks();
        match request {
            Request::Append(draft) => place.append(draft, planned, tool).await,
            Request::Edit { target, details, .. } if hooks.hears::<BeforeCommit>() => {
                place.edit(*target, said(planned)?, details, planned).await
            }
            Request::Compress { .. } if hooks.hears::<BeforeCompress>() => {
                place.compress(request, planned).await
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
enum Step {
    Same,
    Changed(Box<Draft>),
    Stop(Ruling),
}

/// Who decided, on what, and which handlers failed before.
struct Said {
    event: &'static str,
    handler: String,
    failures: Vec<String>,
}

impl Said {
    fn of<A: tract_hooks::Action>(decision: &Decision<A>) -> Self {
        Self {
            event: decision.event(),
            handler: decision.by().unwrap_or_default().to_owned(),
            failures: decision.failures().iter().map(ToString::to_string).collect(),
        }
    }
}

impl Place<'_> {
    async fn append(
        self,
        draft: &Draft,
        planned: &Planned,
        tool: Option<String>,
    ) -> Result<Ruling> {
        let mut changed = None;
        if let Content::ToolResult(answer) = &draft.content {
            match self.result(draft, answer, tool).await? {
                Step::Same => {}
                Step::Changed(draft) => changed = Some(draft),
                Step::Stop(ruling) => return Ok(ruling),
            }
        }
        if self.repo.hooks().hears::<BeforeCommit>() {
            let current = changed.as_deref().unwrap_or(draft);
            match self.commit(current, planned).await? {
                Step::Same => {}
                Step::Changed(draft) => changed = Some(draft),
                Step::Stop(ruling) => return Ok(ruling),
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
    ) -> Result<Step> {
        let hooks = self.repo.hooks();
        let text = draft.content.text();
        let tokens = self.repo.count(&text);
        let tool = answer.name.clone().or(tool);
        let automatic = |config: Option<std::sync::Arc<tract_hooks::ToolSummarization>>| {
            config.and_then(|config| config.rule(tool.as_deref(), tokens))
        };
        if !hooks.hears::<ToolResultReceived>() {
            let said = Said {
                event: "tool_result_received",
                handler: AUTOMATIC.to_owned(),
                failures: Vec::new(),
            };
            return match automatic(self.repo.tool_summarization().await?) {
                Some(how) => self.summarized(draft, tool.as_deref(), said, &how).await,
                None => Ok(Step::Same),
            };
        }
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
        let mut said = Said::of(&decision);
        match decision.into_action() {
            ToolResultAction::Pass => match automatic(self.repo.tool_summarization().await?) {
                Some(how) => {
                    said.handler = AUTOMATIC.to_owned();
                    self.summarized(draft, tool.as_deref(), said, &how).await
                }
                None => Ok(self.unchanged(draft, said)),
            },
            ToolResultAction::Approve => Ok(self.unchanged(draft, said)),
            ToolResultAction::Edit(parts) => {
                let fits = |part: &Part| {
                    matches!(part, Part::Text { .. } | Part::Image { .. } | Part::Opaque { .. })
                };
                if !parts.iter().all(fits) {
                    let why = "a result holds text, pictures and opaque parts alone";
                    return self.invalid(draft, said, why);
                }
                let content = Content::ToolResult(ToolAnswer { parts, ..answer.clone() });
                Ok(Step::Changed(Box::new(self.instead(draft, content, &said, "edit", |_| {})?)))
            }
            ToolResultAction::Summarize(how) => {
                self.summarized(draft, tool.as_deref(), said, &how).await
            }
            ToolResultAction::Reject(reason) => {
                self.rejected(Asked::Append(Box::new(draft.clone())), said, reason).map(Step::Stop)
            }
            ToolResultAction::Defer(reason) => {
                self.deferred(Asked::Append(Box::new(draft.clone())), said, reason).map(Step::Stop)
            }
            other => {
                let why =
                    format!("{:?} is not carried out here", tract_hooks::Action::name(&other));
                self.invalid(draft, said, &why)
            }
        }
    }

    async fn commit(self, draft: &Draft, planned: &Planned) -> Result<Step> {
        let event = BeforeCommit::new(self.branch.clone(), draft.clone())
            .head(self.head)
            .op(planned.record.op.clone());
        let decision = self.repo.hooks().before_commit(&event).await;
        let said = Said::of(&decision);
        match decision.into_action() {
            CommitAction::Pass | CommitAction::Approve => Ok(self.unchanged(draft, said)),
            CommitAction::Edit(content) => match fitting(&draft.content, content) {
                Ok(content) => Ok(Step::Changed(Box::new(self.instead(
                    draft,
                    content,
                    &said,
                    "edit",
                    |_| {},
                )?))),
                Err(why) => self.invalid(draft, said, &why),
            },
            CommitAction::Reject(reason) => {
                self.rejected(Asked::Append(Box::new(draft.clone())), said, reason).map(Step::Stop)
            }
            CommitAction::Defer(reason) => {
                self.deferred(Asked::Append(Box::new(draft.clone())), said, reason).map(Step::Stop)
            }
            other => {
                let why =
                    format!("{:?} is not carried out here", tract_hooks::Action::name(&other));
                self.invalid(draft, said, &why)
            }
        }
    }

    async fn edit(
        self,
        target: CommitId,
        content: Content,
        details: &Details,
        planned: &Planned,
    ) -> Result<Ruling> {
        let draft = Draft {
            message: details.message.clone(),
            metadata: details.metadata.clone(),
            ..Draft::new(content.clone()).origin(details.origin.clone())
        };
        let asked = || Asked::Edit { target, content: content.clone(), details: details.clone() };
        let event = BeforeCommit::new(self.branch.clone(), draft.clone())
            .head(self.head)
            .op(planned.record.op.clone());
        let decision = self.repo.hooks().before_commit(&event).await;
        let said = Said::of(&decision);
        match decision.into_action() {
            CommitAction::Pass | CommitAction::Approve => Ok(Ruling::AsAsked),
            CommitAction::Edit(other) => match fitting(&content, other) {
                Ok(other) => {
                    let changed = self.instead(&draft, other, &said, "edit", |_| {})?;
                    Ok(Ruling::Instead(Box::new(Request::Edit {
                        target,
                        content: NewContent::Content(changed.content),
                        details: Details {
                            origin: changed.origin,
                            keeps: changed.keeps.into_iter().chain(details.keeps.clone()).collect(),
                            ..details.clone()
                        },
                    })))
                }
                Err(why) => {
                    let failure = HandlerFailure::invalid(said.handler.clone(), why);
                    match self.repo.hooks().failure_policy() {
                        OnFailure::PassOn => Ok(Ruling::AsAsked),
                        _ => self.rejected(asked(), said, failure.to_string()),
                    }
                }
            },
            CommitAction::Reject(reason) => self.rejected(asked(), said, reason),
            CommitAction::Defer(reason) => self.deferred(asked(), said, reason),
            other => {
                let why =
                    format!("{:?} is not carried out here", tract_hooks::Action::name(&other));
                self.rejected(asked(), said, why)
            }
        }
    }

    async fn compress(self, request: &Request, planned: &Planned) -> Result<Ruling> {
        let Request::Compress { select, content, role, details } = request else {
            return Ok(Ruling::AsAsked);
        };
        let mut before = 0;
        let mut sources = Vec::new();
        for change in &planned.changes {
            if let Change::Remove { slot: This::Id(slot), row } = change {
                sources.push(*slot);
                // What this very write made is not stored yet; its tokens are not counted.
                if let This::Id(version) = row.version
                    && let Ok(content) = self.repo.content_of(version).await
                {
                    before += self.repo.count(&content.text());
                }
            }
        }
        let asked = || Asked::Compress {
            select: select.clone(),
            content: content.clone(),
            role: role.clone(),
            details: details.clone(),
        };
        let event = BeforeCompress::new(self.branch.clone(), sources, content.clone())
            .head(self.head)
            .tokens(before, self.repo.count(&content.text()));
        let decision = self.repo.hooks().before_compress(&event).await;
        let said = Said::of(&decision);
        match decision.into_action() {
            CompressAction::Pass | CompressAction::Approve => Ok(Ruling::AsAsked),
            CompressAction::Edit(text) => {
                let draft = Draft::new(content.clone());
                let other = match content {
                    Content::User(_) => Content::user(text),
                    Content::System(_) => Content::system(text),
                    _ => Content::assistant(text),
                };
                let changed = self.instead(&draft, other, &said, "edit", |_| {})?;
                Ok(Ruling::Instead(Box::new(Request::Compress {
                    select: select.clone(),
                    content: changed.content,
                    role: role.clone(),
                    details: Details {
                        origin: changed.origin,
                        keeps: changed.keeps.into_iter().chain(details.keeps.clone()).collect(),
                        ..details.clone()
                    },
                })))
            }
            CompressAction::Reject(reason) => self.rejected(asked(), said, reason),
            CompressAction::Defer(reason) => self.deferred(asked(), said, reason),
            other => {
                let why =
                    format!("{:?} is not carried out here", tract_hooks::Action::name(&other));
                self.rejected(asked(), said, why)
            }
        }
    }

    /// The message goes on as it is; handlers that failed on the way are written down with it.
    fn unchanged(self, draft: &Draft, said: Said) -> Step {
        if said.failures.is_empty() {
            return Step::Same;
        }
        let mut record = DecisionRecord::new(said.event, "pass", self.repo.now_us());
        record.failures = said.failures;
        let mut draft = draft.clone();
        draft.origin.detail = record.to_json();
        Step::Changed(Box::new(draft))
    }

    /// The handler's answer cannot be carried out: what becomes of that, the policy says.
    fn invalid(self, draft: &Draft, mut said: Said, why: &str) -> Result<Step> {
        let failure = HandlerFailure::invalid(said.handler.clone(), why).to_string();
        match self.repo.hooks().failure_policy() {
            OnFailure::PassOn => {
                said.failures.push(failure);
                Ok(self.unchanged(draft, said))
            }
            _ => {
                self.rejected(Asked::Append(Box::new(draft.clone())), said, failure).map(Step::Stop)
            }
        }
    }

    /// Makes the message that is committed instead: it keeps the original, and says why it reads
    /// as it does.
    fn instead(
        self,
        draft: &Draft,
        content: Content,
        said: &Said,
        action: &str,
        more: impl FnOnce(&mut DecisionRecord),
    ) -> Result<Draft> {
        let original = Blob::seal(draft.content.to_blob()?);
        let mut record = DecisionRecord::new(said.event, action, self.repo.now_us());
        record.handler = Some(said.handler.clone());
        record.failures = said.failures.clone();
        record.by = Some(draft.origin.by.as_str().to_owned());
        record.before = Some(original.id().to_hex());
        record.after = Some(Blob::seal(content.to_blob()?).id().to_hex());
        record.tokens_before = Some(self.repo.count(&draft.content.text()));
        record.tokens_after = Some(self.repo.count(&content.text()));
        more(&mut record);
        let mut changed = Draft { content, form: None, verbatim: None, ..draft.clone() };
        changed.origin = Origin {
            by: By::Hook,
            id: Some(said.handler.clone()),
            triggered_by: Some(said.event.to_owned()),
            picked_from: None,
            detail: record.to_json(),
        };
        // What another handler changed before has its original first, and it stays first.
        match draft.origin.by {
            By::Hook => changed.keeps.push(original),
            By::User | By::Model | By::Tool | By::Import => changed.keeps.insert(0, original),
        }
        Ok(changed)
    }

    /// Carries out a summary; without one the result goes on as it came, with a note of that.
    async fn summarized(
        self,
        draft: &Draft,
        tool: Option<&str>,
        said: Said,
        how: &Summarize,
    ) -> Result<Step> {
        let Content::ToolResult(answer) = &draft.content else { return Ok(Step::Same) };
        let instructions = how.instructions.clone();
        match summary_of(self, &draft.content, tool, how).await {
            Ok(summary) => {
                let content = Content::ToolResult(ToolAnswer {
                    parts: with_text(&answer.parts, &summary.text),
                    ..answer.clone()
                });
                let changed = self.instead(draft, content, &said, "summarize", |record| {
                    record.instructions = instructions;
                    record.model = summary.by;
                })?;
                Ok(Step::Changed(Box::new(changed)))
            }
            Err(error) => {
                let mut record = DecisionRecord::new(said.event, "summarize", self.repo.now_us());
                record.handler = Some(said.handler.clone());
                record.failures = said.failures;
                record.instructions = instructions;
                record.note = Some(format!("as it came: {error}"));
                let mut draft = draft.clone();
                draft.origin.triggered_by = Some(said.handler);
                draft.origin.detail = record.to_json();
                Ok(Step::Changed(Box::new(draft)))
            }
        }
    }

    fn rejected(self, asked: Asked, said: Said, reason: String) -> Result<Ruling> {
        let mut record = DecisionRecord::new(said.event, "reject", self.repo.now_us());
        record.handler = Some(said.handler.clone());
        record.reason = Some(reason.clone());
        record.failures = said.failures;
        let id = fresh_id("d")?;
        let content = asked.content().cloned();
        let decided =
            Decided { id: id.clone(), branch: self.branch.clone(), record, asked, commit: None };
        let document = Document::decided(&decided)?;
        let event = said.event.to_owned();
        let rejected = Rejected { decision: id, event, handler: said.handler, reason, content };
        Ok(Ruling::Rejected(Box::new(rejected), document))
    }

    fn deferred(self, asked: Asked, said: Said, reason: String) -> Result<Ruling> {
        let (pending, document) = self.pending(asked, said.event, &said.handler, reason)?;
        let Pending { id, event, handler, reason, .. } = pending;
        Ok(Ruling::Deferred(Deferred { id, event, handler, reason }, document))
    }

    pub(super) fn pending(
        self,
        asked: Asked,
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
            asked,
        };
        let document = Document::pending(&pending)?;
        Ok((pending, document))
    }

    /// Rules on a merge by a handler's answer.
    pub(crate) fn merge(
        self,
        decision: Decision<tract_hooks::MergeAction>,
        asked: Asked,
    ) -> Result<Ruling> {
        use tract_hooks::MergeAction;
        let said = Said::of(&decision);
        match decision.into_action() {
            MergeAction::Pass | MergeAction::Approve => Ok(Ruling::AsAsked),
            MergeAction::Reject(reason) => self.rejected(asked, said, reason),
            MergeAction::Defer(reason) => self.deferred(asked, said, reason),
            other => {
                let why =
                    format!("{:?} is not carried out here", tract_hooks::Action::name(&other));
                self.rejected(asked, said, why)
            }
        }
    }
}

/// Checks that a handler's content can stand in the place of what was asked for.
fn fitting(old: &Content, new: Content) -> Result<Content, String> {
    if old.kind() != new.kind() {
        return Err(format!("expected {}, found {}", old.kind(), new.kind()));
    }
    match (old, new) {
        (Content::ToolResult(old), Content::ToolResult(new)) => {
            Ok(Content::ToolResult(ToolAnswer { parts: new.parts, ..old.clone() }))
        }
        (_, new) => Ok(new),
    }
}

/// Puts a text in the place of the texts among parts; pictures and the rest stay.
pub(super) fn with_text(parts: &[Part], text: &str) -> Vec<Part> {
    let others = parts.iter().filter(|part| !matches!(part, Part::Text { .. })).cloned();
    std::iter::once(Part::text(text)).chain(others).collect()
}

/// Reads what a planned edit says.
fn said(planned: &Planned) -> Result<Content> {
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
