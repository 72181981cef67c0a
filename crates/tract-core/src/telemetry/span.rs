//! Spans, and the functions that start them.

use crate::batch::Batch;
use crate::id::{CommitId, RepoName, ToolId, ToolsetId, ViewId};
use crate::refs::RefName;
use crate::refs::RefTarget;
use crate::telemetry::names;

/// Starts a span with these fields. The variables that the fields use are listed first, so that the
/// version without telemetry can mark them as used.
#[cfg(feature = "telemetry")]
macro_rules! new_span {
    ([$($of:ident),*] $($fields:tt)*) => {
        Span { inner: tracing::info_span!($($fields)*) }
    };
}

#[cfg(not(feature = "telemetry"))]
macro_rules! new_span {
    ([$($of:ident),*] $($fields:tt)*) => {{
        $(let _ = &$of;)*
        Span {}
    }};
}

pub(super) use new_span;

/// A span. It does nothing without the feature `telemetry`, or if no subscriber records it. Cheap
/// to clone: the span ends with its last clone.
#[derive(Clone, Debug)]
pub struct Span {
    #[cfg(feature = "telemetry")]
    pub(super) inner: tracing::Span,
}

/// The value of an attribute.
#[derive(Clone, Copy, Debug)]
pub enum AttributeValue<'a> {
    /// A text.
    Text(&'a str),
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Number(f64),
    /// A boolean.
    Flag(bool),
}

impl<'a> From<&'a str> for AttributeValue<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a String> for AttributeValue<'a> {
    fn from(value: &'a String) -> Self {
        Self::Text(value)
    }
}

impl From<u64> for AttributeValue<'_> {
    fn from(value: u64) -> Self {
        Self::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<u32> for AttributeValue<'_> {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<usize> for AttributeValue<'_> {
    fn from(value: usize) -> Self {
        Self::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<f64> for AttributeValue<'_> {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<bool> for AttributeValue<'_> {
    fn from(value: bool) -> Self {
        Self::Flag(value)
    }
}

impl Span {
    /// Returns whether a subscriber records the span. Compute expensive attributes only if it does.
    pub fn is_recording(&self) -> bool {
        #[cfg(feature = "telemetry")]
        let recording = !self.inner.is_disabled();
        #[cfg(not(feature = "telemetry"))]
        let recording = false;
        recording
    }

    /// Sets an attribute that was declared with the span; others are ignored.
    pub fn set<'a>(&self, name: &'static str, value: impl Into<AttributeValue<'a>>) {
        #[cfg(feature = "telemetry")]
        match value.into() {
            AttributeValue::Text(text) => self.inner.record(name, text),
            AttributeValue::Integer(number) => self.inner.record(name, number),
            AttributeValue::Number(number) => self.inner.record(name, number),
            AttributeValue::Flag(flag) => self.inner.record(name, flag),
        };
        #[cfg(not(feature = "telemetry"))]
        let _ = (name, value);
    }

    /// Sets an attribute if its value is known.
    #[cfg(feature = "telemetry")]
    pub(super) fn set_known<'a>(
        &self,
        name: &'static str,
        value: Option<impl Into<AttributeValue<'a>>>,
    ) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Sets an attribute to an id, if it is known.
    pub(super) fn set_known_id(&self, name: &'static str, id: Option<impl std::fmt::Display>) {
        if let Some(id) = id {
            self.set_id(name, id);
        }
    }

    /// Sets an attribute to an id. The id is formatted only if a subscriber records the span.
    pub fn set_id(&self, name: &'static str, id: impl std::fmt::Display) {
        #[cfg(feature = "telemetry")]
        self.inner.record(name, tracing::field::display(id));
        #[cfg(not(feature = "telemetry"))]
        let _ = (name, id);
    }

    /// Marks the operation as failed, with the stable name of its error. The error message is left
    /// out, since it may contain content.
    pub fn fail(&self, error: &str) {
        self.set(names::ERROR_TYPE, error);
        self.set(names::OTEL_STATUS, "ERROR");
    }

    /// Runs a future within the span: spans started in it are its children.
    #[cfg(feature = "telemetry")]
    pub fn instrument<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        tracing::Instrument::instrument(future, self.inner.clone())
    }

    /// Runs a future within the span: spans started in it are its children.
    #[cfg(not(feature = "telemetry"))]
    pub fn instrument<F: Future>(&self, future: F) -> F {
        future
    }
}

