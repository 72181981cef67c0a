//! Names of commits.

use tract_core::{Commit, CommitId};

/// A name for a commit: an id, a commit, or text as on the command line.
///
/// Text is a branch, a tag, `HEAD`, or at least 4 digits of an id, followed by any of `~3` (three
/// commits back), `#20` (the 20th message shown), `@{1}` (the branch before its last move) and
/// `@{2026-01-31T09:30:00Z}` (the branch at that time).
///
/// ```
/// use tract::{CommitId, Revision};
/// let by_text: Revision = "main~3".into();
/// let by_id: Revision = CommitId::from_bytes([1; 32]).into();
/// assert_eq!(by_text.to_string(), "main~3");
/// assert!(by_id.to_string().starts_with("0101"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Revision(pub(crate) NamedRevision);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum NamedRevision {
    Id(CommitId),
    Text(String),
}

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            NamedRevision::Id(id) => id.fmt(f),
            NamedRevision::Text(text) => f.write_str(text),
        }
    }
}

impl From<CommitId> for Revision {
    fn from(id: CommitId) -> Self {
        Self(NamedRevision::Id(id))
    }
}

impl From<&CommitId> for Revision {
    fn from(id: &CommitId) -> Self {
        Self(NamedRevision::Id(*id))
    }
}

impl From<&Commit> for Revision {
    fn from(commit: &Commit) -> Self {
        Self(NamedRevision::Id(commit.id()))
    }
}

impl From<Commit> for Revision {
    fn from(commit: Commit) -> Self {
        Self(NamedRevision::Id(commit.id()))
    }
}

impl From<&str> for Revision {
    fn from(text: &str) -> Self {
        Self(NamedRevision::Text(text.to_owned()))
    }
}

impl From<String> for Revision {
    fn from(text: String) -> Self {
        Self(NamedRevision::Text(text))
    }
}

impl From<&String> for Revision {
    fn from(text: &String) -> Self {
        Self(NamedRevision::Text(text.clone()))
    }
}

impl From<&Revision> for Revision {
    fn from(revision: &Revision) -> Self {
        revision.clone()
    }
}
