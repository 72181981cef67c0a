//! The record of a commit: a requested operation and its changes.

use serde::{Deserialize, Serialize};

use super::{CallRef, Changes};
use crate::content::{Kind, Priority, Role};
use crate::id::{BatchId, BlobId, CommitId, ToolsetId};
use crate::json::JsonError;
use crate::object::ObjectId;
use crate::text::JsonText;

/// The version of the record that this build writes and reads.
pub const RECORD_VERSION: u8 = 1;
/// Maximum number of changes in one commit.
pub const MAX_CHANGES: usize = 1_000_000;
/// Maximum number of changes in the record itself. More are stored in a separate blob.
pub const MAX_INLINE_CHANGES: usize = 64;
/// Maximum number of parents of one commit.
pub const MAX_PARENTS: usize = 16;

/// The requested operation of a commit. Its effects are in [`CommitRecord::changes`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Op {
    /// Adds a message.
    Append {
        /// The slot of the message, if it is not this commit's id (picked, rebased).
        slot: Option<CommitId>,
        /// The tool call that the message answers.
        answers: Option<CallRef>,
        /// Its priority, if set.
        priority: Option<Priority>,
        /// The retention rule for summaries.
        retention: Option<JsonText>,
    },
    /// Replaces the content of a message.
    Edit {
        /// The version that the caller named. Any version identifies the slot.
        target: CommitId,
    },
    /// Sets the priority of messages.
    Annotate {
        /// The messages, by any of their versions.
        targets: Vec<CommitId>,
        /// Their new priority.
        priority: Priority,
        /// The reason.
        reason: Option<String>,
        /// The retention rule for summaries.
        retention: Option<JsonText>,
    },
    /// Replaces messages with one summary.
    Compress {
        /// The messages, by any of their versions.
        targets: Vec<CommitId>,
    },
    /// Reverts the changes of commits.
    Revert {
        /// The commits, newest first.
        targets: Vec<CommitId>,
        /// Whether commits that depend on them were reverted as well.
        cascade: bool,
    },
    /// Merges other heads.
    Merge {
        /// The other heads.
        sources: Vec<CommitId>,
    },
    /// Sets the tools in force.
    Tools,
    /// Adds an entry to the log. It changes nothing that a model sees.
    #[default]
    Note,
    /// An operation of a later version. Its changes are applied, but its meaning is unknown.
    Unknown {
        /// Its name.
        name: String,
        /// The other fields of the operation: a JSON object without `name`.
        fields: JsonText,
    },
}

impl Op {
    /// The names of the operations that this version knows.
    pub(super) const NAMES: [&str; 8] =
        ["append", "edit", "annotate", "compress", "revert", "merge", "tools", "note"];

    /// Returns the name used in records.
    pub fn name(&self) -> &str {
        match self {
            Self::Append { .. } => "append",
            Self::Edit { .. } => "edit",
            Self::Annotate { .. } => "annotate",
            Self::Compress { .. } => "compress",
            Self::Revert { .. } => "revert",
            Self::Merge { .. } => "merge",
            Self::Tools => "tools",
            Self::Note => "note",
            Self::Unknown { name, .. } => name,
        }
    }

    /// Creates an append without options.
    pub const fn append() -> Self {
        Self::Append { slot: None, answers: None, priority: None, retention: None }
    }

    /// Returns the retention rule that the operation sets, if any.
    pub fn retention(&self) -> Option<&JsonText> {
        match self {
            Self::Append { retention, .. } | Self::Annotate { retention, .. } => retention.as_ref(),
            Self::Edit { .. }
            | Self::Compress { .. }
            | Self::Revert { .. }
            | Self::Merge { .. }
            | Self::Tools
            | Self::Note
            | Self::Unknown { .. } => None,
        }
    }
}

/// The kind of author of a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthorKind {
    /// A person, or a program that acts for one.
    #[default]
    User,
    /// A model.
    Model,
    /// A tool.
    Tool,
    /// A hook.
    Hook,
    /// An import.
    Import,
}

impl AuthorKind {
    /// In the order of their stored numbers.
    pub(super) const ALL: [Self; 5] =
        [Self::User, Self::Model, Self::Tool, Self::Hook, Self::Import];

    /// Returns the word used in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Model => "model",
            Self::Tool => "tool",
            Self::Hook => "hook",
            Self::Import => "import",
        }
    }

    /// Returns the author kind with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|by| by.as_str() == word)
    }
}

