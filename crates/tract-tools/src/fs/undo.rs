//! The undo log of changes, by owner.
//!
//! A filesystem has one log, and each view of it is an owner. The changes of an owner are reverted
//! independently of those of others. A file that others have changed since is left alone; if
//! another owner of the log changed it, the reverted content is also removed from that owner's
//! entry, so that its own rollback does not bring it back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tract_core::{BlobId, hash};

use super::FsPath;
use crate::snapshot::BoxError;

/// A current or former file at a path.
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

/// Returns whether a path still has the content that was left there, including the absence of a
/// file. The mode may differ, because calls do not write it.
pub(super) fn holds(found: Option<&StoredFile>, left: Option<FileMark>) -> bool {
    found.map(|file| file.mark.id) == left.map(|mark| mark.id)
}

/// A change that can be reverted.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A file was created, replaced or removed.
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

/// Changes in order. Each is kept while a mark of its owner covers it.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: Vec<Entry>,
    /// By mark: its owner, and the number of the first change that it covers.
    marks: BTreeMap<u64, (u64, u64)>,
    next: u64,
}

pub(super) type Shared = Arc<Mutex<Log>>;

pub(super) fn lock(log: &Shared) -> MutexGuard<'_, Log> {
    // An entry is added before its change is made, and reverting a change that did not happen has
    // no effect, so the log stays usable after a panic.
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    /// Returns an id that is unique among owners, changes and marks.
    pub(super) fn next_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns whether the changes of an owner may have to be reverted.
    pub(super) fn has_marks(&self, owner: u64) -> bool {
        self.marks.values().any(|(of, _)| *of == owner)
    }

    pub(super) fn add(&mut self, owner: u64, change: Change) {
        if self.has_marks(owner) {
            let number = self.next_id();
            self.entries.push(Entry { owner, number, change });
        }
    }

    /// Removes and returns an owner's changes since a mark, last first. A change that another owner
    /// has overwritten is not returned.
    pub(super) fn take_since(&mut self, mark: &Mark) -> Vec<Change> {
        let Some((owner, first)) = self.marks.get(&mark.id).copied() else { return Vec::new() };
        let entries = std::mem::take(&mut self.entries);
        let mut taken = Vec::new();
        // For each path, the next later change that stays in the log.
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
                            // The later change must not restore content that is reverted here: it
                            // now restores what was there before both.
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

/// A position in the log. After it is dropped, changes since need not be reverted.
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
        // Entries before the oldest mark of their owner can no longer be reverted.
        let first =
            log.marks.values().filter(|(of, _)| *of == owner).map(|(_, first)| *first).min();
        log.entries.retain(|entry| {
            entry.owner != owner || first.is_some_and(|first| entry.number >= first)
        });
    }
}
