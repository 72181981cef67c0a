//! What handlers answer.

use tract_core::{Content, Part};

/// What an action comes to for whoever asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict<'a> {
    /// No opinion: the next handler is asked.
    Pass,
    /// Go on as asked.
    Go,
    /// Do not, for this reason.
    Stop(&'a str),
    /// Something that has to be carried out first.
    Change,
}

/// The answers to one event.
pub trait Action: Clone + Send + Sync + 'static {
    /// Returns the answer of who has no opinion.
    fn pass() -> Self;

    /// Returns the stable word for the answer.
    fn name(&self) -> &'static str;

    /// Returns what it comes to.
    fn verdict(&self) -> Verdict<'_>;

    /// Returns the answer that says the same as that of a handler for all events.
    fn from_any(action: AnyAction) -> Self;

    /// Returns the answer that does not go on, for this reason.
    fn refuse(reason: String) -> Self {
        Self::from_any(AnyAction::Reject(reason))
    }
}

/// The answer of a handler that hears every event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnyAction {
    /// No opinion.
    Pass,
    /// Do not, for this reason. Of compiling and dispatching: refuse.
    Reject(String),
    /// Leave it for somebody to decide, for this reason. A compile cannot wait: it is refused.
    Defer(String),
}

/// The answer to [`BeforeCommit`](crate::BeforeCommit).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitAction {
    /// No opinion.
    Pass,
    /// Commit it.
    Approve,
    /// Commit this instead, of the same kind; the original is kept.
    Edit(Content),
    /// Do not commit it, for this reason.
    Reject(String),
    /// Leave it for somebody to decide, for this reason.
    Defer(String),
}

/// The answer to [`ToolResultReceived`](crate::ToolResultReceived).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolResultAction {
    /// No opinion.
    Pass,
    /// Commit it.
    Approve,
    /// Commit these parts instead; the original is kept.
    Edit(Vec<Part>),
    /// Commit a summary instead; the original is kept.
    Summarize(Summarize),
    /// Do not commit it, for this reason.
    Reject(String),
    /// Leave it for somebody to decide, for this reason.
    Defer(String),
}

impl ToolResultAction {
    /// Commits this text instead.
    pub fn edit(text: impl Into<String>) -> Self {
        Self::Edit(vec![Part::text(text)])
    }
}

/// How a result is to be summarised: data, which a port carries out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summarize {
    /// How long the summary should be.
    pub target_tokens: Option<u64>,
    /// What has to be kept.
    pub instructions: Option<String>,
    /// Patterns (regular expressions): whatever of the text they match must stand in the summary.
    pub must_keep: Vec<String>,
    /// Whether the summariser sees the conversation, to keep what matters to it.
    pub with_context: bool,
}

impl Summarize {
    /// Asks for a summary with nothing said about how.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for a summary of about so many tokens.
    pub fn to_tokens(target_tokens: u64) -> Self {
        Self { target_tokens: Some(target_tokens), ..Self::default() }
    }

    /// Says what has to be kept.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Adds a pattern: whatever of the text it matches must stand in the summary.
    #[must_use]
    pub fn must_keep(mut self, pattern: impl Into<String>) -> Self {
        self.must_keep.push(pattern.into());
        self
    }

    /// Lets the summariser see the conversation.
    #[must_use]
    pub fn with_context(mut self) -> Self {
        self.with_context = true;
        self
    }
}

impl From<Summarize> for ToolResultAction {
    fn from(how: Summarize) -> Self {
        Self::Summarize(how)
    }
}

/// The answer to [`BeforeDispatch`](crate::BeforeDispatch).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DispatchAction {
    /// No opinion.
    Pass,
    /// Run the tool.
    Run,
    /// Run the tool with these arguments instead: JSON text.
    Replace(String),
    /// Do not run it; the model is answered with this reason.
    Refuse(String),
    /// Leave it for somebody to decide, for this reason.
    Defer(String),
}

/// The answer to [`BeforeCompile`](crate::BeforeCompile). It never changes what is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompileAction {
    /// No opinion.
    Pass,
    /// Do not compile, for this reason.
    Refuse(String),
}

/// The answer to [`BeforeCompress`](crate::BeforeCompress).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompressAction {
    /// No opinion.
    Pass,
    /// Compress.
    Approve,
    /// Compress to this summary instead.
    Edit(String),
    /// Do not compress, for this reason.
    Reject(String),
    /// Leave it for somebody to decide, for this reason.
    Defer(String),
}

/// The answer to [`BeforeMerge`](crate::BeforeMerge).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergeAction {
    /// No opinion.
    Pass,
    /// Merge.
    Approve,
    /// Do not merge, for this reason.
    Reject(String),
    /// Leave it for somebody to decide, for this reason.
    Defer(String),
}

/// The answer to [`RefMoved`](crate::RefMoved): what happened has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefMovedAction {
    /// Heard.
    Pass,
}

