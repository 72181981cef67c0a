//! Caches bounded in bytes. Caches that share a meter share one budget.

use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ids::IdMap;

/// Counts the bytes in use across all caches and callers that share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Arc<AtomicU64>);

impl Meter {
    /// Counts bytes until the charge is dropped.
    pub(crate) fn charge(&self, bytes: usize) -> Charge {
        let bytes = bytes as u64;
        // Relaxed: the counter guards no other data. A stale sum evicts an entry too early or too
        // late, nothing more.
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Charge { meter: self.clone(), bytes }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Keeps its bytes counted on the meter until it is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    meter: Meter,
    bytes: u64,
}

impl Charge {
    /// Charges the same number of bytes a second time.
    pub(crate) fn again(&self) -> Self {
        self.meter.charge(self.bytes())
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes as usize
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.meter.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A cache that evicts the least recently used entries once its meter exceeds the limit. The newest
/// entry always stays.
#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    limit_bytes: u64,
    meter: Meter,
    kept: Mutex<LruMap<K, V>>,
}

#[derive(Debug)]
struct LruMap<K, V> {
    entries: IdMap<K, Entry<V>>,
    /// Keys with the time of each use, oldest first. Only the newest use of a key counts.
    uses: VecDeque<(u64, K)>,
    clock: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    used_at: u64,
    _charge: Option<Charge>,
}

impl<K: Copy + Eq + Hash, V> LruMap<K, V> {
    /// Marks an entry as just used.
    fn use_now(&mut self, key: K) -> Option<&Entry<V>> {
        let used_at = self.clock + 1;
        self.entries.get_mut(&key)?.used_at = used_at;
        self.note(used_at, key);
        self.entries.get(&key)
    }

    fn put(&mut self, key: K, value: V, charge: Option<Charge>) -> Option<Entry<V>> {
        let used_at = self.clock + 1;
        let before = self.entries.insert(key, Entry { value, used_at, _charge: charge });
        self.note(used_at, key);
        before
    }

    fn note(&mut self, used_at: u64, key: K) {
        self.clock = used_at;
        self.uses.push_back((used_at, key));
        // Every read appends a use, and only the newest use of a key counts. Without this cleanup
        // the queue would grow with the number of reads instead of the number of entries.
        if self.uses.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.uses.retain(|(at, key)| entries.get(key).is_some_and(|e| e.used_at == *at));
        }
    }
}

impl<K: Copy + Eq + Hash, V: Clone> Lru<K, V> {
    pub(crate) fn new(limit_bytes: u64, meter: Meter) -> Self {
        let kept = LruMap { entries: IdMap::default(), uses: VecDeque::new(), clock: 0 };
        Self { limit_bytes, meter, kept: Mutex::new(kept) }
    }

    fn lock(&self) -> MutexGuard<'_, LruMap<K, V>> {
        // Entries are replaced as a whole, so a poisoned lock still guards consistent data.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.lock().use_now(*key).map(|entry| entry.value.clone())
    }

    /// Caches a value of `bytes` bytes. Pass 0 if the value charges its own memory.
    pub(crate) fn put(&self, key: K, value: V, bytes: usize) {
        self.put_all([(key, value, bytes)]);
    }

    /// Caches values, each with its size in bytes.
    pub(crate) fn put_all(&self, values: impl IntoIterator<Item = (K, V, usize)>) {
        // Replaced values may be large, so they are dropped after the lock is released.
        let mut dropped = Vec::new();
        let mut kept = self.lock();
        for (key, value, bytes) in values {
            if bytes as u64 <= self.limit_bytes {
                let charge = (bytes > 0).then(|| self.meter.charge(bytes));
                dropped.extend(kept.put(key, value, charge));
            }
        }
        drop(kept);
        drop(dropped);
        // Evict one entry at a time and drop it outside of the lock. The meter also counts entries
        // that readers still hold, so this may evict everything but the newest entry.
        while self.meter.bytes() > self.limit_bytes {
            let Some(_oldest) = self.pop_oldest() else { break };
        }
    }

    fn pop_oldest(&self) -> Option<V> {
        let mut kept = self.lock();
        if kept.entries.len() <= 1 {
            return None;
        }
        loop {
            let (at, key) = kept.uses.pop_front()?;
            if kept.entries.get(&key).is_some_and(|entry| entry.used_at == at) {
                return kept.entries.remove(&key).map(|entry| entry.value);
            }
        }
    }

    pub(crate) fn clear(&self) {
        let mut kept = self.lock();
        kept.uses.clear();
        let dropped = std::mem::take(&mut kept.entries);
        drop(kept);
        drop(dropped);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entry_is_evicted_first() {
        let lru = Lru::new(100, Meter::default());
        for key in 0..3 {
            lru.put(key, key * 10, 30);
        }
        assert_eq!(lru.get(&0), Some(0));
        lru.put(3, 30, 30);
        assert_eq!((lru.get(&0), lru.get(&1), lru.get(&3)), (Some(0), None, Some(30)));
        assert!(lru.meter.bytes() <= 100);
    }

    #[test]
    fn the_newest_stays_even_when_callers_hold_too_much() {
        let meter = Meter::default();
        let held = meter.charge(1000);
        let lru = Lru::new(100, meter.clone());
        lru.put(1, 'a', 10);
        lru.put(2, 'b', 10);
        assert_eq!(lru.lock().entries.len(), 1);
        assert_eq!(lru.get(&2), Some('b'));
        drop(held);
        lru.put(2, 'c', 20);
        lru.put(3, 'd', 101);
        assert_eq!((meter.bytes(), lru.get(&2), lru.get(&3)), (20, Some('c'), None));
    }
}
