//! The commit: an immutable record of what was asked and what it changes.

mod canonical;
mod change;
mod codec;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::change::{CallRef, Change, Changes, CommitRef, RowFields};
pub use self::codec::RecordError;
use crate::content::{Kind, Priority, Role};
use crate::id::{BatchId, BlobId, CommitId, ToolsetId};
use crate::object::ObjectId;
use crate::text::JsonText;

/// The version of the record that this build writes and reads.
pub const RECORD_VERSION: u8 = 1;
/// The most changes that one commit may have.
pub const MAX_CHANGES: usize = 1_000_000;
/// More changes than this are stored in a blob of their own.
pub const MAX_INLINE_CHANGES: usize = 64;
/// The most parents that one commit may have.
pub const MAX_PARENTS: usize = 16;

/// The operation of a commit. [`CommitRecord::changes`] has its changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Op {
    /// Adds a message.
    Append {
        /// The lasting name of the message, when it is not this commit's id (picked, rebased).
        slot: Option<CommitId>,
        /// The call that it answers.
        answers: Option<CallRef>,
        /// Its priority, when it states one.
        priority: Option<Priority>,
        /// The retention rule for summaries.
        retention: Option<JsonText>,
    },
    /// Replaces what a message says.
    Edit {
        /// The version that was named; any version names its slot.
        target: CommitId,
    },
    /// Sets the priority of messages.
    Annotate {
        /// The messages, by any of their versions.
        targets: Vec<CommitId>,
        /// Their new priority.
        priority: Priority,
        /// Why.
        reason: Option<String>,
        /// What compression has to keep of them.
        retention: Option<JsonText>,
    },
    /// Puts one summary in the place of messages.
    Compress {
        /// The messages, by any of their versions.
        targets: Vec<CommitId>,
    },
    /// Reverts what commits changed.
    Revert {
        /// The commits, newest first.
        targets: Vec<CommitId>,
        /// Whether commits that depend on them were reverted as well.
        cascade: bool,
    },
    /// Brings in what other heads have.
    Merge {
        /// The other heads.
        sources: Vec<CommitId>,
    },
    /// Sets the tools in force.
    Tools,
    /// Leaves a line in the log; changes nothing a model sees.
    #[default]
    Note,
    /// An operation of a later version: its changes fold, its meaning is unknown.
    Unknown {
        /// Its name.
        name: String,
        /// Everything else that was asked: a JSON object without `name`.
        fields: JsonText,
    },
}

impl Op {
    /// The names of the operations that this version knows.
    const NAMES: [&str; 8] =
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

    /// Makes a plain append.
    pub const fn append() -> Self {
        Self::Append { slot: None, answers: None, priority: None, retention: None }
    }

    /// Returns what a message must keep when it is summarized, where the operation says that.
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
    /// In the order of the numbers that stores write.
    const ALL: [Self; 5] = [Self::User, Self::Model, Self::Tool, Self::Hook, Self::Import];

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

    /// Returns the origin that a word names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|by| by.as_str() == word)
    }
}

/// The origin of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// Who or what.
    pub by: AuthorKind,
    /// Its name: a person, a model, a handler.
    pub id: Option<String>,
    /// The event that led to the commit, such as `tool_result_received` for a result that a handler
    /// changed. The handler is [`id`](Self::id); a pending approval is named in `detail`.
    pub triggered_by: Option<String>,
    /// The commit that it repeats on another line.
    pub picked_from: Option<CommitId>,
    /// Further facts, such as instructions and token counts of a changed result.
    pub detail: Option<JsonText>,
}

impl From<AuthorKind> for Origin {
    fn from(by: AuthorKind) -> Self {
        Self { by, ..Self::default() }
    }
}

/// All that a commit says. Its canonical text is what the id is the hash of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CommitRecord {
    /// The commits that it follows; the first is the line it continues.
    pub parents: Vec<CommitId>,
    /// What was asked.
    pub op: Op,
    /// Its changes to the view.
    pub changes: Changes,
    /// What it says.
    pub content: Option<BlobId>,
    /// The provider's own bytes, where lowering the content would not give them back.
    pub verbatim: Option<BlobId>,
    /// Dialect and revision that the message came in, such as `openai-chat-1`.
    pub form: Option<String>,
    /// The slot with which it shares one provider message.
    pub joins: Option<CommitId>,
    /// The kind of its content.
    pub kind: Option<Kind>,
    /// Its role, where that is not the kind's own.
    pub role: Option<Role>,
    /// A line for the log, where it is not the one derived from the content.
    pub message: Option<String>,
    /// Facts of the caller's.
    pub metadata: Option<JsonText>,
    /// Model and parameters that produced it, or that the next request should use.
    pub generation_config: Option<JsonText>,
    /// The tools in force after this commit.
    pub toolset: Option<ToolsetId>,
    /// The tools last set to stay, where they differ from `toolset`.
    pub active: Option<ToolsetId>,
    /// Its origin.
    pub origin: Origin,
    /// Blobs that must live as long as this commit.
    pub keeps: Vec<BlobId>,
    /// Microseconds since 1970, UTC; absent when an import has none.
    pub created_at: Option<i64>,
    /// Shared by the commits of one call; absent on import and where a time was given.
    pub batch: Option<BatchId>,
}