impl Action for CommitAction {
    fn pass() -> Self {
        Self::Pass
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Approve => "approve",
            Self::Edit(_) => "edit",
            Self::Reject(_) => "reject",
            Self::Defer(_) => "defer",
        }
    }

    fn verdict(&self) -> Verdict<'_> {
        match self {
            Self::Pass => Verdict::Pass,
            Self::Approve => Verdict::Go,
            Self::Reject(reason) => Verdict::Stop(reason),
            Self::Edit(_) | Self::Defer(_) => Verdict::Change,
        }
    }

    fn from_any(action: AnyAction) -> Self {
        match action {
            AnyAction::Pass => Self::Pass,
            AnyAction::Reject(reason) => Self::Reject(reason),
            AnyAction::Defer(reason) => Self::Defer(reason),
        }
    }
}

impl Action for ToolResultAction {
    fn pass() -> Self {
        Self::Pass
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Approve => "approve",
            Self::Edit(_) => "edit",
            Self::Summarize(_) => "summarize",
            Self::Reject(_) => "reject",
            Self::Defer(_) => "defer",
        }
    }

    fn verdict(&self) -> Verdict<'_> {
        match self {
            Self::Pass => Verdict::Pass,
            Self::Approve => Verdict::Go,
            Self::Reject(reason) => Verdict::Stop(reason),
            Self::Edit(_) | Self::Summarize(_) | Self::Defer(_) => Verdict::Change,
        }
    }

    fn from_any(action: AnyAction) -> Self {
        match action {
            AnyAction::Pass => Self::Pass,
            AnyAction::Reject(reason) => Self::Reject(reason),
            AnyAction::Defer(reason) => Self::Defer(reason),
        }
    }
}

impl Action for DispatchAction {
    fn pass() -> Self {
        Self::Pass
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Run => "run",
            Self::Replace(_) => "replace",
            Self::Refuse(_) => "refuse",
            Self::Defer(_) => "defer",
        }
    }

    fn verdict(&self) -> Verdict<'_> {
        match self {
            Self::Pass => Verdict::Pass,
            Self::Run => Verdict::Go,
            Self::Refuse(reason) => Verdict::Stop(reason),
            Self::Replace(_) | Self::Defer(_) => Verdict::Change,
        }
    }

    fn from_any(action: AnyAction) -> Self {
        match action {
            AnyAction::Pass => Self::Pass,
            AnyAction::Reject(reason) => Self::Refuse(reason),
            AnyAction::Defer(reason) => Self::Defer(reason),
        }
    }
}

impl Action for CompileAction {
    fn pass() -> Self {
        Self::Pass
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Refuse(_) => "refuse",
        }
    }

    fn verdict(&self) -> Verdict<'_> {
        match self {
            Self::Pass => Verdict::Pass,
            Self::Refuse(reason) => Verdict::Stop(reason),
        }
    }

    fn from_any(action: AnyAction) -> Self {
        match action {
            AnyAction::Pass => Self::Pass,
            AnyAction::Reject(reason) | AnyAction::Defer(reason) => Self::Refuse(reason),
        }
    }
}

impl Action for CompressAction {
    fn pass() -> Self {
        Self::Pass
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Approve => "approve",
            Self::Edit(_) => "edit",
            Self::Reject(_) => "reject",
            Self::Defer(_) => "defer",
        }
    }

    fn verdict(&self) -> Verdict<'_> {
        match self {
            Self::Pass => Verdict::Pass,
            Self::Approve => Verdict::Go,
            Self::Reject(reason) => Verdict::Stop(reason),
            Self::Edit(_) | Self::Defer(_) => Verdict::Change,
        }
    }

    fn from_any(action: AnyAction) -> Self {
        match action {
            AnyAction::Pass => Self::Pass,
            AnyAction::Reject(reason) => Self::Reject(reason),
            AnyAction::Defer(reason) => Self::Defer(reason),
        }
    }
}

impl Action for MergeAction {
    fn pass() -> Self {
        Self::Pass
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Approve => "approve",
            Self::Reject(_) => "reject",
            Self::Defer(_) => "defer",
        }
    }

    fn verdict(&self) -> Verdict<'_> {
        match self {
            Self::Pass => Verdict::Pass,
            Self::Approve => Verdict::Go,
            Self::Reject(reason) => Verdict::Stop(reason),
            Self::Defer(_) => Verdict::Change,
        }
    }

    fn from_any(action: AnyAction) -> Self {
        match action {
            AnyAction::Pass => Self::Pass,
            AnyAction::Reject(reason) => Self::Reject(reason),
            AnyAction::Defer(reason) => Self::Defer(reason),
        }
    }
}

impl Action for RefMovedAction {
    fn pass() -> Self {
        Self::Pass
    }

    fn name(&self) -> &'static str {
        "pass"
    }

    fn verdict(&self) -> Verdict<'_> {
        Verdict::Pass
    }

    /// Handlers for all events do not hear this one, so there is nothing to translate.
    fn from_any(_: AnyAction) -> Self {
        Self::Pass
    }
}
