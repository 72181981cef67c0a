//! What a handle remembers: facts that no other process can make untrue.
//!
//! A place never changes until a sweep, after which all places are forgotten; an object never
//! changes, a repository and a text keep their numbers.
//! Nothing enters here before the transaction that made it true is durable. Refs and tips, which
//! others move, are never remembered.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tract_core::ObjectId;

/// Hashes keys that are hashes already, or small numbers.
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
    // What a panic can leave behind is an open transaction, and those end with their guards.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A map by ids.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// The number of a repository and a text.
pub(crate) type TextName = Box<[u8]>;

/// Writes what a text is remembered by, so that looking one up takes no memory of its own.
pub(crate) fn name_text(name: &mut Vec<u8>, repo: i64, text: &[u8]) {
    name.clear();
    name.extend_from_slice(&repo.to_le_bytes());
    name.extend_from_slice(text);
}

/// A map that forgets what has not been put in for a while.
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

/// How many repositories are remembered, of those used lately: one file may hold any number.
const REPOS: usize = 4 << 10;

/// How many places are remembered.
const PLACES: usize = 16 << 10;

/// Where a repository's objects lie.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Numbers of repositories, by name.
    pub(crate) repos: AgingMap<String, i64>,
    /// The row that the next entry of a repository's log takes, unless others wrote meanwhile:
    /// a guess, which the primary key settles.
    pub(crate) next_entry: AgingMap<i64, i64>,
    /// Row numbers of objects, as of the sweep with the number `sweeps`.
    pub(crate) places: AgingMap<(i64, ObjectId), i64>,
    /// How many sweeps the store had seen when `places` was last compared with it.
    pub(crate) sweeps: i64,
    /// Row numbers of texts, by what [`name_text`] writes.
    pub(crate) texts: AgingMap<TextName, i64>,
}

impl Memory {
    /// Forgets all places, unless no object was swept since they were remembered.
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
