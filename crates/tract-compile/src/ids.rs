//! Maps and sets of ids. An id is a hash already: its first bytes are as good as any hash of it.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        match bytes.first_chunk::<8>() {
            Some(first) => self.0 ^= u64::from_le_bytes(*first),
            // Lengths come here too; they are equal for all ids.
            None => {
                self.0 =
                    bytes.iter().fold(self.0, |sum, byte| sum.rotate_left(8) ^ u64::from(*byte))
            }
        }
    }

    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

pub(crate) type ById = BuildHasherDefault<IdHasher>;
pub(crate) type IdMap<K, V> = HashMap<K, V, ById>;
pub(crate) type IdSet<K> = HashSet<K, ById>;
/// Persistent: a clone shares all structure.
pub(crate) type SharedIdMap<K, V> =
    imbl::GenericHashMap<K, V, ById, imbl::shared_ptr::DefaultSharedPtr>;
