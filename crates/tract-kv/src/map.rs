//! An in-memory map of keys, with one ordered map per space.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use super::{KvRead, Scan, Space, Visit};
use tract_core::store::StoreResult;

/// The keys of all spaces, in memory. Cloning shares the bytes of keys and values, but is linear in
/// the number of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvMap {
    spaces: [BTreeMap<Bytes, Bytes>; Space::ALL.len()],
}

impl KvMap {
    /// Sets a value.
    pub fn put(&mut self, space: Space, key: Bytes, value: Bytes) {
        self.spaces[space as usize].insert(key, value);
    }

    /// Removes a key if it exists.
    pub fn delete(&mut self, space: Space, key: &[u8]) {
        self.spaces[space as usize].remove(key);
    }

    /// Returns the number of keys in a space.
    pub fn len(&self, space: Space) -> usize {
        self.spaces[space as usize].len()
    }

    /// Returns whether all spaces are empty.
    pub fn is_empty(&self) -> bool {
        self.spaces.iter().all(BTreeMap::is_empty)
    }
}

impl KvRead for KvMap {
    fn get(&self, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>> {
        Ok(self.spaces[space as usize].get(key).cloned())
    }

    fn scan(&self, scan: &Scan, visit: &mut Visit<'_>) -> StoreResult<()> {
        // `BTreeMap::range` panics on an inverted range.
        if scan.is_empty() {
            return Ok(());
        }
        let to = scan.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut range = self.spaces[scan.space as usize]
            .range::<[u8], _>((Bound::Included(scan.from.as_slice()), to));
        while let Some((key, value)) = if scan.reverse { range.next_back() } else { range.next() } {
            if visit(key, value)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}
