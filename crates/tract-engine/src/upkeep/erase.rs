//! Erase and redact: delete bytes permanently, and replace the affected messages with an erasure
//! mark or a redacted text.

mod arrive;
mod edits;
mod lift;
mod message;
mod report;
mod request;
mod scan;
mod scope;
mod search;

use std::collections::{HashMap, HashSet};

use tract_core::store::{StoreErrorKind, WipeReport};
use tract_core::{
    Applied, Blob, BlobId, CommitId, Content, ObjectId, RefName, RefTarget, StoreError,
};
use tract_hooks::Hooks;

pub use self::arrive::CarriedErasures;
pub(crate) use self::arrive::{arrive, read_sent, sent_erasures};
use self::edits::PlannedEdits;
pub(crate) use self::lift::banned;
pub use self::lift::{lift_erasure, pending_erasures};
pub(crate) use self::message::slot_in;
pub use self::report::{ErasePlace, ErasePlaceKind, EraseReport, ErasedBlob};
pub use self::request::{EraseRequest, EraseTarget, EraseWhat};
use self::scan::{Scan, Scope};
pub use self::scope::is_erased;
use crate::repo::Repo;
use crate::repo::erasure::{Erasure, MAX_MESSAGES};
use crate::repo::error::gone::is_gone;
use crate::repo::error::{Error, Result};
use crate::write::erasures::{EditNote, erasures, mend};
use crate::write::races::Attempts;
use crate::write::txn::{Txn, WriteOptions};

/// Deletes the bytes of messages permanently.
///
/// # Behavior
/// - A message is erased with all its versions on every branch, and with the passages that
///   summaries quote from it. Bytes that another message shares stay: [`EraseReport::shared`]
///   contains them, and [`EraseReport::others`] lists those messages. [`EraseRequest::everywhere`]
///   erases the text in all of them. With [`EraseRequest::dry_run`] only the report is made.
/// - In one write, each branch that shows such a message gets an edit of it, tools in force are
///   replaced, documents are rewritten, the bytes are deleted, and `erasures/<blob>` records the
///   time, the user and the reason. Existing commits and their ids do not change.
/// - From then on, a context that needs the bytes is an error that names the erasure. A branch that
///   is moved to such a context, by `undo`, `reset`, a revert, a merge or a transfer, gets the
///   edits of the erasure again. Another message may store the same bytes again, unless the request
///   [bans](EraseRequest::ban) them.
/// - Afterwards derived data is dropped and the files of the store are wiped ([`finish_erasures`]).
/// - If nothing is found, nothing is written. For targets, the wipe is repeated then, as an earlier
///   erasure may have been interrupted before it; a [ban](EraseRequest::ban) is added to the earlier
///   erasures of the named messages.
///
/// # Errors
/// `Unsupported` when the store cannot erase; [`Error::BadErase`] when the request names something
/// that cannot be erased; [`Error::Collected`] when a named commit was deleted by garbage collection;
/// [`Error::KeptMoving`] when others kept moving the branches.
pub async fn erase(repo: &Repo, request: &EraseRequest) -> Result<EraseReport> {
    require_erasing(repo)?;
    request.check()?;
    let mut attempts = Attempts::new(repo);
    loop {
        let error = match erase_all(repo, request).await {
            // Another erasure deleted it first.
            Err(Error::Missing(ObjectId::Blob(blob)))
            | Err(Error::Store(StoreError {
                kind: StoreErrorKind::Missing { object: ObjectId::Blob(blob) },
                ..
            })) => repo.absent_blob(blob).await,
            Err(error) => error,
            done => return done,
        };
        // An object found by the scan was garbage-collected or erased in the meantime.
        if is_gone(&error) {
            repo.require_uncollected(&request.commits()).await?;
        }
        attempts.again(error).await?;
    }
}

/// Fails if the store cannot erase.
fn require_erasing(repo: &Repo) -> Result<()> {
    let capabilities = repo.store().capabilities();
    if capabilities.erases && capabilities.collects_garbage {
        return Ok(());
    }
    let (kind, backend) = (StoreErrorKind::Unsupported, repo.store().backend());
    Err(StoreError::new(kind, backend, "erase", "this store cannot erase").into())
}

