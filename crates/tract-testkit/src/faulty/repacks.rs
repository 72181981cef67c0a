//! Faults in repacks.

use tract_core::store::{ListKind, ObjectListing, RepackPage, RepackStep};
use tract_core::{ObjectId, RepoName, Store, StoreResult};

use super::Fault;

impl Fault {
    /// Runs a step of a repack, with the fault.
    pub(super) async fn repack_badly(
        self,
        store: &dyn Store,
        repo: &RepoName,
        step: RepackStep,
    ) -> StoreResult<RepackPage> {
        let begins = matches!(step, RepackStep::Blobs { after: 0, .. });
        match self {
            Self::RepacksNothing => return Ok(RepackPage::default()),
            Self::RepacksEverywhere if step == RepackStep::Train => {
                for other in store.repos().await? {
                    let mut next = Some(RepackStep::Train);
                    while let Some(step) = next {
                        next = store.repack(&other, step).await?.next;
                    }
                }
            }
            Self::RepackLoses if begins => lose_a_blob(store, repo).await?,
            _ => {}
        }
        let mut page = store.repack(repo, step).await?;
        if self == Self::RepackMiscounts {
            page.blobs += 1;
        }
        Ok(page)
    }
}

async fn lose_a_blob(store: &dyn Store, repo: &RepoName) -> StoreResult<()> {
    let listing = ObjectListing { kind: ListKind::Blobs, after: 0, limit: 1 };
    let page = store.list_objects(repo, listing).await?;
    let Some((ObjectId::Blob(blob), _)) = page.objects.first() else { return Ok(()) };
    let _ = store.apply(repo, crate::fixtures::erasing(*blob)).await?;
    Ok(())
}