/// Starts the span of writing a batch to a store.
pub fn store_write(backend: &'static str, repo: &RepoName, batch: &Batch) -> Span {
    let system = if backend == "postgres" { "postgresql" } else { backend };
    let span = new_span!(
        [system, repo, batch]
        target: names::TARGET,
        names::STORE_WRITE,
        { names::OTEL_KIND } = "client",
        { names::OTEL_STATUS } = tracing::field::Empty,
        { names::DB_SYSTEM } = system,
        { names::DB_NAMESPACE } = repo.as_str(),
        { names::DB_OPERATION } = "apply",
        { names::ERROR_TYPE } = tracing::field::Empty,
        { names::TRACT_OPERATION } = batch.note.what.as_str(),
        { names::TRACT_COMMITS } = batch.commits.len(),
        { names::TRACT_COMMIT } = tracing::field::Empty,
        { names::TRACT_TOOLSET } = tracing::field::Empty,
        { names::TRACT_OUTCOME } = tracing::field::Empty,
    );
    if span.is_recording() {
        let mut branches = batch.refs.iter().filter(|edit| edit.name.branch_name().is_some());
        let head = branches.find_map(|edit| edit.to.as_ref().and_then(RefTarget::commit));
        if let Some(head) = head {
            span.set_id(names::TRACT_COMMIT, head);
            let commit = batch.commits.iter().rev().find(|commit| commit.id() == head);
            span.set_known_id(names::TRACT_TOOLSET, commit.and_then(|commit| commit.toolset));
        }
    }
    span
}

/// Starts the span of a compile.
pub fn compile(head: Option<CommitId>) -> Span {
    let span = new_span!(
        []
        target: names::TARGET,
        names::COMPILE,
        { names::OTEL_KIND } = "internal",
        { names::OTEL_STATUS } = tracing::field::Empty,
        { names::ERROR_TYPE } = tracing::field::Empty,
        { names::TRACT_COMMIT } = tracing::field::Empty,
        { names::TRACT_VIEW } = tracing::field::Empty,
        { names::TRACT_TOOLSET } = tracing::field::Empty,
        { names::TRACT_MESSAGES } = tracing::field::Empty,
        { names::TRACT_TOKENS } = tracing::field::Empty,
    );
    span.set_known_id(names::TRACT_COMMIT, head);
    span
}

/// Starts the span of an agent's run, or of one turn.
pub fn agent_run(repo: &RepoName, branch: &RefName) -> Span {
    new_span!(
        [repo, branch]
        target: names::TARGET,
        names::AGENT_RUN,
        { names::OTEL_KIND } = "internal",
        { names::OTEL_STATUS } = tracing::field::Empty,
        { names::OPERATION } = names::AGENT_RUN,
        { names::CONVERSATION } = tracing::field::display(conversation(repo, branch)),
        { names::INPUT_TOKENS } = tracing::field::Empty,
        { names::OUTPUT_TOKENS } = tracing::field::Empty,
        { names::ERROR_TYPE } = tracing::field::Empty,
        { names::TRACT_COMMIT } = tracing::field::Empty,
        { names::TRACT_STOP } = tracing::field::Empty,
        { names::TRACT_STEPS } = tracing::field::Empty,
        { names::TRACT_CALLS } = tracing::field::Empty,
    )
}

/// The attributes that are set when a tool span starts.
#[derive(Clone, Copy, Debug)]
pub struct ToolCallInfo<'a> {
    /// The tool's name.
    pub name: &'a str,
    /// The provider's id of the call.
    pub call_id: &'a str,
    /// The id of the tool's definition.
    pub tool: Option<ToolId>,
    /// The commit with the call.
    pub commit: Option<CommitId>,
    /// The view that the model got.
    pub view: Option<ViewId>,
    /// The tools in force.
    pub toolset: Option<ToolsetId>,
    /// The arguments that the tool gets; recorded only if content is enabled.
    pub arguments: &'a str,
}

/// Starts the span of a tool call.
pub fn tool_call(call: &ToolCallInfo<'_>) -> Span {
    let span = new_span!(
        [call]
        target: names::TARGET,
        names::TOOL,
        { names::OTEL_NAME } = tracing::field::display(format_args!("{} {}", names::TOOL, call.name)),
        { names::OTEL_KIND } = "internal",
        { names::OTEL_STATUS } = tracing::field::Empty,
        { names::OPERATION } = names::TOOL,
        { names::TOOL_NAME } = call.name,
        { names::TOOL_CALL_ID } = call.call_id,
        { names::TOOL_TYPE } = "function",
        { names::ERROR_TYPE } = tracing::field::Empty,
        { names::TRACT_COMMIT } = tracing::field::Empty,
        { names::TRACT_VIEW } = tracing::field::Empty,
        { names::TRACT_TOOLSET } = tracing::field::Empty,
        { names::TRACT_TOOL } = tracing::field::Empty,
        { names::TRACT_OUTCOME } = tracing::field::Empty,
        { names::TRACT_ATTEMPTS } = tracing::field::Empty,
        { names::TOOL_ARGUMENTS } = tracing::field::Empty,
        { names::TOOL_RESULT } = tracing::field::Empty,
    );
    if span.is_recording() {
        span.set_known_id(names::TRACT_COMMIT, call.commit);
        span.set_known_id(names::TRACT_VIEW, call.view);
        span.set_known_id(names::TRACT_TOOLSET, call.toolset);
        span.set_known_id(names::TRACT_TOOL, call.tool);
        if super::captures_content() {
            span.set(names::TOOL_ARGUMENTS, call.arguments);
        }
    }
    span
}

/// Returns the name of a conversation: `REPOSITORY/BRANCH`.
pub(super) fn conversation(repo: &RepoName, branch: &RefName) -> String {
    let branch = branch.branch_name().unwrap_or_else(|| branch.as_str());
    format!("{}/{branch}", repo.as_str())
}
