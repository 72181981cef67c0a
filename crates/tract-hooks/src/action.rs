//! The answers of handlers.

use tract_core::{Content, Part};

/// The meaning of an action for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionKind<'a> {
    /// No opinion. The next handler is called.
    Pass,
    /// Continue with the operation as requested.
    Go,
    /// Do not continue, for this reason.
    Stop(&'a str),
    /// A change that the caller has to carry out first, such as an edit or a deferral.
    Change,
}

/// The possible answers to one event.
pub trait Action: Clone + Send + Sync + 'static {
    /// Returns the answer of a handler without an opinion.
    fn pass() -> Self;

    /// Returns the stable name of the answer.
    fn name(&self) -> &'static str;

    /// Returns what the caller has to do.
    fn kind(&self) -> ActionKind<'_>;

    /// Converts the answer of a catch-all handler.
    ///
    /// # Errors
    /// [`ForeignAction`] if it answers another event.
    fn from_any(action: AnyAction) -> Result<Self, ForeignAction>;

    /// Returns the answer that rejects the event for this reason.
    fn refuse(reason: String) -> Self;
}

/// The answer of a catch-all handler.
///
/// The action of each event converts into it, so a catch-all handler can answer an event in every
/// way that a handler of that event can.
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
pub enum AnyAction {
    /// No opinion.
    Pass,
    /// Continue as requested: commit, run, compile, compress or merge.
    Approve,
    /// Do not continue, for this reason. For a compile or a dispatch this means `Refuse`.
    Reject(String),
    /// Leave it for a person to decide, for this reason. A compile cannot wait, so it is refused.
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

/// Error of a catch-all handler that answered one event with the action of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{action:?} belongs to another event")]
pub struct ForeignAction {
    /// The stable name of the action.
    pub action: &'static str,
}

impl AnyAction {
    /// Returns the stable name of the answer.
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

/// Implements [`Action`]: maps the variants of each action to the one that continues, the one that
/// stops for a reason, the one that leaves the decision to a person (for a compile this one stops
/// too), and those that the caller has to carry out first.
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
pub enum CommitAction {
    /// No opinion.
    Pass,
    /// Commit the message.
    Approve,
    /// Commit this content instead, of the same kind. The original is kept.
    Edit(Content),
    /// Do not commit the message, for this reason.
    Reject(String),
    /// Leave it as a pending approval, for this reason.
    Defer(String),
}

/// The answer to [`ToolResultReceived`](crate::ToolResultReceived).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolResultAction {
    /// No opinion.
    Pass,
    /// Commit the result.
    Approve,
    /// Commit these parts instead; the original is kept.
    Edit(Vec<Part>),
    /// Commit a summary instead; the original is kept.
    Summarize(Summarize),
    /// Do not commit the result, for this reason.
    Reject(String),
    /// Leave it as a pending approval, for this reason.
    Defer(String),
}

impl ToolResultAction {
    /// Returns the answer that commits this text instead.
    pub fn edit(text: impl Into<String>) -> Self {
        Self::Edit(vec![Part::text(text)])
    }
}

/// Instructions for summarizing a result. They are data; the [`Summarizer`](tract_core::Summarizer)
/// port carries them out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summarize {
    /// Target length of the summary, in tokens.
    pub target_tokens: Option<u64>,
    /// Instructions to the summarizer, such as the facts to keep.
    pub instructions: Option<String>,
    /// Regular expressions. Every match in the text must occur in the summary.
    pub must_keep: Vec<String>,
    /// Whether the summarizer gets the conversation, so that it can keep the relevant parts.
    pub with_context: bool,
}

impl Summarize {
    /// Requests a summary without further instructions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests a summary of about `target_tokens` tokens.
    pub fn to_tokens(target_tokens: u64) -> Self {
        Self { target_tokens: Some(target_tokens), ..Self::default() }
    }
}

impl From<Summarize> for ToolResultAction {
    fn from(how: Summarize) -> Self {
        Self::Summarize(how)
    }
}

/// The answer to [`BeforeDispatch`](crate::BeforeDispatch).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DispatchAction {
    /// No opinion.
    Pass,
    /// Run the tool.
    Run,
    /// Run the tool with these arguments instead: JSON text.
    Replace(String),
    /// Do not run the tool; the model gets this reason as the result.
    Refuse(String),
    /// Leave it as a pending approval, for this reason.
    Defer(String),
}

/// The answer to [`BeforeCompile`](crate::BeforeCompile). It cannot change the compiled context.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// The answer to [`RefMoved`](crate::RefMoved), which cannot be rejected: the ref has moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefMovedAction {
    /// Acknowledged.
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

    /// Catch-all handlers do not receive this event, so there is no action to convert.
    fn from_any(_: AnyAction) -> Result<Self, ForeignAction> {
        Ok(Self::Pass)
    }

    /// A move that has happened cannot be rejected.
    fn refuse(_: String) -> Self {
        Self::Pass
    }
}
