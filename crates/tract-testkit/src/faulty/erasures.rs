//! Erasures that go wrong.

use tract_core::{Applied, Batch, BlobId, RepoName, StoreError, StoreErrorKind, StoreResult};

use super::{Fault, FaultyStore};

impl FaultyStore {
    /// Changes what a batch erases; an error is answered in its stead.
    pub(super) async fn erase_badly(&self, repo: &RepoName, batch: &mut Batch) -> StoreResult<()> {
        let alone = |batch: &Batch| Batch {
            blobs: batch.blobs.clone(),
            refs: batch.refs.clone(),
            ..crate::fixtures::batch("erase")
        };
        match self.fault {
            Fault::ErasesNothing => {
                batch.refs.retain(|e| e.to.is_none() || e.name.erased_blob().is_none());
            }
            Fault::RefusesErasedLinks => {
                let mut links = batch.commits.iter().flat_map(|commit| commit.linked_blobs());
                let erased: Option<BlobId> = links.find(|blob| batch.erases(*blob));
                if let Some(blob) = erased {
                    return Err(StoreError::erased("faulty", "apply", blob));
                }
            }
            Fault::KeepsErasures => {
                batch.refs.retain(|e| e.to.is_some() || e.name.erased_blob().is_none());
            }
            Fault::ErasesEverywhere if batch.erasures().next().is_some() => {
                for other in self.store.repos().await?.iter().filter(|other| *other != repo) {
                    let _ = self.store.apply(other, alone(batch)).await?;
                }
            }
            Fault::ErasesAnyway if batch.erasures().next().is_some() => {
                let mut erasure = alone(batch);
                erasure.refs.retain(|edit| edit.name.erased_blob().is_some());
                let _ = self.store.apply(repo, erasure).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Changes the answer to a batch.
    pub(super) fn answer_badly(&self, answer: StoreResult<Applied>) -> StoreResult<Applied> {
        match answer {
            Err(error)
                if self.has(Fault::TakesErased)
                    && matches!(error.kind, StoreErrorKind::Erased { .. }) =>
            {
                Ok(Applied::Done)
            }
            answer => answer,
        }
    }
}
