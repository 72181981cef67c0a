//! Maps and sets keyed by id. An id is a hash already, so its first bytes serve as its hash.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Uses the first eight bytes of an id as its hash.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        match bytes.first_chunk::<8>() {
            Some(first) => self.0 ^= u64::from_le_bytes(*first),
            // Slices also hash their length, which is the same for all ids.
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
/// A map keyed by id.
pub type IdMap<K, V> = HashMap<K, V, ById>;
/// A set of ids.
pub type IdSet<K> = HashSet<K, ById>;
/// A persistent map keyed by id: clones share structure.
pub(crate) type SharedIdMap<K, V> =
    imbl::GenericHashMap<K, V, ById, imbl::shared_ptr::DefaultSharedPtr>;
