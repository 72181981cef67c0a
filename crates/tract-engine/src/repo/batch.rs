//! Applies a batch exactly once, and reports its outcome.

use tract_core::store::{LogQuery, Store};
use tract_core::telemetry::{self, names};
use tract_core::{
    Applied, Batch, BatchId, BlobId, Commit, CommitId, DerivedRow, Expect, ObjectId, OperationId,
    RefEdit, RefName, RefTarget, RepoName, StoreError, StoreErrorKind, StoreExt as _, StoreResult,
};
use tract_hooks::RefMoved;

use crate::repo::Repo;
use crate::repo::erasure::Erasure;
use crate::repo::erasure_mark::ErasureMark;
use crate::repo::error::{Error, Result};
use crate::repo::operation::Operation;

/// Number of retries of a batch whose outcome is unknown.
const RETRIES: usize = 3;

/// Applies a batch. Brought blobs that were erased and are not banned do not fail it: see
/// `apply_again`.
pub(crate) async fn apply_batch(
    store: &dyn Store,
    repo: &RepoName,
    batch: Batch,
) -> StoreResult<Applied> {
    // Only a batch with blobs can lift an erasure, so others need no copy.
    let kept = (!batch.blobs.is_empty()).then(|| batch.clone());
    match (apply_within_span(store, repo, batch).await, kept) {
        (Err(error), Some(kept)) if erased_blob(&error).is_some() => {
            apply_again(store, repo, kept, error).await
        }
        (applied, _) => applied,
    }
}

/// Changes a batch that was refused because of an erasure until the store accepts it. A blob that
/// only stored commits need is left out; for any other, the batch lifts the erasure.
async fn apply_again(
    store: &dyn Store,
    repo: &RepoName,
    mut batch: Batch,
    mut refused: StoreError,
) -> StoreResult<Applied> {
    let mut most = batch.blobs.len() + RETRIES;
    while let Some(blob) = erased_blob(&refused).filter(|_| most > 0) {
        most -= 1;
        let Some(changed) = let_again(store, repo, &batch, blob).await? else { break };
        match apply_within_span(store, repo, changed.clone()).await {
            Ok(Applied::Conflict(conflict)) if conflict.name.erased_blob() == Some(blob) => {}
            Err(error) if erased_blob(&error).is_some() => (batch, refused) = (changed, error),
            applied => return applied,
        }
    }
    Err(refused)
}

/// Returns the erased blob that a batch was refused for.
fn erased_blob(error: &StoreError) -> Option<BlobId> {
    match error.kind {
        StoreErrorKind::Erased { object: ObjectId::Blob(blob) } => Some(blob),
        _ => None,
    }
}

/// Returns a batch that was refused because of an erased blob, changed so that the store accepts
/// it: without the blob if only stored commits need it, else with an edit that lifts the erasure.
/// `None` if the blob is banned, or the batch needs it without bringing it.
///
/// An erasure removes bytes from the messages that it names. Another message may have the same
/// content.
async fn let_again(
    store: &dyn Store,
    repo: &RepoName,
    batch: &Batch,
    blob: BlobId,
) -> StoreResult<Option<Batch>> {
    if batch.erases(blob) || batch.blobs.iter().all(|brought| brought.id() != blob) {
        return Ok(None);
    }
    let name = RefName::erasure(blob);
    let Some(target) = store.ref_target(repo, &name).await? else {
        return Ok(Some(batch.clone()));
    };
    if let RefTarget::Blob(id) = target
        && let Some(document) = store.blob(repo, id).await?
        && Erasure::read(blob, &document).ban
    {
        return Ok(None);
    }
    let mut batch = batch.clone();
    if is_needed(store, repo, &batch, blob).await? {
        batch.refs.push(RefEdit { name, expect: Expect::Is(target), to: None });
    } else {
        // For example when a conversation is imported again: its erased message stays erased.
        batch.blobs.retain(|brought| brought.id() != blob);
    }
    Ok(Some(batch))
}

/// Returns whether a new object or ref of a batch links to a blob.
async fn is_needed(
    store: &dyn Store,
    repo: &RepoName,
    batch: &Batch,
    blob: BlobId,
) -> StoreResult<bool> {
    let linking = batch.commits.iter().filter(|commit| commit.linked_blobs().any(|id| id == blob));
    let ids: Vec<CommitId> = linking.map(Commit::id).collect();
    if store.commits(repo, &ids).await?.iter().any(Option::is_none) {
        return Ok(true);
    }
    let mut schemas = batch.toolsets.iter().flat_map(|set| set.entries()).map(|it| it.schema);
    let is_target = |edit: &RefEdit| edit.to == Some(RefTarget::Blob(blob));
    Ok(schemas.any(|id| id == blob)
        || batch.tools.iter().any(|row| row.schema == blob)
        || batch.refs.iter().any(is_target)
        // Nothing links to it, so it was to be stored for its own sake.
        || ids.is_empty())
}

