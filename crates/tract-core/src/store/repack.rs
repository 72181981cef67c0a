//! What a repack asks of a store: blobs that are written again, smaller.

use super::{StoreError, StoreErrorKind};

/// The part of a repack that is done next. A repack begins with [`RepackStep::Train`]; each answer names
/// the next step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RepackStep {
    /// Trains a dictionary on a sample of the repository's blobs, and stores it.
    #[default]
    Train,
    /// Writes some blobs again.
    Blobs {
        /// The place after which they begin; 0 at first.
        after: u64,
        /// The number of the dictionary that this repack trained; 0 where it trained none.
        trained: u64,
        /// Some blobs could not be read, so the dictionaries that they may need stay.
        unreadable: bool,
    },
    /// Deletes the dictionaries that no blob needs any more.
    Finish {
        /// As in `Blobs`.
        trained: u64,
        /// As in `Blobs`.
        unreadable: bool,
    },
    /// Writes the store's files again without the space that became free. Others wait meanwhile.
    Shrink,
}

/// What a step of a repack did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepackPage {
    /// How many blobs were looked at.
    pub blobs: u64,
    /// How many of them were written again.
    pub written: u64,
    /// The bytes that the blobs which were looked at took before.
    pub before: u64,
    /// The bytes that they take now.
    pub after: u64,
    /// How many could not be read, and stay as they are; `verify` names them.
    pub unreadable: u64,
    /// What the engine has to say to a person.
    pub note: Option<String>,
    /// The next step; `None` at the end.
    pub next: Option<RepackStep>,
}

impl RepackPage {
    /// Makes the answer of a step that wrote no blob.
    pub fn to(next: impl Into<Option<RepackStep>>) -> Self {
        Self { next: next.into(), ..Self::default() }
    }
}

/// Returns the error of a store that cannot repack.
pub(super) fn unsupported(backend: &'static str) -> StoreError {
    let message = "this store does not compress what it keeps";
    StoreError::new(StoreErrorKind::Unsupported, backend, "repack", message)
}
