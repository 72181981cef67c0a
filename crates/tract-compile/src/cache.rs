//! Caches bounded in bytes, whatever shares them.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Counts the bytes that are alive, however many caches and callers share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Arc<AtomicU64>);

impl Meter {
    /// Counts bytes until the charge is dropped.
    pub(crate) fn charge(&self, bytes: usize) -> Charge {
        let bytes = bytes as u64;
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Charge { meter: self.clone(), bytes }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Bytes that are alive as long as this is.
#[derive(Debug)]
pub(crate) struct Charge {
    meter: Meter,
    bytes: u64,
}

impl Charge {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes as usize
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.meter.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Drops what was used longest ago as soon as its meter shows more than the limit; the newest
/// entry always stays.
#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    limit_bytes: u64,
    meter: Meter,
    kept: Mutex<Kept<K, V>>,
}

#[derive(Debug)]
struct Kept<K, V> {
    entries: HashMap<K, Entry<V>>,
    by_age: BTreeMap<u64, K>,
    clock: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    used_at: u64,
    _charge: Option<Charge>,
}

impl<K: Copy + Eq + Hash, V: Clone> Lru<K, V> {
    pub(crate) fn new(limit_bytes: u64, meter: Meter) -> Self {
        let kept = Kept { entries: HashMap::new(), by_age: BTreeMap::new(), clock: 0 };
        Self { limit_bytes, meter, kept: Mutex::new(kept) }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        // Entries are replaced whole, so a panic elsewhere leaves nothing half done.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Kept { entries, by_age, clock } = &mut *kept;
        let entry = entries.get_mut(key)?;
        *clock += 1;
        by_age.remove(&entry.used_at);
        by_age.insert(*clock, *key);
        entry.used_at = *clock;
        Some(entry.value.clone())
    }

    /// Keeps a value that takes `bytes`; 0 when the value counts its bytes itself.
    pub(crate) fn put(&self, key: K, value: V, bytes: usize) {
        if bytes as u64 > self.limit_bytes {
            return;
        }
        let charge = (bytes > 0).then(|| self.meter.charge(bytes));
        let mut dropped = Vec::new();
        {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.clock += 1;
            let used_at = kept.clock;
            dropped.extend(kept.entries.insert(key, Entry { value, used_at, _charge: charge }));
            if let Some(entry) = dropped.last() {
                kept.by_age.remove(&entry.used_at);
            }
            kept.by_age.insert(used_at, key);
        }
        drop(dropped);
        while self.meter.bytes() > self.limit_bytes {
            // What is dropped may be large, so nobody waits for it at the lock.
            let Some(_oldest) = self.pop_oldest() else { break };
        }
    }

    fn pop_oldest(&self) -> Option<V> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.entries.len() <= 1 {
            return None;
        }
        let (_, key) = kept.by_age.pop_first()?;
        kept.entries.remove(&key).map(|entry| entry.value)
    }

    pub(crate) fn clear(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.by_age.clear();
        let dropped = std::mem::take(&mut kept.entries);
        drop(kept);
        drop(dropped);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).entries.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes_first() {
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
        assert_eq!((lru.len(), lru.get(&2)), (1, Some('b')));
        drop(held);
        lru.put(2, 'c', 20);
        lru.put(3, 'd', 101);
        assert_eq!((meter.bytes(), lru.get(&2), lru.get(&3)), (20, Some('c'), None));
    }
}
