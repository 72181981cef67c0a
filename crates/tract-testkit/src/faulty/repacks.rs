//! Repacks that go wrong.

use tract_core::store::{ListKind, ObjectListing, RepackPage, RepackStep};
use tract_core::{ObjectId, RepoName, StoreResult};

use super::{Fault, FaultyStore};

impl FaultyStore {
    /// Does a step of a repack, or something else.
    pub(super) async fn repack_badly(
        &self,
        repo: &RepoName,
        step: RepackStep,
    ) -> StoreResult<RepackPage> {
        let begins = matches!(step, RepackStep::Blobs { after: 0, .. });
        match self.fault {
            Fault::RepacksNothing => return Ok(RepackPage::default()),
            Fault::RepacksEverywhere if step == RepackStep::Train => {
                for other in self.store.repos().await? {
                    let mut next = Some(RepackStep::Train);
                    while let Some(step) = next {
                        next = self.store.repack(&other, step).await?.next;
                    }
                }
            }
            Fault::RepackLoses if begins => self.lose_a_blob(repo).await?,
            _ => {}
        }
        let mut page = self.store.repack(repo, step).await?;
        if self.has(Fault::RepackMiscounts) {
            page.blobs += 1;
        }
        Ok(page)
    }

    async fn lose_a_blob(&self, repo: &RepoName) -> StoreResult<()> {
        let listing = ObjectListing { kind: ListKind::Blobs, after: 0, limit: 1 };
        let page = self.store.list_objects(repo, listing).await?;
        let Some((ObjectId::Blob(blob), _)) = page.objects.first() else { return Ok(()) };
        let _ = self.store.apply(repo, crate::fixtures::erasing(*blob)).await?;
        Ok(())
    }
}
