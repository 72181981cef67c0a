//! The cache of a handle, which contains only facts that other processes cannot make false.
//!
//! Places are fixed until a sweep, after which all cached places are dropped. Objects never change,
//! and repositories and texts keep their numbers.
//!
//! A fact is added only after the transaction that made it true is durable: row numbers of a
//! transaction that is rolled back are given to other objects. Refs and segment tips are never
//! cached, because other processes move them.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tract_core::ObjectId;

/// A hasher for keys that are hashes already, or small numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.write_u64(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic can only leave an open transaction, which its guard rolls back.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A map keyed by id.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// A repository number and a text, as the key of a cached text.
pub(crate) type TextName = Box<[u8]>;

/// Writes the cache key of a text to a buffer, so that a lookup allocates nothing.
pub(crate) fn name_text(name: &mut Vec<u8>, repo: i64, text: &[u8]) {
    name.clear();
    name.extend_from_slice(&repo.to_le_bytes());
    name.extend_from_slice(text);
}

/// A map that drops entries that were not inserted recently.
#[derive(Debug)]
pub(crate) struct AgingMap<K, V> {
    young: IdMap<K, V>,
    old: IdMap<K, V>,
    limit: usize,
}

impl<K: Eq + Hash, V> AgingMap<K, V> {
    fn new(limit: usize) -> Self {
        Self { young: IdMap::default(), old: IdMap::default(), limit }
    }

    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.limit {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

/// Number of cached repositories. One file may contain any number of them.
const REPOS: usize = 4 << 10;

/// Number of cached places.
const PLACES: usize = 16 << 10;

/// The cached numbers of repositories, objects and texts.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Numbers of repositories, by name.
    pub(crate) repos: AgingMap<String, i64>,
    /// The likely row of the next log entry of a repository. It is wrong if another process has
    /// written since; the primary key detects that.
    pub(crate) next_entry: AgingMap<i64, i64>,
    /// Row numbers of objects, valid as of sweep number `sweeps`.
    pub(crate) places: AgingMap<(i64, ObjectId), i64>,
    /// Number of sweeps in the store when `places` was last compared with it.
    pub(crate) sweeps: i64,
    /// Row numbers of texts, with keys from [`name_text`].
    pub(crate) texts: AgingMap<TextName, i64>,
}

impl Memory {
    /// Drops all cached places if objects were swept since they were added.
    pub(crate) fn forget_swept(&mut self, sweeps: i64) {
        if self.sweeps != sweeps {
            self.places = AgingMap::new(PLACES);
            self.sweeps = sweeps;
        }
    }

    pub(crate) fn new() -> Self {
        Self {
            repos: AgingMap::new(REPOS),
            next_entry: AgingMap::new(REPOS),
            places: AgingMap::new(PLACES),
            sweeps: 0,
            texts: AgingMap::new(1 << 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_that_were_not_used_lately_are_forgotten() {
        let mut memory = Memory::new();
        for repo in 0..10 * REPOS as i64 {
            memory.repos.insert(format!("tenant-{repo}"), repo);
            memory.next_entry.insert(repo, 7);
        }
        let last = 10 * REPOS as i64 - 1;
        assert_eq!(memory.repos.get(format!("tenant-{last}").as_str()), Some(&last));
        assert_eq!(memory.repos.get("tenant-0"), None);
        assert!(memory.repos.young.len() + memory.repos.old.len() <= 2 * REPOS);
        assert!(memory.next_entry.young.len() + memory.next_entry.old.len() <= 2 * REPOS);
    }
}
