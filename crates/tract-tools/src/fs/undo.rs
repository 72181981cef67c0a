//! What has to be done to undo changes, for as long as somebody may want to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::FsPath;

/// What takes one change back.
#[derive(Debug)]
pub(super) enum Undo {
    /// A file was made.
    MadeFile(FsPath),
    /// A directory was made.
    MadeDirectory(FsPath),
    /// A file was replaced or removed, which held this.
    ChangedFile { path: FsPath, bytes: Vec<u8>, mode: u32 },
    /// An empty directory was removed.
    RemovedDirectory(FsPath),
}

/// Changes in order, kept while a mark is set.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: Vec<Undo>,
    marks: BTreeMap<u64, usize>,
    next: u64,
}

impl Log {
    /// Whether somebody may want to undo what comes.
    pub(super) fn is_kept(&self) -> bool {
        !self.marks.is_empty()
    }

    pub(super) fn add(&mut self, undo: Undo) {
        if self.is_kept() {
            self.entries.push(undo);
        }
    }
}

/// A place in the log. Dropping it says that it is not needed any more.
#[derive(Debug)]
pub(super) struct Mark {
    log: Arc<Mutex<Log>>,
    id: u64,
}

impl Mark {
    pub(super) fn set(log: &Arc<Mutex<Log>>) -> Self {
        let mut inner = log.lock().unwrap_or_else(PoisonError::into_inner);
        let (id, place) = (inner.next, inner.entries.len());
        inner.next += 1;
        inner.marks.insert(id, place);
        drop(inner);
        Self { log: Arc::clone(log), id }
    }

    /// Takes out what was done since, the last first.
    pub(super) fn since(&self) -> Vec<Undo> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = log.marks.get(&self.id).copied() else { return Vec::new() };
        let place = place.min(log.entries.len());
        let mut since = log.entries.split_off(place);
        since.reverse();
        since
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.marks.remove(&self.id);
        if log.marks.is_empty() {
            log.entries.clear();
        }
    }
}
