//! A cache of recently used dictionaries, keyed by the store and repository they were read from and by
//! their content. A dictionary of one store is never used for another: the copies of that store may be
//! damaged or missing, and a read must report it.

use std::sync::{Arc, PoisonError, RwLock};

use crate::{Dictionary, DictionaryId, DictionaryScope};

/// How many are remembered; each takes some hundred KiB.
const REMEMBERED: usize = 16;

type Remembered = (DictionaryScope, DictionaryId, Arc<Dictionary>);

static CACHE: RwLock<Vec<Remembered>> = RwLock::new(Vec::new());

/// Lets dictionaries be read from their stores again.
pub(crate) fn clear() {
    CACHE.write().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Finds a dictionary, or loads it; `None` when it is not stored, or is another.
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