/// The origin of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// The kind of author.
    pub by: AuthorKind,
    /// The author's name: of a person, a model or a handler.
    pub id: Option<String>,
    /// The event that led to the commit, such as `tool_result_received` for a result changed by a
    /// handler. The handler is in [`id`](Self::id); a pending approval is in `detail`.
    pub triggered_by: Option<String>,
    /// The commit on another branch that this one repeats.
    pub picked_from: Option<CommitId>,
    /// Further facts, such as instructions and token counts of a changed result.
    pub detail: Option<JsonText>,
}

impl From<AuthorKind> for Origin {
    fn from(by: AuthorKind) -> Self {
        Self { by, ..Self::default() }
    }
}

/// The content of a commit. The commit's id is the hash of its canonical text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CommitRecord {
    /// The parents. The first one is the commit whose history this one continues.
    pub parents: Vec<CommitId>,
    /// The requested operation.
    pub op: Op,
    /// Its changes to the view.
    pub changes: Changes,
    /// The blob of the content.
    pub content: Option<BlobId>,
    /// The provider's original bytes, if they cannot be reproduced from the content.
    pub verbatim: Option<BlobId>,
    /// Dialect and revision in which the message was received, such as `openai-chat-1`.
    pub form: Option<String>,
    /// The slot of the message with which it forms one provider message.
    pub joins: Option<CommitId>,
    /// The kind of its content.
    pub kind: Option<Kind>,
    /// Its role, if it is not the default of the kind.
    pub role: Option<Role>,
    /// A log line, if it is not the one derived from the content.
    pub message: Option<String>,
    /// Metadata set by the caller.
    pub metadata: Option<JsonText>,
    /// The model and parameters that produced it, or that the next request should use.
    pub generation_config: Option<JsonText>,
    /// The tools in force after this commit.
    pub toolset: Option<ToolsetId>,
    /// The tools last made active, if they differ from `toolset`.
    pub active: Option<ToolsetId>,
    /// Its origin.
    pub origin: Origin,
    /// Blobs that must not be deleted before this commit.
    pub keeps: Vec<BlobId>,
    /// Microseconds since 1970, UTC; absent if an import does not know the time.
    pub created_at: Option<i64>,
    /// The id shared by the commits of one call; absent on import, and if the caller set a time.
    pub batch: Option<BatchId>,
}

impl CommitRecord {
    /// Creates a record with an operation and an author only.
    pub fn new(op: Op, by: AuthorKind) -> Self {
        Self { op, origin: by.into(), ..Self::default() }
    }

    /// Returns the first parent, whose history this commit continues.
    pub fn parent(&self) -> Option<CommitId> {
        self.parents.first().copied()
    }

    /// Returns the role: the explicit one, or else the default of the kind.
    pub fn effective_role(&self) -> Option<Role> {
        self.role.clone().or_else(|| self.kind.as_ref().map(Kind::default_role))
    }

    /// Returns the tools in force for a following commit that does not set any.
    pub fn active_toolset(&self) -> Option<ToolsetId> {
        self.active.or(self.toolset)
    }

    /// Returns the blobs to which this record links, in the order of its fields.
    pub fn linked_blobs(&self) -> impl Iterator<Item = BlobId> + '_ {
        let changes = match &self.changes {
            Changes::Blob(id) => Some(*id),
            Changes::List(_) => None,
        };
        [changes, self.content, self.verbatim]
            .into_iter()
            .flatten()
            .chain(self.keeps.iter().copied())
    }

    /// Returns the objects to which this record links: parents, blobs and toolsets.
    pub fn links(&self) -> impl Iterator<Item = ObjectId> + '_ {
        let parents = self.parents.iter().copied().map(ObjectId::Commit);
        let toolsets = [self.toolset, self.active].into_iter().flatten().map(ObjectId::Toolset);
        parents.chain(self.linked_blobs().map(ObjectId::Blob)).chain(toolsets)
    }
}

/// Error of a record that cannot be written, or of bytes that cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The record was written by a later version.
    #[error("record version {found} is newer than {RECORD_VERSION}, the newest that is known here")]
    Version {
        /// The version found.
        found: u8,
    },
    /// The bytes are truncated, have trailing data, or contain an unknown word.
    #[error("malformed commit record: {what}")]
    Malformed {
        /// The defect.
        what: String,
    },
    /// The bytes are a valid record with another id.
    #[error("commit {expected} reads as {found}")]
    OtherId {
        /// The requested id.
        expected: CommitId,
        /// The id of the decoded record.
        found: CommitId,
    },
    /// A limit of the format is exceeded.
    #[error("too many {what} in one commit: {found} (limit {limit})")]
    TooMany {
        /// The kind of item.
        what: &'static str,
        /// The maximum number.
        limit: usize,
        /// The actual number.
        found: usize,
    },
    /// A JSON value in the record cannot be written canonically.
    #[error("malformed commit record: {0}")]
    Json(#[from] JsonError),
}
