//! What a reader makes of a recording: messages on branches, in the order of the file.

use tract_core::{Draft, JsonText, Part};

/// The number of a branch, in the order in which branches begin.
pub(crate) type BranchNumber = usize;

/// The number of a message, summary or note, in the order of the file.
pub(crate) type ItemNumber = usize;

/// One thing that a recording says. Every event but [`Branch`](Self::Branch) and
/// [`Resumed`](Self::Resumed) is the next item.
///
/// A reader decides on each line by the lines before it alone. So what a file says does not depend
/// on where it ends: a file that has grown continues what was imported of it.
#[derive(Debug)]
pub(crate) enum TreeEvent {
    /// The next branch begins: after this item, or with nothing.
    Branch { after: Option<ItemNumber>, suffix: String, start: BranchStart },
    /// The recording ends, and its tool would continue on this branch: it gets the name and the start of
    /// the first branch. The first branch has this suffix where it is another one.
    Resumed { branch: BranchNumber, suffix: String },
    /// A message follows on a branch.
    Message { branch: BranchNumber, line: usize, draft: Box<Draft> },
    /// A summary takes the place of all messages of a branch but these.
    Summary { branch: BranchNumber, line: usize, keep: Vec<ItemNumber>, draft: Box<Draft> },
    /// A line for the log that no model saw.
    Note {
        branch: BranchNumber,
        line: usize,
        message: String,
        content: JsonText,
        metadata: Option<JsonText>,
        at: Option<i64>,
    },
    /// A message says something else from here on.
    Edit { branch: BranchNumber, line: usize, item: ItemNumber, draft: Box<Draft> },
    /// Messages are left out of the context from here on.
    Skip { branch: BranchNumber, line: usize, items: Vec<ItemNumber>, at: Option<i64> },
}

impl TreeEvent {
    /// About how much memory it takes until it is stored.
    pub(crate) fn size(&self) -> usize {
        let draft = match self {
            Self::Message { draft, .. }
            | Self::Summary { draft, .. }
            | Self::Edit { draft, .. } => draft,
            Self::Note { content, .. } => return content.as_str().len() + (1 << 10),
            Self::Branch { .. } | Self::Resumed { .. } | Self::Skip { .. } => return 1 << 10,
        };
        let part = |part: &Part| match part {
            Part::Text { text } | Part::Reasoning { text, .. } => text.len(),
            Part::ToolCall(call) => call.arguments.len(),
            Part::Image { .. } | Part::Opaque { .. } => 0,
        };
        let verbatim = draft.verbatim.as_ref().map_or(0, |blob| blob.bytes().len());
        draft.content.parts().iter().map(part).sum::<usize>() + verbatim + (1 << 10)
    }
}

/// How a branch of a recording begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BranchStart {
    /// It is the conversation itself.
    #[default]
    Conversation,
    /// A user went back and continued differently: the messages that were abandoned.
    Rewind,
    /// The recording has a second beginning.
    Root,
    /// The recording has a branch here.
    Fork,
    /// A subagent, which has a context of its own.
    Subagent,
}

impl BranchStart {
    /// Returns the stable word for it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Conversation => "conversation",
            Self::Rewind => "rewind",
            Self::Root => "root",
            Self::Fork => "fork",
            Self::Subagent => "subagent",
        }
    }

    /// Returns the beginning that a word names.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let all = [Self::Conversation, Self::Rewind, Self::Root, Self::Fork, Self::Subagent];
        all.into_iter().find(|start| start.as_str() == word)
    }
}
