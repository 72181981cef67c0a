//! What an erasure asks of a store: bytes that are deleted for good, and stay deleted.

use std::path::PathBuf;

use crate::batch::Batch;
use crate::id::BlobId;
use crate::object::ObjectId;
use crate::refs::{RefName, RefTarget};

use super::{StoreError, StoreErrorKind};

/// The folder of erasure documents: `erasures/<blob id>`.
const FOLDER: &str = "erasures/";

/// The ref that every erasure moves.
pub(crate) const NEWEST: &str = "erasures/newest";

/// The folder of erasures that arrived from another store and wait for confirmation. It is not under
/// [`FOLDER`], whose refs delete.
const PENDING: &str = "pending-erasures/";

impl RefName {
    /// Returns the name of the ref that says that a blob was erased.
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

    /// Returns the blob that is erased while this ref exists; `None` for any other ref.
    pub fn erased_blob(&self) -> Option<BlobId> {
        self.as_str().strip_prefix(FOLDER)?.parse().ok()
    }

    /// Returns the prefix of all refs that say that something was erased.
    pub const fn erasures() -> &'static str {
        FOLDER
    }

    /// Returns the name of the ref that every erasure moves. A write of rows that were derived from
    /// messages requires it to be where it was when the messages were read, so that no erased word is
    /// written again.
    pub fn newest_erasure() -> Self {
        Self::new(NEWEST).expect("a valid name")
    }

    /// Returns the name of the ref that offers the erasure of a blob for confirmation: it was erased
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

    /// Returns the blob whose erasure this ref offers; `None` for any other ref.
    pub fn pending_erasure_blob(&self) -> Option<BlobId> {
        self.as_str().strip_prefix(PENDING)?.parse().ok()
    }

    /// Returns the prefix of all refs that offer an erasure.
    pub const fn pending_erasures() -> &'static str {
        PENDING
    }
}

impl Batch {
    /// Lists the blobs that are erased once this batch is applied: those whose erasure it makes,
    /// or names as it is.
    pub fn erasures(&self) -> impl Iterator<Item = BlobId> + '_ {
        let made = |to: &Option<RefTarget>| matches!(to, Some(RefTarget::Blob(_)));
        self.refs.iter().filter(move |edit| made(&edit.to)).filter_map(|e| e.name.erased_blob())
    }

    /// Returns whether the batch makes or names the erasure of a blob, and so may link to it.
    pub fn erases(&self, blob: BlobId) -> bool {
        self.erasures().any(|erased| erased == blob)
    }

    /// Returns whether the batch ends the erasure of a blob, and so may bring it.
    pub fn allows_again(&self, blob: BlobId) -> bool {
        let name = RefName::erasure(blob);
        self.refs.iter().any(|edit| edit.to.is_none() && edit.name == name)
    }
}

/// What was done so that deleted bytes are in no file of the store any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WipeReport {
    /// What may still hold the bytes, and what to do about it; empty when nothing of the store does.
    pub remains: Vec<String>,
    /// Copies of the store that tract had made next to it, and that were deleted: they may have
    /// contained the bytes.
    pub removed: Vec<PathBuf>,
}

impl WipeReport {
    /// Makes the report of an engine that says where the bytes may remain.
    pub fn new(remains: Vec<String>) -> Self {
        Self { remains, removed: Vec::new() }
    }

    /// Returns what the user has to know, one sentence each: the copies that were deleted, and what
    /// may still contain the bytes.
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
    /// Makes the error of a batch that brings or needs a blob that was erased.
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
