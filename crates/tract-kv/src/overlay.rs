//! Staged writes over a snapshot, so that later batches of a group see earlier ones.
//!
//! A group of batches is staged into one overlay and written as one batch. The snapshot may be
//! stale when it is written, so every value that the plan depends on and that another handle can
//! change has to be passed to [`Overlay::require`]. The engine compares these values before it
//! writes. A missing one would let a concurrent write be overwritten silently.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;

use super::{KvBatch, KvEntry, KvRead, Scan, Space, Visit, value};
use tract_core::store::StoreResult;

type Staged = BTreeMap<Bytes, Option<Bytes>>;

/// The staged value that a key had before; the outer `None` means that it was not staged.
struct PreviousEntry {
    space: Space,
    key: Bytes,
    staged: Option<Option<Bytes>>,
}

/// A point to roll back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(usize);

pub(super) struct Overlay<'a> {
    base: &'a dyn KvRead,
    staged: [Staged; Space::ALL.len()],
    journal: Vec<PreviousEntry>,
    requires: Vec<KvEntry>,
}

impl<'a> Overlay<'a> {
    pub(super) fn new(base: &'a dyn KvRead) -> Self {
        let (staged, journal, requires) = (Default::default(), Vec::new(), Vec::new());
        Self { base, staged, journal, requires }
    }

    pub(super) fn put(&mut self, space: Space, key: Vec<u8>, value: Bytes) {
        self.stage(space, key.into(), Some(value));
    }

    /// Stages a key without a value.
    pub(super) fn add(&mut self, space: Space, key: Vec<u8>) {
        self.put(space, key, Bytes::new());
    }

    /// Stages a value with its checksum.
    pub(super) fn seal(&mut self, space: Space, key: Vec<u8>, value: Vec<u8>) {
        let sealed = value::seal(&key, value);
        self.put(space, key, sealed);
    }

    pub(super) fn delete(&mut self, space: Space, key: Vec<u8>) {
        self.stage(space, key.into(), None);
    }

    fn stage(&mut self, space: Space, key: Bytes, value: Option<Bytes>) {
        let staged = self.staged[space as usize].insert(key.clone(), value);
        self.journal.push(PreviousEntry { space, key, staged });
    }

    pub(super) fn mark(&self) -> Mark {
        Mark(self.journal.len())
    }

    /// Reverts everything staged since the mark.
    pub(super) fn roll_back(&mut self, mark: Mark) {
        // In reverse order: for a key that was staged twice, the oldest value must win.
        for PreviousEntry { space, key, staged } in self.journal.drain(mark.0..).rev() {
            let map = &mut self.staged[space as usize];
            match staged {
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
        }
    }

    /// Requires a key to be unchanged since the snapshot, or the whole group fails.
    pub(super) fn require(&mut self, space: Space, key: Vec<u8>) -> StoreResult<()> {
        let known = |entry: &KvEntry| entry.space == space && entry.key == key;
        if !self.requires.iter().any(known) {
            // The required value comes from the snapshot, not from the staged writes: the engine
            // compares it with the stored value, and an earlier batch of the group may have staged
            // another one.
            let value = self.base.get(space, &key)?;
            self.requires.push(KvEntry { space, key: key.into(), value });
        }
        Ok(())
    }

    /// Returns the staged writes with their required values.
    pub(super) fn into_batch(self) -> KvBatch {
        let entries = Space::ALL.into_iter().zip(self.staged).flat_map(|(space, staged)| {
            staged.into_iter().map(move |(key, value)| KvEntry { space, key, value })
        });
        KvBatch { requires: self.requires, writes: entries.collect() }
    }
}

impl KvRead for Overlay<'_> {
    fn get(&self, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>> {
        match self.staged[space as usize].get(key) {
            Some(staged) => Ok(staged.clone()),
            None => self.base.get(space, key),
        }
    }

    fn store_number(&self) -> u64 {
        self.base.store_number()
    }

    /// Merges staged entries into the range. Collects the whole range first, which is fine for
    /// writes, as they scan only a few keys.
    fn scan(&self, scan: &Scan, visit: &mut Visit<'_>) -> StoreResult<()> {
        if scan.is_empty() {
            return Ok(());
        }
        let to = scan.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut staged = self.staged[scan.space as usize]
            .range::<[u8], _>((Bound::Included(scan.from.as_slice()), to))
            .peekable();
        if staged.peek().is_none() {
            return self.base.scan(scan, visit);
        }
        // Staged entries replace those of the snapshot, and a staged `None` hides one, so both have
        // to be merged by key before anything is visited.
        let mut merged: Staged = BTreeMap::new();
        let forward = Scan { reverse: false, ..scan.clone() };
        self.base.scan(&forward, &mut |key, value| {
            merged.insert(Bytes::copy_from_slice(key), Some(Bytes::copy_from_slice(value)));
            Ok(ControlFlow::Continue(()))
        })?;
        merged.extend(staged.map(|(key, value)| (key.clone(), value.clone())));
        let mut entries: Vec<_> =
            merged.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        if scan.reverse {
            entries.reverse();
        }
        for (key, value) in entries {
            if visit(&key, &value)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::KvMap;
    use super::*;

    fn keys(read: &dyn KvRead, scan: &Scan) -> String {
        let mut out = String::new();
        read.scan(scan, &mut |key, value| {
            out.push_str(&format!("{}{} ", key[0] as char, value[0] as char));
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        out
    }

    #[test]
    fn shows_the_snapshot_with_what_is_staged_and_goes_back_to_a_mark() {
        let mut map = KvMap::default();
        for key in ["a", "b", "c"] {
            map.put(Space::Small, key.into(), "0".into());
        }
        let all = Scan::prefix(Space::Small, Vec::new());
        let mut overlay = Overlay::new(&map);
        overlay.put(Space::Small, b"b".to_vec(), "1".into());
        let mark = overlay.mark();
        overlay.delete(Space::Small, b"a".to_vec());
        overlay.put(Space::Small, b"b".to_vec(), "2".into());
        overlay.put(Space::Small, b"d".to_vec(), "2".into());
        assert_eq!(keys(&overlay, &all), "b2 c0 d2 ");
        assert_eq!(keys(&overlay, &Scan { reverse: true, ..all.clone() }), "d2 c0 b2 ");
        overlay.roll_back(mark);
        assert_eq!(keys(&overlay, &all), "a0 b1 c0 ");
        overlay.require(Space::Small, b"b".to_vec()).unwrap();
        let batch = overlay.into_batch();
        assert_eq!(batch.requires[0].value, Some("0".into()));
        assert_eq!(batch.writes.len(), 1);
    }
}
