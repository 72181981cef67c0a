//! The report of an erasure.

use tract_core::store::WipeReport;
use tract_core::{BlobId, CommitId};
use tract_secrets::SecretKind;

use crate::repo::error::Result;

/// A blob that is erased.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErasedBlob {
    /// The blob.
    pub id: BlobId,
    /// How many bytes it has.
    pub bytes: u64,
    /// The kinds of the secrets in it, in order; empty when it was not searched for secrets.
    pub kinds: Vec<SecretKind>,
}

/// The kind of a place that has the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ErasePlaceKind {
    /// The content of a message.
    Message,
    /// A summary that quotes it.
    Summary,
    /// The provider's bytes of a message.
    Verbatim,
    /// An original that a commit keeps, such as what a hook replaced.
    Original,
    /// A tool's definition.
    Tool,
    /// A document: a pending approval, a decision, an effect, an import, a pin.
    Document,
    /// A field of a commit's record, which is part of its id and stays.
    Record,
    /// An entry of the ref log, which stays.
    Log,
}

impl ErasePlaceKind {
    /// Returns the word for it.
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

    /// Returns whether an erasure leaves the bytes there.
    pub const fn stays(self) -> bool {
        matches!(self, Self::Record | Self::Log)
    }
}

/// A place that has the bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct ErasePlace {
    /// Its kind.
    pub kind: ErasePlaceKind,
    /// The commit, where it is one's.
    pub commit: Option<CommitId>,
    /// The document, the tool, the field of the record, or the number of the log's entry.
    pub name: Option<String>,
    /// The branches that show it, sorted.
    pub branches: Vec<String>,
    /// Whether it belongs to another message than the named ones: its bytes stay unless the erasure
    /// applies [everywhere](super::EraseRequest::everywhere).
    pub other: bool,
}

impl ErasePlace {
    pub(super) fn new(kind: ErasePlaceKind) -> Self {
        Self { kind, commit: None, name: None, branches: Vec::new(), other: false }
    }

    pub(super) fn named(kind: ErasePlaceKind, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::new(kind) }
    }

    /// Returns whether the erasure leaves the bytes there.
    pub fn stays(&self) -> bool {
        self.other || self.kind.stays()
    }
}

/// What [`erase`](super::erase) did, or would do.
#[derive(Debug)]
#[non_exhaustive]
pub struct EraseReport {
    /// The blobs that are deleted.
    pub blobs: Vec<ErasedBlob>,
    /// The blobs of the named messages that stay, because other messages have them too. The named
    /// messages are edited all the same.
    pub shared: Vec<ErasedBlob>,
    /// Every place that has the bytes.
    pub places: Vec<ErasePlace>,
    /// How many edits were written, or would be.
    pub edits: usize,
    /// The outcome of the wipe. After an error the files may still hold the bytes, and the wipe has
    /// to be repeated; a dry run wipes nothing.
    pub wiped: Result<WipeReport>,
}

impl EraseReport {
    /// Lists the places where the bytes stay: nothing can be taken out of a commit's record or of the
    /// ref log.
    pub fn remaining(&self) -> impl Iterator<Item = &ErasePlace> {
        self.places.iter().filter(|place| place.kind.stays())
    }

    /// Lists the places of other messages, where the bytes stay.
    pub fn others(&self) -> impl Iterator<Item = &ErasePlace> {
        self.places.iter().filter(|place| place.other)
    }

    /// Returns whether there is nothing to erase.
    pub fn is_empty(&self) -> bool {
        self.blobs.is_empty() && self.edits == 0
    }
}
