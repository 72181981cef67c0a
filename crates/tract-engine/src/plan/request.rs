//! The requests that planners carry out, and the commits that they plan.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tract_compile::HistoryCounts;
use tract_core::commit::MAX_INLINE_CHANGES;
use tract_core::{
    Blob, Change, Changes, Commit, CommitId, CommitRecord, Content, Draft, JsonText, Kind, Op,
    Origin, Priority, Role, ToolEntry, ToolSchema, Toolset, ToolsetId,
};

use super::History;

/// Fields that any commit may have in addition to its operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// The commit message; derived when absent.
    pub message: Option<String>,
    /// Metadata of the caller: a JSON object.
    pub metadata: Option<JsonText>,
    /// Model and parameters that produced it, or that the next request should use.
    pub generation_config: Option<JsonText>,
    /// The tools of this commit; default: the active set. If no set was ever made active, they stay
    /// in force.
    #[serde(default, with = "tool_texts")]
    pub tools: Option<Vec<ToolSchema>>,
    /// Its origin.
    pub origin: Origin,
    /// Blobs that must live as long as the commit.
    #[serde(with = "blobs")]
    pub keeps: Vec<Blob>,
    /// The time in microseconds since 1970, UTC; default: the current time.
    pub created_at: Option<i64>,
}

impl Details {
    /// Returns the details of a commit that replays another one.
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
    /// Replaces the texts of the message; calls, images and other parts stay.
    Text(String),
    /// Replaces the whole content.
    Content(Content),
    /// Replaces the whole content with the rest of the message after an erasure. Arguments of
    /// answered calls may change as well.
    Redacted(Content),
}

/// A selection of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// These messages, each named by any of its versions.
    Targets(Vec<CommitId>),
    /// A range of messages, both ends included, each named by any of its versions. A missing end is
    /// that of the view.
    Range {
        /// The first.
        from: Option<CommitId>,
        /// The last.
        to: Option<CommitId>,
    },
    /// Exactly these versions: those that a summary was made of. A message that was edited since is
    /// left out, and so is one that is grouped with a message not listed.
    Exactly(Vec<CommitId>),
    /// Like [`Exactly`](Self::Exactly), but includes calls without a result: the tool that made the
    /// recording replaced all of them with its summary, whether or not a call was open.
    Recorded(Vec<CommitId>),
}

/// A request to change a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Adds a message. A result must answer an open call.
    Append(Draft),
    /// Adds a message from elsewhere. A result that answers no open call is stored unbound.
    Import(Draft),
    /// Replaces the content of a message.
    Edit {
        /// The message, by any of its versions.
        target: CommitId,
        /// Its new content.
        content: NewContent,
        /// The rest.
        details: Details,
    },
    /// Sets the priority of messages.
    Annotate {
        /// The messages, by any of their versions.
        targets: Vec<CommitId>,
        /// Their new priority.
        priority: Priority,
        /// The reason.
        reason: Option<String>,
        /// Instructions for compression: the parts that must be kept.
        retention: Option<JsonText>,
        /// The rest.
        details: Details,
    },
    /// Replaces messages with one summary.
    Compress {
        /// The messages.
        select: Selection,
        /// The summary; usually an assistant message.
        content: Content,
        /// Its role, if it is not the default of its kind.
        role: Option<Role>,
        /// The rest.
        details: Details,
    },
    /// Reverts the changes of commits.
    Revert {
        /// The commits.
        targets: Vec<CommitId>,
        /// Whether to revert the commits that depend on them as well.
        cascade: bool,
        /// The rest.
        details: Details,
    },
    /// Sets the tools in force from here on; an empty list removes all of them.
    Tools {
        /// The tools, in order.
        tools: Vec<ToolSchema>,
        /// The rest.
        details: Details,
    },
    /// Adds a note to the log that is not part of the context.
    Note {
        /// Data for programs.
        content: Option<JsonText>,
        /// The rest.
        details: Details,
    },
}

impl Request {
    /// Creates a request to edit the text of a message.
    pub fn edit_text(target: CommitId, text: impl Into<String>) -> Self {
        Self::Edit { target, content: NewContent::Text(text.into()), details: Details::default() }
    }

    /// Creates a request to edit the whole content of a message, with the other fields of the
    /// draft.
    pub fn edit(target: CommitId, draft: &Draft) -> Self {
        let content = NewContent::Content(draft.content.clone());
        Self::Edit { target, content, details: draft.into() }
    }

    /// Creates a request to set a priority.
    pub fn annotate(targets: impl Into<Vec<CommitId>>, priority: Priority) -> Self {
        Self::Annotate {
            targets: targets.into(),
            priority,
            reason: None,
            retention: None,
            details: Details::default(),
        }
    }

    /// Creates a request for a summary as an assistant message.
    pub fn compress(select: Selection, summary: impl Into<String>) -> Self {
        Self::Compress {
            select,
            content: Content::assistant(summary),
            role: None,
            details: Details::default(),
        }
    }

    /// Creates a request to revert commits.
    pub fn revert(targets: impl Into<Vec<CommitId>>) -> Self {
        Self::Revert { targets: targets.into(), cascade: false, details: Details::default() }
    }

    /// Creates a request to set the tools from here on.
    pub fn tools(tools: impl Into<Vec<ToolSchema>>) -> Self {
        Self::Tools { tools: tools.into(), details: Details::default() }
    }

    /// Creates a request for a note in the log.
    pub fn note(message: impl Into<String>) -> Self {
        let details = Details { message: Some(message.into()), ..Details::default() };
        Self::Note { content: None, details }
    }

