//! Repacking at the level of stores: rewriting blobs in less space.

use super::{StoreError, StoreErrorKind};

/// A step of a repack. It starts with [`RepackStep::Train`]; each result contains the next step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RepackStep {
    /// Trains a dictionary on a sample of the repository's blobs, and stores it.
    #[default]
    Train,
    /// Rewrites a range of blobs.
    Blobs {
        /// The position after which the range starts; 0 at first.
        after: u64,
        /// The number of the dictionary trained by this repack; 0 if there is none.
        trained: u64,
        /// Some blobs could not be read, so the dictionaries that they may need are kept.
        unreadable: bool,
    },
    /// Deletes the dictionaries that are not used by any blob.
    Finish {
        /// As in `Blobs`.
        trained: u64,
        /// As in `Blobs`.
        unreadable: bool,
    },
    /// Rewrites the store's files without free space. Other writers wait until it is done.
    Shrink,
}

/// The result of a step of a repack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepackPage {
    /// Number of blobs that were examined.
    pub blobs: u64,
    /// Number of blobs that were rewritten.
    pub written: u64,
    /// Bytes of the examined blobs before.
    pub before: u64,
    /// Bytes of the examined blobs now.
    pub after: u64,
    /// Number of blobs that could not be read, and were left unchanged; `verify` lists them.
    pub unreadable: u64,
    /// A note from the engine to the user.
    pub note: Option<String>,
    /// The next step; `None` at the end.
    pub next: Option<RepackStep>,
}

impl RepackPage {
    /// Creates the result of a step that rewrote no blobs.
    pub fn to(next: impl Into<Option<RepackStep>>) -> Self {
        Self { next: next.into(), ..Self::default() }
    }
}

/// Returns the error of a store that cannot repack.
pub(super) fn unsupported(backend: &'static str) -> StoreError {
    let message = "this store does not compress what it keeps";
    StoreError::new(StoreErrorKind::Unsupported, backend, "repack", message)
}
