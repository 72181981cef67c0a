//! Process-wide cache of dictionaries, keyed by store, repository and id.
//!
//! The store is part of the key: a dictionary read from one store must not hide that the copies of
//! another store are damaged or missing.

use std::sync::{Arc, PoisonError, RwLock};

use crate::{Dictionary, DictionaryId, DictionaryScope};

/// Maximum number of cached dictionaries. Each takes a few hundred KiB. The oldest entry is
/// evicted.
const REMEMBERED: usize = 16;

type Remembered = (DictionaryScope, DictionaryId, Arc<Dictionary>);

static CACHE: RwLock<Vec<Remembered>> = RwLock::new(Vec::new());

/// Empties the cache, so that dictionaries are read from their stores again.
pub(crate) fn clear() {
    CACHE.write().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Returns a dictionary from the cache, or loads and caches it. `None` if it is not stored, or if
/// the loaded bytes do not have this id.
pub(crate) fn dictionary<E>(
    scope: DictionaryScope,
    id: DictionaryId,
    load: impl FnOnce(DictionaryId) -> Result<Option<Vec<u8>>, E>,
) -> Result<Option<Arc<Dictionary>>, E> {
    let find = |cache: &[Remembered]| {
        let is_it = |known: &&Remembered| (known.0, known.1) == (scope, id);
        cache.iter().find(is_it).map(|(.., found)| Arc::clone(found))
    };
    if let Some(found) = find(&CACHE.read().unwrap_or_else(PoisonError::into_inner)) {
        return Ok(Some(found));
    }
    // Loaded without holding the lock, because `load` reads from the store. Two threads may load
    // the same dictionary; the second check below keeps only one of them.
    let loaded = load(id)?.and_then(|stored| Dictionary::open(&stored));
    let Some(loaded) = loaded.filter(|dictionary| dictionary.id() == id) else {
        return Ok(None);
    };
    let loaded = Arc::new(loaded);
    let mut cache = CACHE.write().unwrap_or_else(PoisonError::into_inner);
    if find(&cache).is_none() {
        if cache.len() >= REMEMBERED {
            cache.remove(0);
        }
        cache.push((scope, id, Arc::clone(&loaded)));
    }
    Ok(Some(loaded))
}
