//! What is asked of a planner, and what it gives.

use serde::{Deserialize, Serialize};
use tract_compile::LineCounts;
use tract_core::commit::MAX_INLINE_CHANGES;
use tract_core::{
    Blob, Change, Changes, Commit, CommitId, CommitRecord, Content, Draft, JsonText, Kind, Op,
    Origin, Priority, Role, ToolEntry, ToolSchema, Toolset, ToolsetId,
};

use super::Line;
use crate::verbs::pending::{blobs, tool_texts};

/// Fields that any commit may have in addition to its operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// A line for the log; derived when absent.
    pub message: Option<String>,
    /// Metadata of the caller: a JSON object.
    pub metadata: Option<JsonText>,
    /// Model and parameters that produced it, or that the next request should use.
    pub generation_config: Option<JsonText>,
    /// The tools of this commit; the active set when absent. Where no set was ever made active,
    /// they stay in force.
    #[serde(default, with = "tool_texts")]
    pub tools: Option<Vec<ToolSchema>>,
    /// Its origin.
    pub origin: Origin,
    /// Blobs that must live as long as the commit.
    #[serde(with = "blobs")]
    pub keeps: Vec<Blob>,
    /// The time in microseconds since 1970, UTC; the clock's when absent.
    pub created_at: Option<i64>,
}

impl Details {
    /// Returns what a commit that repeats another one says of itself.
    pub(crate) fn of_replayed(commit: &Commit) -> Self {
        Self {
            message: commit.message.clone(),
            metadata: commit.metadata.clone(),
            generation_config: commit.generation_config.clone(),
            origin: Origin { picked_from: Some(commit.id()), ..commit.origin.clone() },
            ..Self::default()
        }
    }
}

impl From<&Draft> for Details {
    fn from(draft: &Draft) -> Self {
        Self {
            message: draft.message.clone(),
            metadata: draft.metadata.clone(),
            generation_config: draft.generation_config.clone(),
            tools: draft.tools.clone(),
            origin: draft.origin.clone(),
            keeps: draft.keeps.clone(),
            created_at: draft.created_at,
        }
    }
}

/// The new content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewContent {
    /// This text in place of its texts; calls, pictures and the rest stay.
    Text(String),
    /// All of this.
    Content(Content),
    /// All of this: what is left of the message after an erasure. Arguments of answered calls may
    /// change as well.
    Redacted(Content),
}

/// A selection of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// These, by any of their versions.
    Targets(Vec<CommitId>),
    /// All from one to another, both included, by any of their versions; an end that is not
    /// given is the view's.
    Range {
        /// The first.
        from: Option<CommitId>,
        /// The last.
        to: Option<CommitId>,
    },
    /// These versions and nothing else: what a summary was made of. A message that was edited
    /// since stays, and so does one that belongs together with a message that is not named.
    Exactly(Vec<CommitId>),
    /// As [`Exactly`](Self::Exactly), and calls without a result too: the tool that made the recording
    /// put its summary in the place of all of them, whether or not a call was open.
    Recorded(Vec<CommitId>),
}

/// A request to change a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// Adds a message. A result must answer an open call.
    Append(Draft),
    /// Adds a message from elsewhere: a result that answers no open call stays an orphan.
    Import(Draft),
    /// Replaces what a message says.
    Edit {
        /// The message, by any of its versions.
        target: CommitId,
        /// What it says from now on.
        content: NewContent,
        /// The rest.
        details: Details,
    },
    /// Sets the priority of messages.
    Annotate {
        /// The messages, by any of their versions.
        targets: Vec<CommitId>,
        /// Their priority from now on.
        priority: Priority,
        /// Why.
        reason: Option<String>,
        /// What compression has to keep of them.
        retention: Option<JsonText>,
        /// The rest.
        details: Details,
    },
    /// Puts one summary in the place of messages.
    Compress {
        /// The messages.
        select: Selection,
        /// The summary; an assistant's message as a rule.
        content: Content,
        /// Its role, where that is not the kind's own.
        role: Option<Role>,
        /// The rest.
        details: Details,
    },
    /// Reverts what commits changed.
    Revert {
        /// The commits.
        targets: Vec<CommitId>,
        /// Whether to revert what depends on them as well.
        cascade: bool,
        /// The rest.
        details: Details,
    },
    /// Sets the tools in force from here on; the empty list means "no tools".
    Tools {
        /// The tools, in order.
        tools: Vec<ToolSchema>,
        /// The rest.
        details: Details,
    },
    /// Leaves a line in the log that no model sees.
    Note {
        /// Data for programs.
        content: Option<JsonText>,
        /// The rest.
        details: Details,
    },
}

impl Request {
    /// Asks for an edit of a message's text.
    pub fn edit_text(target: CommitId, text: impl Into<String>) -> Self {
        Self::Edit { target, content: NewContent::Text(text.into()), details: Details::default() }
    }

    /// Asks for an edit of the whole content of a message, with the other fields of the draft.
    pub fn edit(target: CommitId, draft: &Draft) -> Self {
        let content = NewContent::Content(draft.content.clone());
        Self::Edit { target, content, details: draft.into() }
    }

    /// Asks for a priority.
    pub fn annotate(targets: impl Into<Vec<CommitId>>, priority: Priority) -> Self {
        Self::Annotate {
            targets: targets.into(),
            priority,
            reason: None,
            retention: None,
            details: Details::default(),
        }
    }

    /// Asks for a summary in the model's voice.
    pub fn compress(select: Selection, summary: impl Into<String>) -> Self {
        Self::Compress {
            select,
            content: Content::assistant(summary),
            role: None,
            details: Details::default(),
        }
    }

    /// Asks to revert commits.
    pub fn revert(targets: impl Into<Vec<CommitId>>) -> Self {
        Self::Revert { targets: targets.into(), cascade: false, details: Details::default() }
    }

