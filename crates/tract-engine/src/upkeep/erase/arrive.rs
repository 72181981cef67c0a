//! Erasures that arrive from another store, by push, pull, copy, bundle or stream.
//!
//! An erasure names messages. In the receiving store, it has the scope of one that is made there:
//! all versions of these messages, also those that only the receiver has, and the passages that
//! summaries quote from them. Branches get the same edits, and bytes that no other message has are
//! deleted. If other messages have the bytes, they stay and the erasure waits for confirmation: the
//! history of other users must not change because one user erased the same text.

use std::collections::{HashMap, HashSet};

use tract_core::store::BlobKey;
use tract_core::{Applied, BlobId, RefName};
use tract_hooks::Hooks;

use super::edits::{self};
use super::scan::{Scan, Scope};
use super::{advance_mark, finish_erasures, mend_all, record, record_blobs, require_erasing};
use crate::repo::Repo;
use crate::repo::erasure::Erasure;
use crate::repo::error::Result;
use crate::write::erasures::{EditNote, erasures};
use crate::write::races::Attempts;
use crate::write::txn::{Txn, WriteOptions};

/// Number of blobs that are looked up together.
const KEYS: usize = 64;

/// The outcome of erasures that arrived together with history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CarriedErasures {
    /// Number of blobs that were deleted here because they were erased there.
    pub blobs: usize,
    /// Number of erasures that wait for confirmation because other messages here have the same
    /// bytes; [`pending_erasures`](super::pending_erasures) lists them.
    pub pending: usize,
    /// Why the files of the store may still contain the bytes, so that [`finish_erasures`] must be
    /// repeated; `None` if they do not.
    pub not_wiped: Option<String>,
}

/// Reads the erasures of a repository for sending them. Bans are local and are not sent.
pub(crate) async fn sent_erasures(from: &Repo) -> Result<Vec<Erasure>> {
    let all = erasures(from).await?.into_values();
    Ok(all.map(|erasure| Erasure { ban: false, ..erasure }).collect())
}

/// Applies erasures that arrived. `from` is the source repository, if it can be read.
///
/// # Errors
/// `Unsupported` when the store contains some of the bytes and cannot erase;
/// [`Error::KeptMoving`](crate::Error::KeptMoving) when others kept moving the branches. The
/// objects that arrived with the erasures are already stored; repeating the transfer continues.
pub(crate) async fn arrive(
    to: &Repo,
    from: Option<&Repo>,
    arrived: Vec<Erasure>,
) -> Result<CarriedErasures> {
    let mut carried = CarriedErasures::default();
    let arrived = unknown(to, arrived).await?;
    if arrived.is_empty() {
        return Ok(carried);
    }
    let bare = to.with_hooks(Hooks::default());
    // Erasures of one command are applied in one write, in the order of the commands.
    let mut calls: Vec<Vec<Erasure>> = Vec::new();
    for erasure in arrived {
        match calls.last_mut() {
            Some(call) if call.first().is_some_and(|first| first.at_us == erasure.at_us) => {
                call.push(erasure);
            }
            Some(_) | None => calls.push(vec![erasure]),
        }
    }
    // An object that is needed may be garbage-collected or erased by others in the meantime.
    let mut attempts = Attempts::new(to);
    for call in calls {
        let (blobs, pending) = loop {
            match arrive_together(&bare, from, &call).await {
                Ok(done) => break done,
                Err(error) => attempts.again(error).await?,
            }
        };
        carried.blobs += blobs;
        carried.pending += pending;
    }
    // Branches may show erased messages whose bytes were never stored here.
    while let Err(error) = mend_all(&bare).await {
        attempts.again(error).await?;
    }
    if carried.blobs > 0 {
        let wiped = finish_erasures(to).await;
        carried.not_wiped = wiped.err().map(|error| error.to_string());
    }
    Ok(carried)
}

/// Removes erasures that are already applied or pending here, and sorts the others by time.
async fn unknown(to: &Repo, arrived: Vec<Erasure>) -> Result<Vec<Erasure>> {
    if arrived.is_empty() {
        return Ok(arrived);
    }
    let mut known: HashSet<BlobId> = HashSet::new();
    for folder in [RefName::erasures(), RefName::pending_erasures()] {
        let refs = to.store().list_refs(to.name(), folder).await?;
        let blobs = refs
            .iter()
            .filter_map(|(name, _)| name.erased_blob().or_else(|| name.pending_erasure_blob()));
        known.extend(blobs);
    }
    let mut arrived = arrived;
    arrived.retain(|erasure| !known.contains(&erasure.blob));
    arrived.sort_by_key(|erasure| (erasure.at_us, erasure.blob));
    Ok(arrived)
}

