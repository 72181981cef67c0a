//! Dictionaries that were used lately, by what they hold: whichever store they come from, an id means
//! one dictionary.

use std::sync::{Arc, PoisonError, RwLock};

use crate::{Dictionary, DictionaryId};

/// How many are remembered; each takes some hundred KiB.
const REMEMBERED: usize = 16;

static CACHE: RwLock<Vec<(DictionaryId, Arc<Dictionary>)>> = RwLock::new(Vec::new());

/// Lets dictionaries be read from their stores again.
pub(crate) fn clear() {
    CACHE.write().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Finds a dictionary, or loads it; `None` when it is not stored, or is another.
pub(crate) fn dictionary<E>(
    id: DictionaryId,
    load: impl FnOnce(DictionaryId) -> Result<Option<Vec<u8>>, E>,
) -> Result<Option<Arc<Dictionary>>, E> {
    let find = |cache: &[(DictionaryId, Arc<Dictionary>)]| {
        cache.iter().find(|(known, _)| *known == id).map(|(_, found)| Arc::clone(found))
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
        cache.push((id, Arc::clone(&loaded)));
    }
    Ok(Some(loaded))
}
