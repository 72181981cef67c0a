//! The events of a recording: messages on branches, in the order of the file.

use tract_core::{Draft, JsonText, Part};

/// The number of a branch, in the order in which branches start.
pub(crate) type BranchNumber = usize;

/// The number of a message, summary or note, in the order of the file.
pub(crate) type ItemNumber = usize;

/// An event of a recording. Every event except [`Branch`](Self::Branch) and
/// [`Resumed`](Self::Resumed) is the next item.
///
/// A reader decides on each line based only on the lines before it. So the events of a file do not
/// depend on where it ends, and a file that has grown continues what was imported of it.
#[derive(Debug)]
pub(crate) enum TreeEvent {
    /// The next branch starts: after this item, or without a parent.
    Branch { after: Option<ItemNumber>, suffix: String, start: BranchStart },
    /// The recording ends, and its tool would continue on this branch, which gets the name and the
    /// start of the first branch. If the first branch is another one, it gets this suffix.
    Resumed { branch: BranchNumber, suffix: String },
    /// A message follows on a branch.
    Message { branch: BranchNumber, line: usize, draft: Box<Draft> },
    /// A summary replaces all messages of a branch except these.
    Summary { branch: BranchNumber, line: usize, keep: Vec<ItemNumber>, draft: Box<Draft> },
    /// A note in the log that no model saw.
    Note {
        branch: BranchNumber,
        line: usize,
        message: String,
        content: JsonText,
        metadata: Option<JsonText>,
        at: Option<i64>,
    },
    /// A message has another content from here on.
    Edit { branch: BranchNumber, line: usize, item: ItemNumber, draft: Box<Draft> },
    /// Messages are left out of the context from here on.
    Skip { branch: BranchNumber, line: usize, items: Vec<ItemNumber>, at: Option<i64> },
}

impl TreeEvent {
    /// Returns its approximate size in memory until it is stored.
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

/// The start of a branch of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BranchStart {
    /// The conversation itself.
    #[default]
    Conversation,
    /// A user went back and continued in another way. The branch has the abandoned messages.
    Rewind,
    /// The recording has a second message without a parent.
    Root,
    /// The recording has a branch here.
    Fork,
    /// A subagent, which has a separate context.
    Subagent,
}

impl BranchStart {
    /// Returns the stable code.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Conversation => "conversation",
            Self::Rewind => "rewind",
            Self::Root => "root",
            Self::Fork => "fork",
            Self::Subagent => "subagent",
        }
    }

    /// Parses the stable code.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let all = [Self::Conversation, Self::Rewind, Self::Root, Self::Fork, Self::Subagent];
        all.into_iter().find(|start| start.as_str() == word)
    }
}
