//! Erased bytes that are stored again: allowed unless they are banned, and bans that are lifted.

use std::collections::{BTreeMap, HashMap, HashSet};

use tract_core::{BlobId, RefName, RefTarget};

use crate::repo::Repo;
use crate::repo::erasure::Erasure;
use crate::repo::error::Result;
use crate::write::erasures::erasures;
use crate::write::txn::{Txn, WriteOptions};

/// Lists the blobs that may not be stored again.
pub(crate) async fn banned(repo: &Repo) -> Result<HashMap<BlobId, Erasure>> {
    let erasures = erasures(repo).await?;
    Ok(erasures.into_iter().filter(|(_, erasure)| erasure.ban).collect())
}

/// Lists the erasures that arrived from other stores and wait for confirmation, by blob: messages
/// here that the erasure does not name have the same bytes. [`erase`](super::erase) of the blob
/// confirms one, [`lift_erasure`] discards it.
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
    // Collected or erased since.
    pending.retain(|id, _| stored.contains(id));
    Ok(pending)
}

/// Lets banned bytes be stored again, and discards the pending erasure of a blob. Returns whether
/// there was either. The erasure itself stays recorded, and no message gets its bytes back.
///
/// # Errors
/// [`Error::KeptMoving`](crate::Error::KeptMoving) when others keep changing it; when the store
/// fails.
pub async fn lift_erasure(repo: &Repo, blob: BlobId) -> Result<bool> {
    let (name, pending) = (RefName::erasure(blob), RefName::pending_erasure(blob));
    let mut races = repo.races();
    loop {
        let mut txn = Txn::new(repo)?;
        // The ref is looked at before the document, so that the write is refused if it changes.
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
        let applied = txn.apply("lift erasure", &WriteOptions::new()).await?;
        if races.won(applied).await? {
            return Ok(true);
        }
    }
}
