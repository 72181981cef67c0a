//! Erase and redact: bytes that are deleted for good, and messages that say so in their place.

mod document;
mod edits;
mod report;
mod request;
mod scan;
mod search;

use std::collections::BTreeMap;

use tract_core::store::{BlobKey, StoreErrorKind, WipeReport};
use tract_core::{Applied, Blob, BlobId, ObjectId, RefName, RefTarget, StoreError, StoreExt as _};
use tract_hooks::Hooks;

pub use self::document::Erasure;
pub use self::report::{ErasePlace, ErasePlaceKind, EraseReport, ErasedBlob};
pub use self::request::{EraseRequest, EraseTarget};
use self::scan::Scan;
use crate::error::{Error, Result};
use crate::repo::Repo;
use crate::txn::{Txn, WriteOptions};

/// Erases: deletes bytes for good, everywhere in the repository.
///
/// # Behavior
/// - Finds every stored content, provider's bytes, kept original, tool definition and document that
///   has the text, and what shows it. With [`EraseRequest::dry_run`] that is all.
/// - In one write: each branch that shows such a message gets an edit of it, tools in force are
///   replaced, documents are rewritten, the bytes are deleted, and `erasures/<blob>` says when, by
///   whom and why. Commits stay as they are, with their ids.
/// - From then on the bytes are refused when they come again, a context that needs them is an error
///   that names the erasure, and `undo` moves branches back but brings no bytes back.
/// - Afterwards derived data is dropped and the store is wiped ([`finish_erasures`]).
/// - Nothing is written when nothing is found.
///
/// # Errors
/// `Unsupported` when the store cannot erase; [`Error::BadErase`] when something was asked for that
/// cannot be erased; [`Error::KeptMoving`] when others kept moving the branches.
pub async fn erase(repo: &Repo, request: &EraseRequest) -> Result<EraseReport> {
    let capabilities = repo.store().capabilities();
    if !(capabilities.erases && capabilities.collects_garbage) {
        let (kind, backend) = (StoreErrorKind::Unsupported, repo.store().backend());
        return Err(StoreError::new(kind, backend, "erase", "this store cannot erase").into());
    }
    request.check()?;
    match erase_all(repo, request).await {
        // Another erasure was first.
        Err(Error::Missing(ObjectId::Blob(blob)))
        | Err(Error::Store(StoreError {
            kind: StoreErrorKind::Missing { object: ObjectId::Blob(blob) },
            ..
        })) => Err(repo.absent_blob(blob).await),
        done => done,
    }
}

async fn erase_all(repo: &Repo, request: &EraseRequest) -> Result<EraseReport> {
    // No handler is asked: one that refuses would keep the bytes, and one that keeps a copy too.
    let bare = repo.with_hooks(Hooks::default());
    let mut races = repo.races();
    loop {
        let mut scan = Scan::new(&bare, request).await?;
        let mut report = scan.report();
        if request.dry_run || scan.is_empty() {
            return Ok(report);
        }
        // Looking for all of it takes long, following the branches does not.
        loop {
            if !scan.follow().await? {
                races.lose().await?;
                break;
            }
            match write(&bare, &scan, request, &mut report).await? {
                Applied::Done | Applied::Already => {
                    report.wiped = finish_erasures(repo).await;
                    return Ok(report);
                }
                Applied::Conflict(conflict) => {
                    races.lose().await?;
                    // Another erasure, or another document.
                    if conflict.name.branch_name().is_none() {
                        break;
                    }
                }
            }
        }
    }
}

/// Writes the edits, the documents, the deletion and what says so, all or none.
async fn write(
    repo: &Repo,
    scan: &Scan<'_>,
    request: &EraseRequest,
    report: &mut EraseReport,
) -> Result<Applied> {
    let mut txn = Txn::new(repo)?;
    report.edits = edits::plan(&mut txn, scan, request).await?;
    let at_us = repo.now_us();
    for blob in &report.blobs {
        let document = Erasure {
            blob: blob.id,
            reason: request.reason.clone(),
            who: repo.who().to_owned(),
            at_us,
            bytes: blob.bytes,
        };
        let document = document.to_blob();
        let target = RefTarget::Blob(document.id());
        txn.blob(document)?;
        txn.move_from(&RefName::erasure(blob.id), None, Some(target));
    }
    let options = WriteOptions::new().why(&request.reason);
    txn.apply(request.verb(), &options).await
}

