//! The events that handlers receive.

use tract_core::{CommitId, Content, Draft, LogEntry, Op, Part, RefName, ToolCall, ToolTraits};

use crate::action::{
    Action, CommitAction, CompileAction, CompressAction, DispatchAction, MergeAction,
    RefMovedAction, ToolResultAction,
};
use crate::chain::Stored;

/// An event that handlers decide on, or are notified of. Only the events of this crate implement
/// it.
pub trait Event: Stored + Clone + Send + Sync + 'static {
    /// The answers to it.
    type Action: Action;

    /// The stable name of the event.
    const NAME: &'static str;

    /// Whether catch-all handlers receive this event.
    const HEARD_BY_ANY: bool;

    /// Returns the event for catch-all handlers; `None` if they do not receive it.
    fn as_any(&self) -> Option<AnyEvent<'_>>;
}

/// A message is about to be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeforeCommit {
    /// The branch.
    pub branch: RefName,
    /// Its head; `None` before the first commit.
    pub head: Option<CommitId>,
    /// The requested operation: append the message, or replace another one.
    pub op: Op,
    /// The message.
    pub draft: Draft,
}

impl BeforeCommit {
    /// Creates the event of a message that is appended to an empty branch.
    pub fn new(branch: RefName, draft: Draft) -> Self {
        Self { branch, head: None, op: Op::append(), draft }
    }
}

/// A tool's result was received and is about to be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResultReceived {
    /// The branch.
    pub branch: RefName,
    /// Its head.
    pub head: Option<CommitId>,
    /// The provider's id of the call that this result answers.
    pub call_id: String,
    /// The tool's name, if known.
    pub tool_name: Option<String>,
    /// The text for the model.
    pub parts: Vec<Part>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// The number of tokens of the result.
    pub token_count: u64,
}

impl ToolResultReceived {
    /// Creates the event of a successful result on an empty branch, with a token count of 0.
    pub fn new(branch: RefName, call_id: impl Into<String>, parts: Vec<Part>) -> Self {
        Self {
            branch,
            head: None,
            call_id: call_id.into(),
            tool_name: None,
            parts,
            is_error: false,
            token_count: 0,
        }
    }
}

/// A tool is about to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeforeDispatch {
    /// The call: id, name and arguments.
    pub call: ToolCall,
    /// The message that contains the call, if committed.
    pub commit: Option<CommitId>,
    /// The tool declares that it changes nothing.
    pub read_only: bool,
    /// The tool declares that repeating a call changes nothing more.
    pub idempotent: bool,
    /// The tool may destroy data.
    pub destructive: bool,
}

impl BeforeDispatch {
    /// Creates the event of a call to a tool with these traits.
    pub fn new(call: ToolCall, traits: ToolTraits) -> Self {
        Self {
            call,
            commit: None,
            read_only: traits.read_only,
            idempotent: traits.idempotent,
            destructive: traits.destructive,
        }
    }
}

/// A context is about to be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeforeCompile {
    /// The branch, if the caller named one.
    pub branch: Option<RefName>,
    /// The commit that is compiled.
    pub head: Option<CommitId>,
}

impl BeforeCompile {
    /// Creates the event of compiling this commit.
    pub fn new(head: Option<CommitId>) -> Self {
        Self { branch: None, head }
    }
}

/// A summary is about to replace messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeforeCompress {
    /// The branch.
    pub branch: RefName,
    /// Its head.
    pub head: Option<CommitId>,
    /// The replaced messages in order, identified by their slots.
    pub sources: Vec<CommitId>,
    /// The summary.
    pub summary: Content,
    /// Number of tokens of the messages.
    pub tokens_before: u64,
    /// Number of tokens of the summary.
    pub tokens_after: u64,
}

impl BeforeCompress {
    /// Creates the event of a summary, with token counts of 0.
    pub fn new(branch: RefName, sources: Vec<CommitId>, summary: Content) -> Self {
        Self { branch, head: None, sources, summary, tokens_before: 0, tokens_after: 0 }
    }
}

/// Other heads are about to be merged into a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeforeMerge {
    /// The branch.
    pub branch: RefName,
    /// Its head.
    pub head: Option<CommitId>,
    /// The other heads.
    pub sources: Vec<CommitId>,
    /// Whether the merge is a fast-forward.
    pub fast_forward: bool,
}

impl BeforeMerge {
    /// Creates the event of a merge that is not a fast-forward.
    pub fn new(branch: RefName, sources: Vec<CommitId>) -> Self {
        Self { branch, head: None, sources, fast_forward: false }
    }
}

/// A ref has moved, and the write is durable. The answer is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefMoved {
    /// The entry of the move in the ref log.
    pub entry: LogEntry,
}

impl RefMoved {
    /// Creates the event of a move.
    pub fn new(entry: LogEntry) -> Self {
        Self { entry }
    }
}

/// An event to decide on, as catch-all handlers receive it.
#[derive(Clone, Copy, Debug)]
pub enum AnyEvent<'a> {
    /// A message is about to be committed.
    BeforeCommit(&'a BeforeCommit),
    /// A tool's result was received.
    ToolResultReceived(&'a ToolResultReceived),
    /// A tool is about to run.
    BeforeDispatch(&'a BeforeDispatch),
    /// A context is about to be compiled.
    BeforeCompile(&'a BeforeCompile),
    /// A summary is about to replace messages.
    BeforeCompress(&'a BeforeCompress),
    /// Other heads are about to be merged.
    BeforeMerge(&'a BeforeMerge),
}

impl AnyEvent<'_> {
    /// Returns the stable name of the event.
    pub fn name(&self) -> &'static str {
        match self {
            Self::BeforeCommit(_) => BeforeCommit::NAME,
            Self::ToolResultReceived(_) => ToolResultReceived::NAME,
            Self::BeforeDispatch(_) => BeforeDispatch::NAME,
            Self::BeforeCompile(_) => BeforeCompile::NAME,
            Self::BeforeCompress(_) => BeforeCompress::NAME,
            Self::BeforeMerge(_) => BeforeMerge::NAME,
        }
    }
}

macro_rules! deciding {
    ($event:ident, $action:ident, $name:literal) => {
        impl Event for $event {
            type Action = $action;
            const NAME: &'static str = $name;
            const HEARD_BY_ANY: bool = true;

            fn as_any(&self) -> Option<AnyEvent<'_>> {
                Some(AnyEvent::$event(self))
            }
        }
    };
}

deciding!(BeforeCommit, CommitAction, "before_commit");
deciding!(ToolResultReceived, ToolResultAction, "tool_result_received");
deciding!(BeforeDispatch, DispatchAction, "before_dispatch");
deciding!(BeforeCompile, CompileAction, "before_compile");
deciding!(BeforeCompress, CompressAction, "before_compress");
deciding!(BeforeMerge, MergeAction, "before_merge");

impl Event for RefMoved {
    type Action = RefMovedAction;
    const NAME: &'static str = "ref_moved";
    const HEARD_BY_ANY: bool = false;

    fn as_any(&self) -> Option<AnyEvent<'_>> {
        None
    }
}
