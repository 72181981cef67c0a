//! Erasure: blobs are deleted in the same write as the erasure ref, which also blocks their return.

use super::compressed;
use super::keys::Repo;
use super::overlay::Overlay;
use super::read::View;
use super::sweep;
use tract_core::id::BlobId;
use tract_core::object::ObjectId;
use tract_core::refs::RefName;
use tract_core::store::StoreResult;

impl View<'_> {
    pub(super) fn is_erased(&self, blob: BlobId) -> StoreResult<bool> {
        Ok(self.ref_target(&RefName::erasure(blob))?.is_some())
    }
}

/// Deletes blobs. Also counts a sweep, which invalidates the places that handles have cached.
pub(super) fn erase(
    overlay: &mut Overlay<'_>,
    repo: Repo,
    backend: &'static str,
    blobs: &[BlobId],
) -> StoreResult<()> {
    for blob in blobs {
        sweep::delete(overlay, repo, backend, ObjectId::Blob(*blob))?;
    }
    compressed::distrust_dictionaries(overlay, repo, backend)?;
    sweep::count(overlay, repo, backend)
}
