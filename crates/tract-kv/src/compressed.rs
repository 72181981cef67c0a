//! Stored blobs in their compressed form, and the dictionaries that some of them need.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use tract_compression::{DICTIONARY_COPIES, DecodeError, Dictionary, DictionaryId, DictionaryRow};

use super::Space;
use super::keys::Repo;
use super::overlay::Overlay;
use super::read::{View, each};
use super::value;
use tract_core::store::{StoreError, StoreErrorKind, StoreResult};

/// A stored value with the dictionary that it needs, so that any thread can decompress it.
pub(super) struct StoredValue {
    bytes: Bytes,
    dictionary: Option<Arc<Dictionary>>,
}

impl StoredValue {
    /// Wraps a value that is not a blob.
    pub(super) fn as_it_is(bytes: Bytes) -> Self {
        Self { bytes, dictionary: None }
    }

    /// Returns the uncompressed bytes; `None` if they are damaged.
    pub(super) fn plain(&self) -> Option<Bytes> {
        let plain = tract_compression::decode_with(&self.bytes, self.dictionary.as_deref()).ok()?;
        Some(match plain {
            Cow::Borrowed(plain) => self.bytes.slice_ref(plain),
            Cow::Owned(plain) => plain.into(),
        })
    }

    /// Returns the bytes as they are stored.
    pub(super) fn stored(&self) -> &[u8] {
        &self.bytes
    }
}

/// Encodes a blob for storage.
pub(super) fn value_of(blob: &Bytes) -> Bytes {
    match tract_compression::encode(blob) {
        Cow::Borrowed(_) => blob.clone(),
        Cow::Owned(stored) => stored.into(),
    }
}

/// A stored dictionary.
pub(super) struct StoredDictionary {
    pub(super) id: DictionaryId,
    pub(super) number: u64,
    pub(super) is_stale: bool,
    stored: Vec<u8>,
}

/// A damaged or missing copy of a dictionary.
pub(super) struct DamagedCopy {
    pub(super) key: Vec<u8>,
    pub(super) id: Option<DictionaryId>,
    /// Whether another copy is intact.
    pub(super) has_other: bool,
}

impl StoredDictionary {
    /// Stages all copies.
    pub(super) fn put(&self, overlay: &mut Overlay<'_>, repo: Repo) {
        let Self { id, number, is_stale, stored } = self;
        let row = DictionaryRow { number: *number, is_stale: *is_stale, stored };
        put_dictionary(overlay, repo, *id, row);
    }

    /// Prepares it for use; `None` if it is damaged, or if this build cannot decompress.
    pub(super) fn open(&self) -> Option<Dictionary> {
        Dictionary::open(&self.stored)
    }
}

impl View<'_> {
    /// Adds the dictionary that a value needs.
    ///
    /// # Errors
    /// `Unsupported` if this build cannot decompress.
    pub(super) fn stored(&self, bytes: Bytes) -> StoreResult<StoredValue> {
        if !tract_compression::IS_AVAILABLE && tract_compression::is_compressed(&bytes) {
            let error = DecodeError::Unavailable;
            let kind = StoreErrorKind::Unsupported;
            let message = error.to_string();
            return Err(StoreError::new(kind, self.backend, "read", message).with_source(error));
        }
        let load = |id: DictionaryId| -> StoreResult<_> {
            for copy in 0..DICTIONARY_COPIES {
                let key = self.repo.dictionary(id, copy);
                let sealed = self.read.get(Space::Small, &key)?;
                let row = sealed.as_deref().and_then(|sealed| value::open(&key, sealed));
                if let Some(row) = row.and_then(DictionaryRow::decode) {
                    return Ok(Some(row.stored.to_vec()));
                }
            }
            Ok(None)
        };
        let scope = (self.read.store_number(), u64::from(self.repo.0));
        let dictionary = tract_compression::dictionary_for(scope, &bytes, load)?;
        Ok(StoredValue { bytes, dictionary })
    }

    /// Returns the uncompressed bytes of a value; `None` if they are damaged.
    pub(super) fn plain(&self, bytes: Bytes) -> StoreResult<Option<Bytes>> {
        Ok(self.stored(bytes)?.plain())
    }

    /// Returns the dictionaries of the repository, newest last, and the damaged or missing copies.
    pub(super) fn dictionaries(&self) -> StoreResult<(Vec<StoredDictionary>, Vec<DamagedCopy>)> {
        let (mut found, mut damaged) = (Vec::<StoredDictionary>::new(), BTreeSet::new());
        let mut whole = BTreeSet::new();
        each(self.read, &self.repo.dictionaries(), |key, sealed| {
            let row = value::open(key, sealed).and_then(DictionaryRow::decode);
            match (Repo::dictionary_id(key), row) {
                (Some(id), Some(DictionaryRow { number, is_stale, stored })) => {
                    whole.insert(key.to_vec());
                    if found.iter().all(|known| known.id != id) {
                        let stored = stored.into();
                        found.push(StoredDictionary { id, number, is_stale, stored });
                    }
                }
                _ => drop(damaged.insert(key.to_vec())),
            }
            Ok(())
        })?;
        for StoredDictionary { id, .. } in &found {
            let copies = (0..DICTIONARY_COPIES).map(|copy| self.repo.dictionary(*id, copy));
            damaged.extend(copies.filter(|key| !whole.contains(key)));
        }
        found.sort_by_key(|dictionary| (dictionary.number, dictionary.id));
        let copy = |key: Vec<u8>| {
            let id = Repo::dictionary_id(&key);
            let has_other = found.iter().any(|known| Some(known.id) == id);
            DamagedCopy { key, id, has_other }
        };
        let damaged = damaged.into_iter().map(copy).collect();
        Ok((found, damaged))
    }

    /// Returns whether a blob in the repository needs a dictionary.
    pub(super) fn needs_dictionary(&self, id: Option<DictionaryId>) -> StoreResult<bool> {
        let Some(id) = id else { return Ok(false) };
        let mut is_needed = false;
        self.read.scan(&self.repo.all(Space::Blobs), &mut |_, stored| {
            is_needed = tract_compression::dictionary_of(stored) == Some(id);
            Ok(if is_needed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(is_needed)
    }
}

pub(super) fn put_dictionary(
    overlay: &mut Overlay<'_>,
    repo: Repo,
    id: DictionaryId,
    row: DictionaryRow<'_>,
) {
    for copy in 0..DICTIONARY_COPIES {
        overlay.seal(Space::Small, repo.dictionary(id, copy), row.encode());
    }
}

/// Marks all dictionaries of a repository as stale: they may contain text of erased blobs.
pub(super) fn distrust_dictionaries(
    overlay: &mut Overlay<'_>,
    repo: Repo,
    backend: &'static str,
) -> StoreResult<()> {
    let (known, _) = View { read: &*overlay, repo, backend }.dictionaries()?;
    for StoredDictionary { id, number, stored, .. } in known {
        let row = DictionaryRow { number, is_stale: true, stored: &stored };
        put_dictionary(overlay, repo, id, row);
    }
    Ok(())
}