/// Does what is left of earlier erasures: drops derived data and wipes the files of the store. It
/// does no harm when nothing is left, and can be done again.
///
/// # Errors
/// `Unsupported` when the store cannot erase; `Busy` when others use it, `ReadOnly` when this user may
/// not wipe it: the bytes may still be in its files then.
pub async fn finish_erasures(repo: &Repo) -> Result<WipeReport> {
    repo.compiler().forget();
    repo.store().drop_derived(repo.name()).await?;
    let wiped = repo.store().wipe().await;
    // Rows are derived: where they cannot be made again, queries do without.
    let _without = crate::turns::rebuild_all(repo).await;
    Ok(wiped?)
}

/// The erasures that came with history from elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CarriedErasures {
    /// How many blobs were erased there, and now are here.
    pub blobs: usize,
    /// Why the files of the store may still have their bytes: [`finish_erasures`] is to be done
    /// again. `None` when they have not.
    pub not_wiped: Option<String>,
}

impl CarriedErasures {
    /// Notes that erasures came, and does what is left of them.
    pub(crate) async fn finish(&mut self, repo: &Repo, blobs: usize) {
        if blobs > 0 {
            self.blobs += blobs;
            let wiped = finish_erasures(repo).await;
            self.not_wiped = wiped.err().map(|error| error.to_string());
        }
    }
}

/// Lists what was erased in a repository, by blob.
///
/// # Errors
/// What the store says; a document that cannot be read is left out of the reasons, not of the list.
pub async fn erasures(repo: &Repo) -> Result<BTreeMap<BlobId, Erasure>> {
    let mut found = BTreeMap::new();
    for (name, document) in repo.documents(RefName::erasures()).await? {
        if let Some(blob) = name.erased_blob() {
            found.insert(blob, Erasure::read(blob, &document));
        }
    }
    Ok(found)
}

impl Repo {
    /// Reads blobs in the order of the keys; `None` for one that was erased.
    ///
    /// # Errors
    /// [`Error::Missing`] for one that is not stored and was not erased; what the store says.
    pub(crate) async fn blobs_or_erased(&self, keys: &[BlobKey]) -> Result<Vec<Option<Blob>>> {
        let found = self.store().blobs(self.name(), keys).await?;
        let absent = keys.iter().zip(&found).filter(|(_, blob)| blob.is_none());
        let absent: Vec<BlobId> = absent.map(|(key, _)| key.id).collect();
        if absent.is_empty() {
            return Ok(found);
        }
        let erasures: Vec<RefName> = absent.iter().map(|id| RefName::erasure(*id)).collect();
        let erasures = self.store().refs(self.name(), &erasures).await?;
        match absent.iter().zip(erasures).find(|(_, erasure)| erasure.is_none()) {
            Some((id, _)) => Err(Error::Missing(ObjectId::Blob(*id))),
            None => Ok(found),
        }
    }

    /// Returns the error of a blob that is not stored: that it was erased, where it was.
    pub(crate) async fn absent_blob(&self, blob: BlobId) -> Error {
        match self.erasure_of(blob).await {
            Ok(Some(erasure)) => Error::Erased(Box::new(erasure)),
            Ok(None) => Error::Missing(ObjectId::Blob(blob)),
            Err(error) => error,
        }
    }

    /// Returns what is recorded of the erasure of a blob; `None` when it was not erased.
    ///
    /// # Errors
    /// What the store says.
    pub async fn erasure_of(&self, blob: BlobId) -> Result<Option<Erasure>> {
        let Some(RefTarget::Blob(id)) = self.ref_target(&RefName::erasure(blob)).await? else {
            return Ok(None);
        };
        let document = self.store().blob(self.name(), id).await?;
        let erasure = document.map(|document| Erasure::read(blob, &document));
        Ok(Some(erasure.unwrap_or_else(|| Erasure::unknown(blob))))
    }
}