async fn apply_within_span(
    store: &dyn Store,
    repo: &RepoName,
    batch: Batch,
) -> StoreResult<Applied> {
    let span = telemetry::store_write(store.backend(), repo, &batch);
    let applied = span.instrument(store.apply(repo, batch)).await;
    if span.is_recording() {
        match &applied {
            Ok(Applied::Done) => span.set(names::TRACT_OUTCOME, "done"),
            Ok(Applied::Already) => span.set(names::TRACT_OUTCOME, "already"),
            Ok(Applied::Conflict(_)) => span.set(names::TRACT_OUTCOME, "conflict"),
            Ok(Applied::Moved(_)) => span.set(names::TRACT_OUTCOME, "moved"),
            Err(error) => span.fail(error.kind.code()),
        }
    }
    applied
}

/// Applies a batch. If the outcome is unknown the same batch is tried again: the store recognizes
/// its id, so it is applied at most once. A handle that then refuses all writes cannot find out
/// either, so the error is the one that made the outcome unknown.
///
/// # Errors
/// [`Error::Collected`] when an object that the batch continues or points a ref to was deleted by
/// garbage collection after it was read.
pub(crate) async fn apply_once(repo: &Repo, batch: &Batch) -> Result<Applied> {
    let applied = apply_to_store_once(repo.store().as_ref(), repo.name(), batch).await;
    let is_target = |blob| batch.refs.iter().any(|edit| edit.to == Some(RefTarget::Blob(blob)));
    applied.map_err(|error| match error.kind {
        StoreErrorKind::Missing { object: object @ ObjectId::Commit(_) } => {
            Error::Collected { object }
        }
        StoreErrorKind::Missing { object: object @ ObjectId::Blob(blob) } if is_target(blob) => {
            Error::Collected { object }
        }
        _ => error.into(),
    })
}

/// Like [`apply_once`], for a store instead of a repository.
pub(crate) async fn apply_to_store_once(
    store: &dyn Store,
    repo: &RepoName,
    batch: &Batch,
) -> StoreResult<Applied> {
    let mut unknown = None;
    for _ in 0..=RETRIES {
        let applied = match apply_within_span(store, repo, batch.clone()).await {
            Err(error) if erased_blob(&error).is_some() => {
                apply_again(store, repo, batch.clone(), error).await
            }
            applied => applied,
        };
        match (applied, &unknown) {
            (Err(error), None) if error.kind == StoreErrorKind::Unknown => unknown = Some(error),
            (Err(error), Some(_)) if error.kind == StoreErrorKind::Unknown => {}
            (Err(error), Some(_)) if error.kind == StoreErrorKind::Poisoned => break,
            (outcome, _) => return outcome,
        }
    }
    let never = || StoreError::new(StoreErrorKind::Unknown, store.backend(), "apply", "no answer");
    Err(unknown.unwrap_or_else(never))
}

/// Turns the answer to a batch that was not stored into an error.
pub(crate) fn require_done(applied: Applied) -> Result<()> {
    match applied {
        Applied::Done | Applied::Already => Ok(()),
        Applied::Conflict(conflict) => Err(conflict.into()),
        Applied::Moved(_) => Err(Error::KeptMoving { attempts: 1 }),
    }
}

/// Applies a batch of an operation, updates its count of ref moves, and notifies the hooks.
pub(crate) async fn apply_and_tell(
    repo: &Repo,
    operation: &Operation,
    batch: Batch,
) -> StoreResult<Applied> {
    let (id, moves) = (batch.id, batch.refs.len());
    let (store, name) = (repo.store().as_ref(), repo.name());
    let applied = apply_batch(store, name, batch).await?;
    if applied.is_stored() {
        operation.recorded(store, name, id, moves).await;
        tell(repo, id).await;
    }
    Ok(applied)
}

/// Stores derived rows of stored commits, if nothing was erased since `mark`. The mark must be read
/// before the messages that the rows are derived from.
///
/// # Errors
/// [`Error::Conflict`] when something was erased since; when the store fails.
pub(crate) async fn store_derived(
    repo: &Repo,
    mark: &ErasureMark,
    rows: Vec<DerivedRow>,
) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let batch = derived_batch(repo, mark, rows)?;
    require_done(apply_batch(repo.store().as_ref(), repo.name(), batch).await?)
}

/// Makes a batch that stores derived rows of stored commits, if nothing was erased since `mark`.
pub(crate) fn derived_batch(
    repo: &Repo,
    mark: &ErasureMark,
    rows: Vec<DerivedRow>,
) -> Result<Batch> {
    let id = BatchId::random().map_err(Error::Random)?;
    let note = repo.log_note(OperationId::from_bytes(*id.as_bytes()), "index");
    let mut batch = Batch::new(id, note);
    batch.requires = rows.iter().map(|row| ObjectId::Commit(row.commit)).collect();
    batch.derived = rows;
    mark.hold(&mut batch);
    Ok(batch)
}

/// Notifies the hooks of the refs that a write moved. The write is stored, so a ref log that cannot
/// be read is not an error.
pub(crate) async fn tell(repo: &Repo, batch: BatchId) {
    if !repo.hooks().has_handler::<RefMoved>() {
        return;
    }
    // Boxed to keep the future small: usually nothing is registered for this event.
    Box::pin(async {
        let query = LogQuery { batch: Some(batch), ..Default::default() };
        let entries = repo.store().ref_log(repo.name(), &query).await.unwrap_or_default();
        for entry in entries.into_iter().rev().filter(|entry| !entry.name.is_lease()) {
            repo.hooks().ref_moved(&RefMoved::new(entry)).await;
        }
    })
    .await;
}