async fn erase_all(repo: &Repo, request: &EraseRequest) -> Result<EraseReport> {
    // Run no hooks: a handler that refuses would keep the bytes, and so would a handler that stores
    // a copy.
    let bare = repo.with_hooks(Hooks::default());
    let mut races = repo.races();
    let mut contents = HashMap::new();
    // Every attempt requires the position up to which it has searched, so that no message that
    // arrived in between loses bytes which it shares with an erased one.
    loop {
        let scope = Scope::of(&bare, request).await?;
        if scope.is_erased() {
            let report = EraseReport { was_erased: true, ..EraseReport::default() };
            return finish_erased(repo, request, &scope.erased, report).await;
        }
        let erased = scope.erased.clone();
        let mut scan = Scan::new(&bare, scope).await?;
        let mut report = scan.report();
        if scan.is_empty() {
            return finish_erased(repo, request, &erased, report).await;
        }
        if request.dry_run {
            return Ok(report);
        }
        // The scan takes long; following branches that moved does not. Retry with the same scan
        // first.
        loop {
            // New objects contain the bytes as well, so the list of blobs and messages is outdated.
            if !scan.follow().await? {
                races.lose().await?;
                break;
            }
            let note = EditNote {
                verb: request.verb().to_owned(),
                reason: request.reason.clone(),
                at_us: repo.now_us(),
            };
            match write(&bare, &scan, request, &note, &mut contents, &mut report).await? {
                Applied::Done | Applied::Already => {
                    // Branches may also show messages whose bytes an earlier erasure deleted.
                    report.edits += mend_all(&bare).await?;
                    if !report.blobs.is_empty() {
                        report.wiped = finish_erasures(repo).await;
                    }
                    return Ok(report);
                }
                Applied::Conflict(conflict) => {
                    races.lose().await?;
                    // Another erasure or a changed document: the scan is outdated.
                    if conflict.name.branch_name().is_none() {
                        break;
                    }
                }
                Applied::Moved(_) => races.lose().await?,
            }
        }
    }
}

/// Completes an erasure that finds nothing to erase: bans what earlier erasures of the messages
/// deleted, if the request says so, and repeats the wipe, because an earlier call that was
/// interrupted may have deleted everything and wiped nothing.
async fn finish_erased(
    repo: &Repo,
    request: &EraseRequest,
    erased: &HashSet<BlobId>,
    mut report: EraseReport,
) -> Result<EraseReport> {
    if request.dry_run || erasures(repo).await?.is_empty() {
        return Ok(report);
    }
    let mut races = repo.races();
    let mut is_done = !request.ban || erased.is_empty();
    while !is_done {
        let mut txn = Txn::new(repo)?;
        ban(&mut txn, erased).await?;
        let options = WriteOptions { why: Some(request.reason.clone()), ..WriteOptions::default() };
        is_done =
            !txn.moves_refs() || races.won(txn.apply(request.verb(), &options).await?).await?;
    }
    report.edits += mend_all(&repo.with_hooks(Hooks::default())).await?;
    report.wiped = finish_erasures(repo).await;
    Ok(report)
}

/// Bans blobs that were erased earlier.
async fn ban(txn: &mut Txn<'_>, erased: &HashSet<BlobId>) -> Result<()> {
    for blob in erased {
        let name = RefName::erasure(*blob);
        // Read the ref before the document, so that the write fails if it changes in between.
        txn.target(&name).await?;
        let Some(erasure) = txn.repo().erasure_of(*blob).await?.filter(|it| !it.ban) else {
            continue;
        };
        let document = Erasure { ban: true, ..erasure }.to_blob();
        txn.move_ref(&name, Some(RefTarget::Blob(document.id()))).await?;
        txn.blob(document)?;
    }
    Ok(())
}

