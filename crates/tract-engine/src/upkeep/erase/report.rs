//! The report of an erasure.

use tract_core::store::WipeReport;
use tract_core::{BlobId, CommitId};
use tract_secrets::SecretKind;

use crate::repo::error::Result;

/// An erased blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasedBlob {
    /// The blob.
    pub id: BlobId,
    /// Its size in bytes.
    pub bytes: u64,
    /// The kinds of its secrets, in order; empty if it was not scanned for secrets.
    pub kinds: Vec<SecretKind>,
}

/// The kind of a location of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErasePlaceKind {
    /// The content of a message.
    Message,
    /// A summary that quotes a message.
    Summary,
    /// The provider's original bytes of a message.
    Verbatim,
    /// An original that a commit keeps, such as a content that a hook replaced.
    Original,
    /// A tool's definition.
    Tool,
    /// A document: a pending approval, a decision, an effect, an import or a pin.
    Document,
    /// A field of a commit's record. It is part of the commit id and cannot be erased.
    Record,
    /// An entry of the ref log, which cannot be erased.
    Log,
}

impl ErasePlaceKind {
    /// Returns the display name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Summary => "summary",
            Self::Verbatim => "provider's bytes",
            Self::Original => "kept original",
            Self::Tool => "tool definition",
            Self::Document => "document",
            Self::Record => "commit record",
            Self::Log => "ref log",
        }
    }

    /// Returns whether an erasure cannot remove the bytes there.
    pub const fn stays(self) -> bool {
        matches!(self, Self::Record | Self::Log)
    }
}

/// A location of the bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ErasePlace {
    /// Its kind.
    pub kind: ErasePlaceKind,
    /// The commit, if it belongs to one.
    pub commit: Option<CommitId>,
    /// The name of the document, the tool or the record field, or the number of the log entry.
    pub name: Option<String>,
    /// The branches that show it, sorted.
    pub branches: Vec<String>,
    /// Whether it belongs to a message other than the named ones. Its bytes stay unless the erasure
    /// applies [everywhere](super::EraseRequest::everywhere).
    pub other: bool,
    /// Whether it belongs to a message other than the named ones that is on no branch: it was undone,
    /// or its branch was deleted. It loses the bytes as well.
    pub unreferenced: bool,
}

impl ErasePlace {
    pub(super) fn new(kind: ErasePlaceKind) -> Self {
        let (commit, name, branches) = (None, None, Vec::new());
        Self { kind, commit, name, branches, other: false, unreferenced: false }
    }

    pub(super) fn named(kind: ErasePlaceKind, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::new(kind) }
    }

    /// Returns whether the erasure leaves the bytes there.
    pub fn stays(&self) -> bool {
        self.other || self.kind.stays()
    }
}

/// The result of [`erase`](super::erase), or of its dry run.
#[derive(Debug)]
pub struct EraseReport {
    /// The deleted blobs.
    pub blobs: Vec<ErasedBlob>,
    /// The blobs of the named messages that stay because other messages share them. The named
    /// messages are edited anyway.
    pub shared: Vec<ErasedBlob>,
    /// All locations of the bytes.
    pub places: Vec<ErasePlace>,
    /// Number of edits.
    pub edits: usize,
    /// Whether the named messages were erased completely by an earlier erasure.
    pub was_erased: bool,
    /// The outcome of the wipe. After an error the files may still contain the bytes, and the wipe
    /// has to be repeated. A dry run wipes nothing.
    pub wiped: Result<WipeReport>,
}

impl Default for EraseReport {
    fn default() -> Self {
        Self {
            blobs: Vec::new(),
            shared: Vec::new(),
            places: Vec::new(),
            edits: 0,
            was_erased: false,
            wiped: Ok(WipeReport::default()),
        }
    }
}

impl EraseReport {
    /// Returns the locations where the bytes cannot be removed: records of commits and the ref log.
    pub fn remaining(&self) -> impl Iterator<Item = &ErasePlace> {
        self.places.iter().filter(|place| place.kind.stays())
    }

    /// Returns the locations in other messages, where the bytes stay.
    pub fn others(&self) -> impl Iterator<Item = &ErasePlace> {
        self.places.iter().filter(|place| place.other)
    }

    /// Returns whether there is nothing to erase.
    pub fn is_empty(&self) -> bool {
        self.blobs.is_empty() && self.edits == 0
    }
}
