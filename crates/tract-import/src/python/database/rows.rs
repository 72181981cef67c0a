//! The rows, as the original keeps them.

use std::collections::HashMap;

/// All of a file.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Database {
    /// The version that the file states; [`OLDEST_VERSION`](super::OLDEST_VERSION) to
    /// [`NEWEST_VERSION`](super::NEWEST_VERSION).
    pub schema_version: u32,
    /// Whether edits name their target in a column of the old name, `response_to`. That name is
    /// hashed too, and no migration of the original renames it.
    pub old_edit_column: bool,
    /// By hash.
    pub commits: HashMap<String, Commit>,
    /// Canonical texts by content hash, as stored.
    pub blobs: HashMap<String, String>,
    /// Branches, `HEAD` and the like.
    pub refs: Vec<RefRow>,
    /// Priorities, oldest first: of each target the last one counts.
    pub annotations: Vec<Annotation>,
    /// By hash. None before version 8.
    pub tools: HashMap<String, Tool>,
    /// Compressions, rebases, imports, oldest first.
    pub events: Vec<Event>,
    /// Tags that were put on commits later; those given with a commit are the commit's own.
    pub tags: Vec<Tag>,
    /// Tags that the original gives by itself.
    pub automatic_tags: Vec<String>,
    /// Which conversation was begun from which.
    pub spawns: Vec<Spawn>,
}

/// What a commit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Adds a message.
    Append,
    /// Replaces one.
    Edit,
}

/// A commit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Commit {
    /// Its hash: 64 hexadecimal digits.
    pub hash: String,
    /// The conversation that it belongs to.
    pub tract_id: String,
    /// The commit before it.
    pub parent: Option<String>,
    /// All parents of a merge, in their order; empty for other commits.
    pub parents: Vec<String>,
    /// The hash of what it says.
    pub content_hash: String,
    /// What sort of message it is.
    pub content_type: String,
    /// What it does.
    pub operation: Operation,
    /// The commit that an edit replaces.
    pub edit_target: Option<String>,
    /// Its line for the log.
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
    /// Why its hash or that of its content is not the hash of what is stored.
    pub damage: Option<String>,
}

/// A ref: one of both is there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RefRow {
    /// The conversation that it belongs to.
    pub tract_id: String,
    /// `HEAD`, `refs/heads/main` and so on.
    pub name: String,
    /// The commit that it points at.
    pub commit: Option<String>,
    /// The ref that it points at.
    pub symbolic: Option<String>,
}

/// A priority given to a commit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Annotation {
    /// The commit.
    pub target: String,
    /// `skip`, `normal`, `important` or `pinned`.
    pub priority: String,
    /// Why.
    pub reason: Option<String>,
    /// What compression has to keep: a JSON object, as stored.
    pub retention: Option<String>,
    /// Microseconds since 1970, UTC.
    pub created_at: i64,
}

/// A tool's schema.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tool {
    /// Its name, maybe empty.
    pub name: String,
    /// The schema, as stored.
    pub schema: String,
}

/// A rewriting of history.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// Its id.
    pub id: String,
    /// The conversation.
    pub tract_id: String,
    /// `compress`, `reorganize` or `import`.
    pub event_type: String,
    /// The branch, where it names one.
    pub branch: Option<String>,
    /// What it was asked: JSON, as stored.
    pub params: Option<String>,
    /// Microseconds since 1970, UTC.
    pub created_at: i64,
    /// What it rewrote, in order.
    pub sources: Vec<EventCommit>,
    /// What it wrote instead, in order.
    pub results: Vec<EventCommit>,
}

/// A commit's part in an event: its hash.
pub type EventCommit = String;

/// A tag on a commit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tag {
    /// The conversation.
    pub tract_id: String,
    /// The commit.
    pub target: String,
    /// The tag.
    pub tag: String,
}

/// A conversation begun from another one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Spawn {
    /// The one that began it.
    pub parent_tract_id: String,
    /// The commit that it was begun at.
    pub parent_commit: Option<String>,
    /// The one that was begun.
    pub child_tract_id: String,
    /// What for.
    pub purpose: String,
    /// What it took along.
    pub inheritance_mode: String,
}