/// Writes the edits, the documents, the deletion and the erasure records atomically.
async fn write(
    repo: &Repo,
    scan: &Scan<'_>,
    request: &EraseRequest,
    note: &EditNote,
    contents: &mut HashMap<CommitId, Content>,
    report: &mut EraseReport,
) -> Result<Applied> {
    let mut txn = Txn::new(repo)?;
    txn.require_position(scan.position());
    let mut planned = edits::plan(&mut txn, scan, note, contents).await?;
    edits::plan_hidden(&mut txn, scan, note, contents, &mut planned).await?;
    report.edits = planned.edits;
    if !report.blobs.is_empty() {
        advance_mark(&mut txn).await?;
    }
    let pattern = Erasure {
        reason: request.reason.clone(),
        who: repo.who().to_owned(),
        at_us: note.at_us,
        verb: note.verb.clone(),
        ban: request.ban,
        ..Erasure::unknown(BlobId::from_bytes([0; 32]))
    };
    record_blobs(&mut txn, scan, &report.blobs, &planned, &pattern).await?;
    if request.ban {
        ban(&mut txn, &scan.scope.erased).await?;
    }
    let options = WriteOptions { why: Some(request.reason.clone()), ..WriteOptions::default() };
    txn.apply(request.verb(), &options).await
}

/// Records the erasures of blobs, with the reason, the user and the time of `pattern`.
async fn record_blobs(
    txn: &mut Txn<'_>,
    scan: &Scan<'_>,
    blobs: &[ErasedBlob],
    planned: &PlannedEdits,
    pattern: &Erasure,
) -> Result<()> {
    let pending: Vec<RefName> =
        blobs.iter().map(|blob| RefName::pending_erasure(blob.id)).collect();
    // Erasing confirms an erasure that arrived from another store and waited, so that it is not
    // listed as pending any longer.
    let waiting = scan.repo.store().refs(scan.repo.name(), &pending).await?;
    for (name, target) in pending.iter().zip(waiting) {
        if target.is_some() {
            txn.move_from(name, target, None);
        }
    }
    let mut named: Vec<CommitId> = scan.scope.named.iter().copied().collect();
    named.sort_unstable();
    named.truncate(MAX_MESSAGES);
    for blob in blobs {
        let messages = scan.holders.get(&blob.id);
        let document = Erasure {
            blob: blob.id,
            bytes: blob.bytes,
            messages: messages.map(|slots| slots.iter().copied().collect()).unwrap_or_default(),
            named: named.clone(),
            replaced_by: planned.replaced_by.get(&blob.id).copied(),
            ..pattern.clone()
        };
        record(txn, &RefName::erasure(blob.id), &document)?;
    }
    Ok(())
}

/// Moves the erasure mark in the same write.
async fn advance_mark(txn: &mut Txn<'_>) -> Result<()> {
    // The value only has to differ from all earlier ones.
    let document = Blob::seal(format!("{{\"batch\":\"{}\"}}", txn.id()));
    let target: BlobId = document.id();
    txn.move_ref(&RefName::newest_erasure(), Some(RefTarget::Blob(target))).await?;
    txn.blob(document)
}

/// Creates the ref that records an erasure.
fn record(txn: &mut Txn<'_>, name: &RefName, document: &Erasure) -> Result<()> {
    let document = document.to_blob();
    let target = RefTarget::Blob(document.id());
    txn.blob(document)?;
    txn.move_from(name, None, Some(target));
    Ok(())
}

/// Edits the erased messages that branches still show. Returns the number of edits.
async fn mend_all(repo: &Repo) -> Result<usize> {
    mend(repo, &branches(repo).await?).await
}

/// Lists the names of all branches.
async fn branches(repo: &Repo) -> Result<Vec<RefName>> {
    let refs = repo.store().list_refs(repo.name(), "heads/").await?;
    Ok(refs.into_iter().map(|(name, _)| name).collect())
}

/// Completes earlier erasures: drops derived data and wipes the files of the store. Can be repeated
/// safely.
///
/// # Errors
/// `Unsupported` when the store cannot erase; `Busy` when others use it; `ReadOnly` when the user
/// may not wipe it. The files may still contain the bytes then.
pub async fn finish_erasures(repo: &Repo) -> Result<WipeReport> {
    repo.compiler().forget();
    // The search index contains the words of messages. Derived rows are dropped before the files
    // are wiped, or the wipe would leave their pages behind.
    repo.store().drop_derived(repo.name()).await?;
    let wiped = repo.store().wipe().await;
    // The rows are derived data: if they cannot be rebuilt, queries work without them.
    let _without = crate::history::turns::rebuild_all(repo).await;
    Ok(wiped?)
}