impl CommitRecord {
    /// Makes a record of an operation and nothing else.
    pub fn new(op: Op, by: AuthorKind) -> Self {
        Self { op, origin: by.into(), ..Self::default() }
    }

    /// Returns the commit whose line this one continues.
    pub fn parent(&self) -> Option<CommitId> {
        self.parents.first().copied()
    }

    /// Returns the role: the stated one, else the kind's own.
    pub fn effective_role(&self) -> Option<Role> {
        self.role.clone().or_else(|| self.kind.as_ref().map(Kind::default_role))
    }

    /// Returns the tools that a following commit without tools has in force.
    pub fn active_toolset(&self) -> Option<ToolsetId> {
        self.active.or(self.toolset)
    }

    /// Returns the canonical text of the record, as `docs/data-model.md` defines it.
    pub fn canonical(&self) -> String {
        String::from_utf8(canonical::record(self)).expect("made of texts and ASCII")
    }

    /// Returns the blobs that this record links to, in the order of its fields.
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

    /// Returns what this record links to: parents, blobs, toolsets.
    pub fn links(&self) -> impl Iterator<Item = ObjectId> + '_ {
        let parents = self.parents.iter().copied().map(ObjectId::Commit);
        let toolsets = [self.toolset, self.active].into_iter().flatten().map(ObjectId::Toolset);
        parents.chain(self.linked_blobs().map(ObjectId::Blob)).chain(toolsets)
    }
}

/// A sealed commit: a record with its id. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Commit {
    id: CommitId,
    record: Arc<CommitRecord>,
}

impl Commit {
    /// Seals a record: computes its id.
    ///
    /// ```
    /// use tract_core::{AuthorKind, Commit, CommitRecord, Op};
    /// let commit = Commit::seal(CommitRecord::new(Op::Note, AuthorKind::User))?;
    /// assert_eq!(Commit::decode(commit.id(), &commit.encode())?, commit);
    /// # Ok::<(), tract_core::RecordError>(())
    /// ```
    ///
    /// # Errors
    /// [`RecordError`] when the record breaks a limit or a rule of the format.
    pub fn seal(record: impl Into<Arc<CommitRecord>>) -> Result<Self, RecordError> {
        let record = record.into();
        codec::check(&record)?;
        codec::check_nesting(&record)?;
        let id = canonical::id(&record);
        Ok(Self { id, record })
    }

    /// Returns the compact bytes that a store keeps.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(&self.record, 256)
    }

    /// Reads stored bytes and checks that they are those of `id`.
    ///
    /// # Errors
    /// [`RecordError`] when the bytes are not what [`encode`](Self::encode) writes, or hash to
    /// another id.
    pub fn decode(id: CommitId, bytes: &[u8]) -> Result<Self, RecordError> {
        let record = codec::decode(bytes)?;
        let found = canonical::id(&record);
        if found == id {
            Ok(Self { id, record })
        } else {
            Err(RecordError::OtherId { expected: id, found })
        }
    }

    /// Reads stored bytes whose id is not known.
    ///
    /// # Errors
    /// [`RecordError`] when the bytes are not what [`encode`](Self::encode) writes.
    pub fn decode_any(bytes: &[u8]) -> Result<Self, RecordError> {
        let record = codec::decode(bytes)?;
        let id = canonical::id(&record);
        Ok(Self { id, record })
    }

    /// Reads the canonical text of a record, as `export` writes it.
    ///
    /// # Errors
    /// [`RecordError`] when the text is not a record of this version.
    pub fn from_canonical(text: &str) -> Result<Self, RecordError> {
        Self::seal(canonical::parse(text)?)
    }

    /// Returns the id.
    pub fn id(&self) -> CommitId {
        self.id
    }

    /// Returns the record.
    pub fn record(&self) -> &CommitRecord {
        &self.record
    }
}

impl Deref for Commit {
    type Target = CommitRecord;
    fn deref(&self) -> &CommitRecord {
        &self.record
    }
}

/// One line: the first digits of the id, the operation, the kind of its content, and the commit's own line for the
/// log where it has one.
///
/// ```
/// use tract_core::{AuthorKind, Commit, CommitRecord, Op};
/// let mut record = CommitRecord::new(Op::Note, AuthorKind::User);
/// record.message = Some("before the trip".to_owned());
/// let commit = Commit::seal(record)?;
/// assert_eq!(commit.to_string(), format!("{} note: before the trip", commit.id().short()));
/// # Ok::<(), tract_core::RecordError>(())
/// ```
impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id.short(), self.op.name())?;
        if let Some(kind) = &self.kind {
            write!(f, " {}", kind.as_str())?;
        }
        match &self.message {
            Some(message) => write!(f, ": {message}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Commit({} {})", self.id.short(), self.op.name())
    }
}
