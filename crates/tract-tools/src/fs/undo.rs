//! The undo log of changes, by owner.
//!
//! A filesystem has one log. Each view of it is an owner, and an owner's changes are undone without
//! those of others. A file that was changed by others since is left alone. If another owner of the
//! log changed it, the content to be undone is also removed from that owner's undo entry.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tract_core::{BlobId, hash};

use super::FsPath;
use crate::snapshot::BoxError;

/// A file that is, or was, at a place.
#[derive(Clone, Debug)]
pub(super) struct StoredFile {
    pub(super) bytes: Arc<[u8]>,
    pub(super) mark: FileMark,
}

impl StoredFile {
    pub(super) fn new(bytes: Arc<[u8]>, mode: u32) -> Self {
        let id = hash::blob(&bytes);
        Self { bytes, mark: FileMark { mode, id } }
    }
}

/// The identity of a [`StoredFile`].
#[derive(Clone, Copy, Debug)]
pub(super) struct FileMark {
    pub(super) mode: u32,
    id: BlobId,
}

/// Whether a place holds what was left there, no file included. A mode may differ: it is not what a
/// call writes.
pub(super) fn holds(found: Option<&StoredFile>, left: Option<FileMark>) -> bool {
    found.map(|file| file.mark.id) == left.map(|mark| mark.id)
}

/// One change.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A file was made, replaced or removed.
    File {
        path: FsPath,
        before: Option<StoredFile>,
        after: Option<FileMark>,
    },
    MadeDirectory(FsPath),
    /// An empty directory was removed.
    RemovedDirectory(FsPath),
}

#[derive(Debug)]
struct Entry {
    owner: u64,
    number: u64,
    change: Change,
}

/// Changes in order, each kept while its owner has a mark set.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: Vec<Entry>,
    /// Owner and the first change of it that a mark covers.
    marks: BTreeMap<u64, (u64, u64)>,
    next: u64,
}

pub(super) type Shared = Arc<Mutex<Log>>;

pub(super) fn lock(log: &Shared) -> MutexGuard<'_, Log> {
    // An entry is added before its change is made, and undoing what did not happen does nothing; so
    // a panic leaves it usable.
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    /// Returns an id that no owner, change or mark has.
    pub(super) fn next_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Whether what an owner changes may have to be undone.
    pub(super) fn has_marks(&self, owner: u64) -> bool {
        self.marks.values().any(|(of, _)| *of == owner)
    }

    pub(super) fn add(&mut self, owner: u64, change: Change) {
        if self.has_marks(owner) {
            let number = self.next_id();
            self.entries.push(Entry { owner, number, change });
        }
    }

    /// Takes out an owner's changes since a mark, the last first. Those left out are superseded by
    /// another owner's change of the same file.
    pub(super) fn take_since(&mut self, mark: &Mark) -> Vec<Change> {
        let Some((owner, first)) = self.marks.get(&mark.id).copied() else { return Vec::new() };
        let entries = std::mem::take(&mut self.entries);
        let mut taken = Vec::new();
        // The content that the next change of a file, in the order of time, had found.
        let mut later: BTreeMap<FsPath, usize> = BTreeMap::new();
        let mut kept: Vec<Entry> = Vec::new();
        for entry in entries.into_iter().rev() {
            let is_taken = entry.owner == owner && entry.number >= first;
            match (is_taken, &entry.change) {
                (false, change) => {
                    if let Change::File { path, .. } = change {
                        later.insert(path.clone(), kept.len());
                    }
                    kept.push(entry);
                }
                (true, Change::File { path, before, after }) => {
                    match later.get(path).and_then(|place| kept.get_mut(*place)) {
                        Some(Entry { change: Change::File { before: found, .. }, .. }) => {
                            if holds(found.as_ref(), *after) {
                                *found = before.clone();
                            }
                        }
                        _ => taken.push(entry.change),
                    }
                }
                (true, _) => taken.push(entry.change),
            }
        }
        kept.reverse();
        self.entries = kept;
        taken
    }
}

/// A position in the log. Dropping it means that later changes need not be undone.
#[derive(Debug)]
pub(super) struct Mark {
    log: Shared,
    id: u64,
}

impl Mark {
    pub(super) fn set(log: &Shared, owner: u64) -> Self {
        let mut inner = lock(log);
        let id = inner.next_id();
        inner.marks.insert(id, (owner, id));
        drop(inner);
        Self { log: Arc::clone(log), id }
    }

    /// Checks that it was set in this log.
    pub(super) fn check(&self, log: &Shared) -> Result<(), BoxError> {
        if Arc::ptr_eq(&self.log, log) {
            Ok(())
        } else {
            Err("expected a snapshot of this filesystem, found that of another".into())
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let mut log = lock(&self.log);
        let Some((owner, _)) = log.marks.remove(&self.id) else { return };
        // Entries before the oldest mark can never be undone.
        let first =
            log.marks.values().filter(|(of, _)| *of == owner).map(|(_, first)| *first).min();
        log.entries.retain(|entry| {
            entry.owner != owner || first.is_some_and(|first| entry.number >= first)
        });
    }
}