/// Applies the erasures of one command. Returns the numbers of deleted and of pending blobs.
async fn arrive_together(
    to: &Repo,
    from: Option<&Repo>,
    erasures: &[Erasure],
) -> Result<(usize, usize)> {
    let mut races = to.races();
    let note = note_of(erasures);
    'scan: loop {
        // Before the blobs are looked up: one that is stored afterwards is another message's.
        let mut position = match to.store().capabilities().collects_garbage {
            true => Some(to.store().write_position(to.name()).await?),
            false => None,
        };
        let stored = stored_here(to, erasures).await?;
        let (here, absent): (Vec<&Erasure>, Vec<&Erasure>) =
            erasures.iter().partition(|erasure| stored.contains(&erasure.blob));
        let scope = Scope::of_arrived(to, from, erasures, &stored, note.mark()).await?;
        let mut scan = match scope.targets.is_empty() {
            true => None,
            false => {
                require_erasing(to)?;
                Some(Scan::new(to, scope).await?)
            }
        };
        loop {
            if let Some(scan) = &mut scan {
                if !scan.follow().await? {
                    races.lose().await?;
                    continue 'scan;
                }
                position = Some(scan.position());
            }
            let mut txn = Txn::new(to)?;
            let mut counts = (0, 0);
            if let Some(scan) = &scan {
                let mut contents = HashMap::new();
                let mut planned = edits::plan(&mut txn, scan, &note, &mut contents).await?;
                edits::plan_hidden(&mut txn, scan, &note, &mut contents, &mut planned).await?;
                let shared: HashSet<BlobId> = scan.shared().collect();
                for erasure in &here {
                    let waits = shared.contains(&erasure.blob);
                    let name = match waits {
                        true => RefName::pending_erasure(erasure.blob),
                        false => RefName::erasure(erasure.blob),
                    };
                    record(&mut txn, &name, erasure)?;
                    counts = (counts.0 + usize::from(!waits), counts.1 + usize::from(waits));
                }
                // Versions and summaries that only this store has.
                let mut others = scan.report().blobs;
                others.retain(|blob| !scan.scope.arrived.contains_key(&blob.id));
                counts.0 += others.len();
                if let Some(first) = erasures.first() {
                    let pattern = Erasure { ban: false, ..first.clone() };
                    record_blobs(&mut txn, scan, &others, &planned, &pattern).await?;
                }
            }
            // The blobs are not stored here. Record the erasures anyway, so that copies transmit
            // them.
            if to.store().capabilities().erases {
                for erasure in &absent {
                    record(&mut txn, &RefName::erasure(erasure.blob), erasure)?;
                }
            }
            if counts.0 > 0 || txn.moves_refs() {
                advance_mark(&mut txn).await?;
            }
            if let Some(position) = position {
                txn.require_position(position);
            }
            let options =
                WriteOptions { why: Some(note.reason.clone()), ..WriteOptions::default() };
            match txn.apply(&note.verb, &options).await? {
                Applied::Done | Applied::Already => return Ok(counts),
                Applied::Conflict(conflict) => {
                    // Another transfer applied them first.
                    let is_known = conflict.name.erased_blob().is_some()
                        || conflict.name.pending_erasure_blob().is_some();
                    if is_known && unknown(to, erasures.to_vec()).await?.is_empty() {
                        return Ok((0, 0));
                    }
                    races.lose().await?;
                    if conflict.name.branch_name().is_none() {
                        continue 'scan;
                    }
                }
                Applied::Moved(_) => {
                    races.lose().await?;
                    // A blob that was absent may be stored now.
                    if !absent.is_empty() {
                        continue 'scan;
                    }
                }
            }
        }
    }
}

/// Returns the erased blobs that a repository stores.
async fn stored_here(to: &Repo, erasures: &[Erasure]) -> Result<HashSet<BlobId>> {
    let mut stored = HashSet::new();
    let keys: Vec<BlobKey> = erasures.iter().map(|erasure| BlobKey::from(erasure.blob)).collect();
    for keys in keys.chunks(KEYS) {
        let found = to.store().blobs(to.name(), keys).await?;
        stored.extend(found.iter().flatten().map(|blob| blob.id()));
    }
    Ok(stored)
}

fn note_of(erasures: &[Erasure]) -> EditNote {
    let first = erasures.first();
    EditNote::of(first.unwrap_or(&Erasure::unknown(BlobId::from_bytes([0; 32]))))
}

/// Parses the erasure document that a ref of another repository points to.
pub(crate) fn read_sent(name: &RefName, document: &tract_core::Blob) -> Option<Erasure> {
    let erasure = Erasure::read(name.erased_blob()?, document);
    Some(Erasure { ban: false, ..erasure })
}
