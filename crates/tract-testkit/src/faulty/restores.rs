//! Faults in restores.

use tract_core::store::ObjectCopies;
use tract_core::{Expect, ObjectId, RefEdit, RefName, RepoName, Store, StoreExt, StoreResult};

use super::Fault;

impl Fault {
    /// Restores objects, with the fault.
    pub(super) async fn restore_badly(
        self,
        store: &dyn Store,
        repo: &RepoName,
        copies: &ObjectCopies,
    ) -> StoreResult<Vec<ObjectId>> {
        let mut copies = copies.clone();
        match self {
            Self::RestoresNothing => return Ok(Vec::new()),
            Self::RestoresErased => {
                for blob in &copies.blobs {
                    let name = RefName::erasure(blob.id());
                    if store.ref_target(repo, &name).await?.is_some() {
                        let mut again = crate::fixtures::storing([blob.clone()]);
                        again.refs.push(RefEdit { name, expect: Expect::Any, to: None });
                        let _ = store.apply(repo, again).await?;
                    }
                }
            }
            Self::RestoresInOrder => {
                let mut stored = Vec::new();
                for commit in copies.commits {
                    let parent = match commit.parent() {
                        Some(parent) => store.commit(repo, parent).await?.is_some(),
                        None => true,
                    };
                    stored.extend(parent.then_some(commit));
                }
                copies.commits = stored;
            }
            Self::RestoresEverywhere => {
                for other in store.repos().await?.iter().filter(|other| *other != repo) {
                    store.restore(other, copies.clone()).await?;
                }
            }
            _ => {}
        }
        let all: Vec<ObjectId> =
            copies.blobs.iter().map(|blob| ObjectId::Blob(blob.id())).collect();
        let restored = store.restore(repo, copies).await?;
        Ok(if self == Self::RestoreMiscounts { all } else { restored })
    }
}