    /// Returns the commits that the caller named.
    pub(crate) fn named(&self) -> Vec<CommitId> {
        match self {
            Self::Edit { target, .. } => vec![*target],
            Self::Annotate { targets, .. } | Self::Revert { targets, .. } => targets.clone(),
            Self::Compress { select, .. } => match select {
                Selection::Targets(named)
                | Selection::Exactly(named)
                | Selection::Recorded(named) => named.clone(),
                Selection::Range { from, to } => from.iter().chain(to).copied().collect(),
            },
            Self::Append(_) | Self::Import(_) | Self::Tools { .. } | Self::Note { .. } => {
                Vec::new()
            }
        }
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

/// A record without time and batch, and the objects to store with it.
#[derive(Clone, Debug)]
pub struct PlannedCommit {
    /// The record.
    pub record: Box<CommitRecord>,
    /// Its changes, whether the record lists them or a blob does.
    pub changes: Vec<Change>,
    /// The blobs it links to that may not be stored yet.
    pub blobs: Vec<Blob>,
    /// The toolset that it sets, with the schemas as given.
    pub given: Option<(Toolset, Vec<ToolSchema>)>,
    /// The commits that its changes show again or bring in.
    pub requires: Vec<CommitId>,
}

/// Seals a list of tools.
pub fn seal_tools(tools: &[ToolSchema]) -> Toolset {
    let entry = |tool: &ToolSchema| ToolEntry { tool: tool.id(), schema: tool.blob().id() };
    Toolset::seal(tools.iter().map(entry).collect())
}

/// The facts about a history that the next record needs: its head, its tools and its counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchTip {
    /// The commit to continue; `None` before the first one.
    pub head: Option<CommitId>,
    /// The tools in force.
    pub toolset: Option<ToolsetId>,
    /// The tools that a commit without tools of its own gets.
    pub active: Option<ToolsetId>,
    /// Whether any tools were ever set to stay.
    pub tools_set: bool,
    /// Number of messages that can follow before the history has to be folded.
    pub room: u64,
    /// Number of commits from the root to the head.
    pub commits: u64,
    /// The counts of the history, if known.
    pub(crate) counts: Option<HistoryCounts>,
    /// The gap in the index of tool turns that the next row of the index links across; `None` if
    /// unknown.
    pub(crate) silence: Option<TurnIndexGap>,
}

/// A stretch of history without entries for the index of tool turns, up to the last row of the
/// index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnIndexGap {
    /// The nearest commit whose row has entries.
    pub(crate) before: Option<CommitId>,
    /// The commit of that last row.
    pub(crate) previous: Option<CommitId>,
}

impl From<&History> for BranchTip {
    fn from(history: &History) -> Self {
        Self {
            head: history.head(),
            toolset: history.toolset(),
            active: history.active(),
            tools_set: history.tools_set(),
            room: history.room(),
            commits: history.commit_count(),
            counts: Some(history.counts()),
            silence: history
                .head()
                .is_none()
                .then_some(TurnIndexGap { before: None, previous: None }),
        }
    }
}

impl PlannedCommit {
    /// Starts a record on a history: parents, tools and details.
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
            // If no set was ever active, these tools stay in force.
            planned.set_tools(Some(toolset.id()), tip.active.filter(|_| tip.tools_set));
            planned.given = Some((toolset, tools.clone()));
        } else {
            planned.set_tools(tip.active, None);
        }
        planned
    }

    /// Sets the tools in force, and those that the following commits return to.
    pub(super) fn set_tools(&mut self, toolset: Option<ToolsetId>, active: Option<ToolsetId>) {
        self.record.toolset = toolset;
        self.record.active = active.filter(|active| Some(*active) != toolset);
    }

    /// Sets the content of the commit.
    pub(super) fn say(&mut self, content: &Content, role: Option<Role>) -> super::Plan<()> {
        self.say_sealed(Blob::seal(content.to_blob()?), content.kind(), role);
        Ok(())
    }

    /// Sets the content of the commit, given its blob.
    pub(super) fn say_sealed(&mut self, content: Blob, kind: Kind, role: Option<Role>) {
        self.record.role = role.filter(|role| *role != kind.default_role());
        self.record.kind = Some(kind);
        self.record.content = Some(content.id());
        self.blobs.push(content);
    }

    /// Sets the changes of the commit. A long list is stored in a blob.
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

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BlobDoc {
    Text(String),
    Bytes(Vec<u8>),
}

impl BlobDoc {
    pub(crate) fn of(blob: &Blob) -> Self {
        match blob.text() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes(blob.bytes().to_vec()),
        }
    }

    pub(crate) fn blob(self) -> Blob {
        match self {
            Self::Text(text) => Blob::seal(text),
            Self::Bytes(bytes) => Blob::seal(bytes),
        }
    }
}

/// Serializes blobs in a document.
mod blobs {
    use super::*;

    pub(super) fn serialize<S: Serializer>(blobs: &[Blob], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(blobs.iter().map(BlobDoc::of))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Blob>, D::Error> {
        let docs: Vec<BlobDoc> = Deserialize::deserialize(from)?;
        Ok(docs.into_iter().map(BlobDoc::blob).collect())
    }
}

/// Serializes tool definitions in a document as their texts.
mod tool_texts {
    use super::*;

    type Tools = Option<Vec<ToolSchema>>;

    pub(super) fn serialize<S: Serializer>(tools: &Tools, to: S) -> Result<S::Ok, S::Error> {
        let texts = tools.as_ref().map(|tools| tools.iter().map(ToolSchema::text));
        texts.map(Iterator::collect::<Vec<_>>).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Tools, D::Error> {
        let texts: Option<Vec<String>> = Deserialize::deserialize(from)?;
        let parsed = texts.map(|texts| texts.iter().map(|text| ToolSchema::parse(text)).collect());
        parsed.transpose().map_err(D::Error::custom)
    }
}