    /// Asks for tools from here on.
    pub fn tools(tools: impl Into<Vec<ToolSchema>>) -> Self {
        Self::Tools { tools: tools.into(), details: Details::default() }
    }

    /// Asks for a line in the log.
    pub fn note(message: impl Into<String>) -> Self {
        let details = Details { message: Some(message.into()), ..Details::default() };
        Self::Note { content: None, details }
    }

    /// Returns the verb for the ref log.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Append(_) => "commit",
            Self::Import(_) => "import",
            Self::Edit { .. } => "edit",
            Self::Annotate { .. } => "annotate",
            Self::Compress { .. } => "compress",
            Self::Revert { .. } => "revert",
            Self::Tools { .. } => "tools",
            Self::Note { .. } => "note",
        }
    }
}

impl From<Draft> for Request {
    fn from(draft: Draft) -> Self {
        Self::Append(draft)
    }
}

/// A record that is complete but for time and batch, with what has to be stored with it.
#[derive(Clone, Debug)]
pub struct PlannedCommit {
    /// The record.
    pub record: Box<CommitRecord>,
    /// What it changes, wherever the record keeps the list.
    pub changes: Vec<Change>,
    /// The blobs that it links to and that are not known to be stored.
    pub blobs: Vec<Blob>,
    /// The toolset that it states, with the schemas as given.
    pub given: Option<(Toolset, Vec<ToolSchema>)>,
    /// Commits that its changes bring back or in.
    pub requires: Vec<CommitId>,
}

/// Seals a list of tools.
pub fn seal_tools(tools: &[ToolSchema]) -> Toolset {
    let entry = |tool: &ToolSchema| ToolEntry { tool: tool.id(), schema: tool.blob().id() };
    Toolset::seal(tools.iter().map(entry).collect())
}

/// What a record needs to know of the line that it continues: the head and its tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchTip {
    /// The commit to continue; `None` before the first one.
    pub head: Option<CommitId>,
    /// The tools in force.
    pub toolset: Option<ToolsetId>,
    /// The tools that a commit without tools has in force.
    pub active: Option<ToolsetId>,
    /// Whether tools were ever set to stay.
    pub tools_set: bool,
    /// How many more messages can follow before the line has to be folded.
    pub room: u64,
    /// How many commits there are from the root to the head.
    pub commits: u64,
    /// What the line has, where that is known.
    pub(crate) counts: Option<LineCounts>,
    /// Where it is known that nothing was said of tool turns since the last row of their index:
    /// what the next row leans on.
    pub(crate) silence: Option<TurnIndexGap>,
}

/// That nothing was said of tool turns since the last row of their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnIndexGap {
    /// The nearest commit whose row has entries.
    pub(crate) before: Option<CommitId>,
    /// The commit of that last row.
    pub(crate) previous: Option<CommitId>,
}

impl From<&Line> for BranchTip {
    fn from(line: &Line) -> Self {
        Self {
            head: line.head(),
            toolset: line.toolset(),
            active: line.active(),
            tools_set: line.tools_set(),
            room: line.room(),
            commits: line.commit_count(),
            counts: Some(line.counts()),
            silence: line.head().is_none().then_some(TurnIndexGap { before: None, previous: None }),
        }
    }
}

impl PlannedCommit {
    /// Starts a record on a line: parents, tools and details.
    pub(crate) fn on(tip: impl Into<BranchTip>, op: Op, details: &Details) -> Self {
        let tip = tip.into();
        let mut record = Box::new(CommitRecord::new(op, details.origin.by));
        record.parents = tip.head.into_iter().collect();
        record.message = details.message.clone();
        record.metadata = details.metadata.clone();
        record.generation_config = details.generation_config.clone();
        record.origin = details.origin.clone();
        record.keeps = details.keeps.iter().map(Blob::id).collect();
        record.created_at = details.created_at;
        let mut planned = Self {
            record,
            changes: Vec::new(),
            blobs: details.keeps.clone(),
            given: None,
            requires: Vec::new(),
        };
        if let Some(tools) = &details.tools {
            let toolset = seal_tools(tools);
            // Where nothing was ever set to stay, what is in force stays.
            planned.set_tools(Some(toolset.id()), tip.active.filter(|_| tip.tools_set));
            planned.given = Some((toolset, tools.clone()));
        } else {
            planned.set_tools(tip.active, None);
        }
        planned
    }

    /// Sets the tools in force, and those that a following commit goes back to.
    pub(super) fn set_tools(&mut self, toolset: Option<ToolsetId>, active: Option<ToolsetId>) {
        self.record.toolset = toolset;
        self.record.active = active.filter(|active| Some(*active) != toolset);
    }

    /// Sets what the commit says.
    pub(super) fn say(&mut self, content: &Content, role: Option<Role>) -> super::Plan<()> {
        self.say_sealed(Blob::seal(content.to_blob()?), content.kind(), role);
        Ok(())
    }

    /// Sets what the commit says, by the blob of it.
    pub(super) fn say_sealed(&mut self, content: Blob, kind: Kind, role: Option<Role>) {
        self.record.role = role.filter(|role| *role != kind.default_role());
        self.record.kind = Some(kind);
        self.record.content = Some(content.id());
        self.blobs.push(content);
    }

    /// Sets what the commit changes; a long list becomes a blob.
    pub(super) fn change(&mut self, changes: Vec<Change>) {
        self.record.changes = if changes.len() > MAX_INLINE_CHANGES {
            let blob = Blob::seal(Changes::to_blob(&changes));
            let id = blob.id();
            self.blobs.push(blob);
            Changes::Blob(id)
        } else {
            Changes::List(changes.clone())
        };
        self.changes = changes;
    }
}
