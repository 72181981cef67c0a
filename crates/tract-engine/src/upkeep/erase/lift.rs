//! Storing erased bytes again, which is allowed unless they are banned, and lifting bans.

use std::collections::{BTreeMap, HashMap, HashSet};

use tract_core::{BlobId, RefName, RefTarget};

use crate::repo::Repo;
use crate::repo::erasure::Erasure;
use crate::repo::error::Result;
use crate::write::erasures::erasures;
use crate::write::txn::{Txn, WriteOptions};

/// Returns the banned blobs with their erasures.
pub(crate) async fn banned(repo: &Repo) -> Result<HashMap<BlobId, Erasure>> {
    let erasures = erasures(repo).await?;
    Ok(erasures.into_iter().filter(|(_, erasure)| erasure.ban).collect())
}

/// Lists the erasures that arrived from other stores and wait for confirmation, by blob: messages
/// here that the erasure does not name have the same bytes. [`erase`](super::erase) of the blob
/// confirms an erasure, [`lift_erasure`] discards it.
///
/// # Errors
/// When the store fails.
pub async fn pending_erasures(repo: &Repo) -> Result<BTreeMap<BlobId, Erasure>> {
    let documents = repo.documents(RefName::pending_erasures()).await?;
    let named = documents.into_iter().filter_map(|(name, document)| {
        let blob = name.pending_erasure_blob()?;
        Some((blob, Erasure::read(blob, &document)))
    });
    let mut pending: BTreeMap<BlobId, Erasure> = named.collect();
    let keys: Vec<_> = pending.keys().map(|id| (*id).into()).collect();
    let stored = repo.store().blobs(repo.name(), &keys).await?;
    let stored: HashSet<BlobId> = stored.iter().flatten().map(|blob| blob.id()).collect();
    // Remove blobs that were collected or erased since.
    pending.retain(|id, _| stored.contains(id));
    Ok(pending)
}

/// Lifts the ban of a blob, and discards its pending erasure. Returns whether there was either. The
/// erasure stays recorded, and messages do not get their bytes back.
///
/// # Errors
/// [`Error::KeptMoving`](crate::Error::KeptMoving) when others keep changing it; when the store
/// fails.
pub async fn lift_erasure(repo: &Repo, blob: BlobId) -> Result<bool> {
    let (name, pending) = (RefName::erasure(blob), RefName::pending_erasure(blob));
    let mut races = repo.races();
    loop {
        let mut txn = Txn::new(repo)?;
        // Read the ref before the document, so that the write fails if it changes in between.
        txn.target(&name).await?;
        let erasure = repo.erasure_of(blob).await?.filter(|erasure| erasure.ban);
        if let Some(erasure) = erasure {
            let lifted = Erasure { ban: false, ..erasure };
            let document = lifted.to_blob();
            txn.move_ref(&name, Some(RefTarget::Blob(document.id()))).await?;
            txn.blob(document)?;
        }
        txn.move_ref(&pending, None).await?;
        if !txn.moves_refs() {
            return Ok(false);
        }
        let applied = txn.apply("lift erasure", &WriteOptions::default()).await?;
        if races.won(applied).await? {
            return Ok(true);
        }
    }
}
