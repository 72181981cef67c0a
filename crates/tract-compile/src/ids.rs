//! Maps and sets of ids. An id is a hash already: its first bytes are as good as any hash of it.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Takes the first eight bytes of an id for its hash.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdHasher(u64);

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
/// A map by ids.
pub type IdMap<K, V> = HashMap<K, V, ById>;
/// A set of ids.
pub type IdSet<K> = HashSet<K, ById>;
/// Persistent: a clone shares all structure.
pub(crate) type SharedIdMap<K, V> =
    imbl::GenericHashMap<K, V, ById, imbl::shared_ptr::DefaultSharedPtr>;
