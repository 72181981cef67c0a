//! Erasure at the level of stores: bytes that are deleted permanently, and cannot be stored again.

use std::path::PathBuf;

use crate::batch::Batch;
use crate::id::BlobId;
use crate::object::ObjectId;
use crate::refs::{RefName, RefTarget};

use super::{StoreError, StoreErrorKind};

/// Prefix of erasure documents: `erasures/<blob id>`.
const FOLDER: &str = "erasures/";

/// The ref that is moved by every erasure.
pub(crate) const NEWEST: &str = "erasures/newest";

/// Prefix of erasures received from another store that are pending confirmation. It is not under
/// [`FOLDER`], since refs there delete the blob.
const PENDING: &str = "pending-erasures/";

impl RefName {
    /// Returns the name of the ref that marks a blob as erased.
    ///
    /// ```
    /// use tract_core::{Blob, RefName};
    /// let id = Blob::seal("a secret").id();
    /// assert_eq!(RefName::erasure(id).erased_blob(), Some(id));
    /// assert_eq!(RefName::head().erased_blob(), None);
    /// ```
    pub fn erasure(blob: BlobId) -> Self {
        Self::new(format!("{FOLDER}{blob}")).expect("digits are valid in a name")
    }

    /// Returns the blob that this ref marks as erased; `None` for any other ref.
    pub fn erased_blob(&self) -> Option<BlobId> {
        self.as_str().strip_prefix(FOLDER)?.parse().ok()
    }

    /// Returns the prefix of all refs that mark a blob as erased.
    pub const fn erasures() -> &'static str {
        FOLDER
    }

    /// Returns the name of the ref that is moved by every erasure. A write of rows derived from
    /// messages expects the value from when the messages were read. Otherwise an erasure in between
    /// could not prevent erased words from being stored again.
    pub fn newest_erasure() -> Self {
        Self::new(NEWEST).expect("a valid name")
    }

    /// Returns the name of the ref of an erasure that is pending confirmation: the blob was erased
    /// in another store, and messages of this one have the same bytes.
    ///
    /// ```
    /// use tract_core::{Blob, RefName};
    /// let id = Blob::seal("yes").id();
    /// let name = RefName::pending_erasure(id);
    /// assert_eq!(name.pending_erasure_blob(), Some(id));
    /// assert_eq!(name.erased_blob(), None);
    /// ```
    pub fn pending_erasure(blob: BlobId) -> Self {
        Self::new(format!("{PENDING}{blob}")).expect("digits are valid in a name")
    }

    /// Returns the blob of a pending erasure; `None` for any other ref.
    pub fn pending_erasure_blob(&self) -> Option<BlobId> {
        self.as_str().strip_prefix(PENDING)?.parse().ok()
    }

    /// Returns the prefix of all pending erasures.
    pub const fn pending_erasures() -> &'static str {
        PENDING
    }
}

impl Batch {
    /// Returns the blobs that are erased once this batch is applied: those with an edit that
    /// creates or keeps the erasure.
    pub fn erasures(&self) -> impl Iterator<Item = BlobId> + '_ {
        let made = |to: &Option<RefTarget>| matches!(to, Some(RefTarget::Blob(_)));
        self.refs.iter().filter(move |edit| made(&edit.to)).filter_map(|e| e.name.erased_blob())
    }

    /// Returns whether the batch creates or keeps the erasure of a blob, and so may link to it.
    pub fn erases(&self, blob: BlobId) -> bool {
        self.erasures().any(|erased| erased == blob)
    }

    /// Returns whether the batch lifts the erasure of a blob, and so may contain it.
    pub fn allows_again(&self, blob: BlobId) -> bool {
        let name = RefName::erasure(blob);
        self.refs.iter().any(|edit| edit.to.is_none() && edit.name == name)
    }
}

/// The result of removing deleted bytes from all files of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WipeReport {
    /// The places that may still contain the bytes, with instructions; empty if the store has none.
    pub remains: Vec<String>,
    /// Copies of the store that tract had created next to it. They may have contained the bytes, so
    /// they were deleted.
    pub removed: Vec<PathBuf>,
}

impl WipeReport {
    /// Creates a report with the places in which the bytes may remain.
    pub fn new(remains: Vec<String>) -> Self {
        Self { remains, removed: Vec::new() }
    }

    /// Returns notes for the user, one sentence each: the deleted copies, and the places that may
    /// still contain the bytes.
    pub fn notes(&self) -> Vec<String> {
        let removed = self.removed.iter().map(|path| {
            format!(
                "deleted {}: an earlier copy of the store, with all its content",
                path.display()
            )
        });
        removed.chain(self.remains.iter().cloned()).collect()
    }
}

impl StoreError {
    /// Creates the error of a batch that contains or needs an erased blob.
    pub fn erased(backend: &'static str, op: &'static str, blob: BlobId) -> Self {
        let object = ObjectId::Blob(blob);
        let message = format!("{object} was erased");
        Self::new(StoreErrorKind::Erased { object }, backend, op, message)
    }
}

/// Returns the error of a store that cannot erase.
pub(super) fn unsupported(backend: &'static str, op: &'static str) -> StoreError {
    let message = "this store cannot erase";
    StoreError::new(StoreErrorKind::Unsupported, backend, op, message)
}
