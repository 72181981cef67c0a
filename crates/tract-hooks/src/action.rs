//! What handlers answer.

use tract_core::{Content, Part};

/// The meaning of an action for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActionKind<'a> {
    /// No opinion: the next handler is asked.
    Pass,
    /// Continue as asked.
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
    fn kind(&self) -> ActionKind<'_>;

    /// Translates the answer of a handler for all events.
    ///
    /// # Errors
    /// [`ForeignAction`] when it is the answer to another event.
    fn from_any(action: AnyAction) -> Result<Self, ForeignAction>;

    /// Returns the answer that rejects the event, with this reason.
    fn refuse(reason: String) -> Self;
}

/// The answer of a handler for all events.
///
/// It can be everything that the answer of a handler for one event can be: the action of an event
/// converts into it.
///
/// ```
/// use tract_hooks::{AnyAction, AnyEvent, Hooks, Summarize, ToolResultAction, ToolResultReceived};
/// let hooks = Hooks::new().on_any("short", |event| match event {
///     AnyEvent::ToolResultReceived(result) if result.token_count > 500 => {
///         ToolResultAction::from(Summarize::to_tokens(100)).into()
///     }
///     _ => AnyAction::Pass,
/// });
/// assert!(hooks.has_handler::<ToolResultReceived>());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnyAction {
    /// No opinion.
    Pass,
    /// Continue as asked: commit, run, compile, compress or merge.
    Approve,
    /// Do not, for this reason. Of compiling and dispatching: refuse.
    Reject(String),
    /// Leave it for a person to decide, for this reason. A compile cannot wait: it is refused.
    Defer(String),
    /// The answer to [`BeforeCommit`](crate::BeforeCommit), such as an edit.
    Commit(CommitAction),
    /// The answer to [`ToolResultReceived`](crate::ToolResultReceived), such as a summary.
    ToolResult(ToolResultAction),
    /// The answer to [`BeforeDispatch`](crate::BeforeDispatch), such as other arguments.
    Dispatch(DispatchAction),
    /// The answer to [`BeforeCompile`](crate::BeforeCompile).
    Compile(CompileAction),
    /// The answer to [`BeforeCompress`](crate::BeforeCompress), such as another summary.
    Compress(CompressAction),
    /// The answer to [`BeforeMerge`](crate::BeforeMerge).
    Merge(MergeAction),
}

/// A handler for all events answered one event with the action of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{action:?} belongs to another event")]
pub struct ForeignAction {
    /// The stable word for the action.
    pub action: &'static str,
}

impl AnyAction {
    /// Returns the stable word for the answer.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Approve => "approve",
            Self::Reject(_) => "reject",
            Self::Defer(_) => "defer",
            Self::Commit(action) => action.name(),
            Self::ToolResult(action) => action.name(),
            Self::Dispatch(action) => action.name(),
            Self::Compile(action) => action.name(),
            Self::Compress(action) => action.name(),
            Self::Merge(action) => action.name(),
        }
    }
}

/// What the variants of each action come to: the one that continues, the one that stops for a reason,
/// the one that leaves it for a person (a compile cannot wait, so it stops), and those that have to
/// be carried out first.
macro_rules! actions {
    ($($action:ident is $variant:ident: go $go:ident $go_name:literal, stop $stop:ident $stop_name:literal,
       defer $defer:ident $(, change $change:ident $change_name:literal)*;)*) => {$(
        impl Action for $action {
            fn pass() -> Self {
                Self::Pass
            }

            fn name(&self) -> &'static str {
                match self {
                    Self::Pass => "pass",
                    Self::$go => $go_name,
                    Self::$stop(_) => $stop_name,
                    $(Self::$change(_) => $change_name,)*
                }
            }

            fn kind(&self) -> ActionKind<'_> {
                match self {
                    Self::Pass => ActionKind::Pass,
                    Self::$go => ActionKind::Go,
                    Self::$stop(reason) => ActionKind::Stop(reason),
                    $(Self::$change(_) => ActionKind::Change,)*
                }
            }

            fn from_any(action: AnyAction) -> Result<Self, ForeignAction> {
                match action {
                    AnyAction::Pass => Ok(Self::Pass),
                    AnyAction::Approve => Ok(Self::$go),
                    AnyAction::Reject(reason) => Ok(Self::$stop(reason)),
                    AnyAction::Defer(reason) => Ok(Self::$defer(reason)),
                    AnyAction::$variant(action) => Ok(action),
                    foreign => Err(ForeignAction { action: foreign.name() }),
                }
            }

            fn refuse(reason: String) -> Self {
                Self::$stop(reason)
            }
        }

        impl From<$action> for AnyAction {
            fn from(action: $action) -> Self {
                Self::$variant(action)
            }
        }
    )*};
}

actions! {
    CommitAction is Commit: go Approve "approve", stop Reject "reject", defer Defer,
        change Edit "edit", change Defer "defer";
    ToolResultAction is ToolResult: go Approve "approve", stop Reject "reject", defer Defer,
        change Edit "edit", change Summarize "summarize", change Defer "defer";
    DispatchAction is Dispatch: go Run "run", stop Refuse "refuse", defer Defer,
        change Replace "replace", change Defer "defer";
    CompileAction is Compile: go Approve "approve", stop Refuse "refuse", defer Refuse;
    CompressAction is Compress: go Approve "approve", stop Reject "reject", defer Defer,
        change Edit "edit", change Defer "defer";
    MergeAction is Merge: go Approve "approve", stop Reject "reject", defer Defer,
        change Defer "defer";
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
    /// Leave it as a pending approval, for this reason.
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
    /// Leave it as a pending approval, for this reason.
    Defer(String),
}

impl ToolResultAction {
    /// Commits this text instead.
    pub fn edit(text: impl Into<String>) -> Self {
        Self::Edit(vec![Part::text(text)])
    }
}

/// Instructions for summarizing a result: data, which a port carries out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summarize {
    /// Target length of the summary, in tokens.
    pub target_tokens: Option<u64>,
    /// What has to be kept.
    pub instructions: Option<String>,
    /// Patterns (regular expressions): what they match of the text must be in the summary.
    pub must_keep: Vec<String>,
    /// Whether the summarizer sees the conversation, to keep what matters to it.
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

    /// Sets what the summary must keep.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Adds a pattern: what it matches of the text must be in the summary.
    #[must_use]
    pub fn must_keep(mut self, pattern: impl Into<String>) -> Self {
        self.must_keep.push(pattern.into());
        self
    }

    /// Lets the summarizer see the conversation.
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
    /// Leave it as a pending approval, for this reason.
    Defer(String),
}

/// The answer to [`BeforeCompile`](crate::BeforeCompile). It never changes what is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompileAction {
    /// No opinion.
    Pass,
    /// Compile.
    Approve,
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
    /// Leave it as a pending approval, for this reason.
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
    /// Leave it as a pending approval, for this reason.
    Defer(String),
}

/// The answer to [`RefMoved`](crate::RefMoved): what happened has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefMovedAction {
    /// Heard.
    Pass,
}

impl Action for RefMovedAction {
    fn pass() -> Self {
        Self::Pass
    }

    fn name(&self) -> &'static str {
        "pass"
    }

    fn kind(&self) -> ActionKind<'_> {
        ActionKind::Pass
    }

    /// Handlers for all events do not hear this one, so there is nothing to translate.
    fn from_any(_: AnyAction) -> Result<Self, ForeignAction> {
        Ok(Self::Pass)
    }

    /// What has happened cannot be refused.
    fn refuse(_: String) -> Self {
        Self::Pass
    }
}
