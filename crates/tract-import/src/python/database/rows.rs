//! The rows in the original's format.

use std::collections::HashMap;

/// The contents of a file.
#[derive(Clone, Debug, Default)]
pub struct Database {
    /// The schema version of the file; [`OLDEST_VERSION`](super::OLDEST_VERSION) to
    /// [`NEWEST_VERSION`](super::NEWEST_VERSION).
    pub schema_version: u32,
    /// Whether edits name their target in a column with the old name, `response_to`. The name is
    /// part of the hash, and no migration of the original renames it.
    pub old_edit_column: bool,
    /// By hash.
    pub commits: HashMap<String, Commit>,
    /// Canonical texts by content hash, as stored.
    pub blobs: HashMap<String, String>,
    /// Branches, `HEAD` and others.
    pub refs: Vec<RefRow>,
    /// Priorities, oldest first. For each target the last one counts.
    pub annotations: Vec<Annotation>,
    /// By hash. Empty before version 8.
    pub tools: HashMap<String, Tool>,
    /// Compressions, rebases and imports, oldest first.
    pub events: Vec<Event>,
    /// Tags that were added to commits later. Those given with a commit are in the commit.
    pub tags: Vec<Tag>,
    /// Tags that the original adds automatically.
    pub automatic_tags: Vec<String>,
    /// The conversations that were spawned from another one.
    pub spawns: Vec<Spawn>,
}

/// The operation of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Adds a message.
    Append,
    /// Replaces a message.
    Edit,
}

/// A commit.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Its hash: 64 hexadecimal digits.
    pub hash: String,
    /// The conversation that it belongs to.
    pub tract_id: String,
    /// The previous commit.
    pub parent: Option<String>,
    /// All parents of a merge, in order; empty for other commits.
    pub parents: Vec<String>,
    /// The hash of its content.
    pub content_hash: String,
    /// The type of its message.
    pub content_type: String,
    /// Its operation.
    pub operation: Operation,
    /// The commit that an edit replaces.
    pub edit_target: Option<String>,
    /// Its log message.
    pub message: Option<String>,
    /// A JSON object, as stored.
    pub metadata: Option<String>,
    /// A JSON object, as stored.
    pub generation_config: Option<String>,
    /// Tags given with it.
    pub tags: Vec<String>,
    /// The hashes of its tools, in order.
    pub tools: Vec<String>,
    /// Microseconds since 1970, UTC.
    pub created_at: i64,
    /// The reason why its hash, or that of its content, does not match the stored data.
    pub damage: Option<String>,
}

/// A ref. One of `commit` and `symbolic` is set.
#[derive(Clone, Debug)]
pub struct RefRow {
    /// The conversation that it belongs to.
    pub tract_id: String,
    /// `HEAD`, `refs/heads/main` and so on.
    pub name: String,
    /// The commit it points to.
    pub commit: Option<String>,
    /// The ref it points to.
    pub symbolic: Option<String>,
}

/// A priority that was set for a commit.
#[derive(Clone, Debug)]
pub struct Annotation {
    /// The commit.
    pub target: String,
    /// `skip`, `normal`, `important` or `pinned`.
    pub priority: String,
    /// The reason.
    pub reason: Option<String>,
    /// The parts that compression must keep: a JSON object, as stored.
    pub retention: Option<String>,
    /// Microseconds since 1970, UTC.
    pub created_at: i64,
}

/// A tool's schema.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Its name, possibly empty.
    pub name: String,
    /// The schema, as stored.
    pub schema: String,
}

/// An event that rewrote history.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its id.
    pub id: String,
    /// The conversation.
    pub tract_id: String,
    /// `compress`, `reorganize` or `import`.
    pub event_type: String,
    /// The branch, if the event names one.
    pub branch: Option<String>,
    /// Its parameters: JSON, as stored.
    pub params: Option<String>,
    /// Microseconds since 1970, UTC.
    pub created_at: i64,
    /// The commits that it rewrote, in order.
    pub sources: Vec<EventCommit>,
    /// The commits that it wrote instead, in order.
    pub results: Vec<EventCommit>,
}

/// A commit of an event: its hash.
pub type EventCommit = String;

/// A tag on a commit.
#[derive(Clone, Debug)]
pub struct Tag {
    /// The conversation.
    pub tract_id: String,
    /// The commit.
    pub target: String,
    /// The tag.
    pub tag: String,
}

/// A conversation that was spawned from another one.
#[derive(Clone, Debug)]
pub struct Spawn {
    /// The parent conversation.
    pub parent_tract_id: String,
    /// The commit that it was spawned at.
    pub parent_commit: Option<String>,
    /// The spawned conversation.
    pub child_tract_id: String,
    /// Its purpose.
    pub purpose: String,
    /// The mode of inheritance from its parent.
    pub inheritance_mode: String,
}
