//! Intact copies of objects, for a store in which they are damaged or missing.

use super::{StoreError, StoreErrorKind};
use crate::commit::Commit;
use crate::object::{Blob, Toolset};

/// Copies of objects. Each has the id that its bytes hash to, so it cannot be a copy of another
/// object.
#[derive(Clone, Debug, Default)]
pub struct ObjectCopies {
    /// Commits, parents first.
    pub commits: Vec<Commit>,
    /// Blobs.
    pub blobs: Vec<Blob>,
    /// Toolsets.
    pub toolsets: Vec<Toolset>,
}

impl ObjectCopies {
    /// Returns the number of copies.
    pub fn len(&self) -> usize {
        self.commits.len() + self.blobs.len() + self.toolsets.len()
    }

    /// Returns whether there are no copies.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns the error of a store that cannot restore objects.
pub(super) fn unsupported(backend: &'static str) -> StoreError {
    let message = "this store cannot replace damaged objects";
    StoreError::new(StoreErrorKind::Unsupported, backend, "restore", message)
}
