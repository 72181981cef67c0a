//! Faults in erasures.

use tract_core::{Batch, BlobId, RepoName, Store, StoreError, StoreResult};

use super::Fault;

impl Fault {
    /// Changes the erasures of a batch; an error becomes the answer.
    pub(super) async fn erase_badly(
        self,
        store: &dyn Store,
        repo: &RepoName,
        batch: &mut Batch,
    ) -> StoreResult<()> {
        let alone = |batch: &Batch| Batch {
            blobs: batch.blobs.clone(),
            refs: batch.refs.clone(),
            ..crate::fixtures::batch("erase")
        };
        match self {
            Self::ErasesNothing => {
                batch.refs.retain(|e| e.to.is_none() || e.name.erased_blob().is_none());
            }
            Self::RefusesErasedLinks => {
                let mut links = batch.commits.iter().flat_map(|commit| commit.linked_blobs());
                let erased: Option<BlobId> = links.find(|blob| batch.erases(*blob));
                if let Some(blob) = erased {
                    return Err(StoreError::erased("faulty", "apply", blob));
                }
            }
            Self::KeepsErasures => {
                batch.refs.retain(|e| e.to.is_some() || e.name.erased_blob().is_none());
            }
            Self::ErasesEverywhere if batch.erasures().next().is_some() => {
                for other in store.repos().await?.iter().filter(|other| *other != repo) {
                    let _ = store.apply(other, alone(batch)).await?;
                }
            }
            Self::ErasesAnyway if batch.erasures().next().is_some() => {
                let mut erasure = alone(batch);
                erasure.refs.retain(|edit| edit.name.erased_blob().is_some());
                let _ = store.apply(repo, erasure).await?;
            }
            _ => {}
        }
        Ok(())
    }
}
