//! Stored blobs in their compressed form, and the dictionaries that some of them need.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use rusqlite::params;
use tract_compression::{
    DICTIONARY_COPIES, DecodeError, Dictionary, DictionaryId, DictionaryRow, DictionaryScope,
};
use tract_core::{Blob, StoreErrorKind, StoreResult};

use crate::error::new;
use crate::read::RepoReader;
use crate::schema::{DICTIONARY, prefix, small_sum};
use crate::write::Tx;

fn key(id: DictionaryId) -> i64 {
    i64::from(u32::from_be_bytes(*id.as_bytes()))
}

impl RepoReader<'_> {
    /// Returns the uncompressed bytes of a row; `None` if they or their dictionary are damaged.
    pub(crate) fn plain<'r>(self, stored: &'r [u8]) -> StoreResult<Option<Cow<'r, [u8]>>> {
        let load = |id| -> StoreResult<_> {
            let (rows, _) = self.small(DICTIONARY, key(id))?;
            let row = rows.first().and_then(|row| DictionaryRow::decode(&row.data));
            Ok(row.map(|row| row.stored.to_vec()))
        };
        match tract_compression::decode(self.scope(stored), stored, load)? {
            Ok(plain) => Ok(Some(plain)),
            Err(error @ DecodeError::Unavailable) => {
                Err(new(StoreErrorKind::Unsupported, self.op, error.to_string()).with_source(error))
            }
            Err(_) => Ok(None),
        }
    }

    /// Returns the cache scope of the dictionary that stored bytes need. It identifies the database
    /// file and the repository.
    fn scope(self, stored: &[u8]) -> DictionaryScope {
        if tract_compression::dictionary_of(stored).is_none() {
            return (0, 0);
        }
        let mut hasher = DefaultHasher::new();
        self.connection.path().hash(&mut hasher);
        (hasher.finish(), self.repo.unsigned_abs())
    }

    /// Finds the row of a blob by its bytes. A damaged row is ignored, so that storing the blob
    /// again repairs it.
    pub(crate) fn row_of(self, blob: &Blob) -> StoreResult<Option<i64>> {
        let sql = "SELECT id, data FROM blobs WHERE repo = ?1 AND h = ?2";
        self.find_row(sql, params![self.repo, prefix(blob.id().as_bytes())], |row| {
            let bytes = self.plain(row.bytes(1)?)?;
            let is_it = bytes.as_deref() == Some(blob.bytes());
            is_it.then(|| row.number(0)).transpose()
        })
    }

    /// Returns the dictionaries of a repository, one for each intact row, newest last. Damaged rows
    /// are skipped; `check` reports them.
    pub(crate) fn dictionaries(self) -> StoreResult<Vec<StoredDictionary>> {
        let mut found = Vec::new();
        self.each_small(DICTIONARY, |row, key, data| {
            let read = data.and_then(DictionaryRow::decode);
            found.extend(read.map(|DictionaryRow { number, is_stale, stored }| StoredDictionary {
                row,
                key,
                number,
                is_stale,
                stored: stored.into(),
            }));
            Ok(())
        })?;
        found.sort_by_key(|dictionary| dictionary.number);
        Ok(found)
    }
}

/// A stored dictionary.
pub(crate) struct StoredDictionary {
    row: i64,
    key: i64,
    pub(crate) number: u64,
    pub(crate) is_stale: bool,
    stored: Vec<u8>,
}

impl StoredDictionary {
    /// Prepares it for use; `None` if it is damaged, or if this build cannot decompress.
    pub(crate) fn open(&self) -> Option<Dictionary> {
        Dictionary::open(&self.stored)
    }

    /// Returns the first five bytes of stored blobs that need it.
    pub(crate) fn mark(&self) -> Option<[u8; 5]> {
        mark(self.key)
    }
}

/// Returns the first five bytes of stored blobs that need the dictionary with this key.
pub(crate) fn mark(key: i64) -> Option<[u8; 5]> {
    let id = u32::try_from(key).ok()?.to_be_bytes();
    Some(tract_compression::mark(DictionaryId::from_bytes(id)))
}

impl Tx<'_> {
    /// Stores a dictionary as the newest. Returns its number.
    pub(crate) fn dictionary(&mut self, repo: i64, dictionary: &Dictionary) -> StoreResult<u64> {
        let known = self.reader(repo).dictionaries()?;
        let number = known.last().map_or(1, |newest| newest.number + 1);
        let key = key(dictionary.id());
        for same in known.iter().filter(|known| known.key == key) {
            self.delete_dictionary(same)?;
        }
        let stored = dictionary.stored();
        let row = DictionaryRow { number, is_stale: false, stored: &stored };
        // Thousands of blobs may need it, so one damaged page must not make it unreadable.
        for _ in 0..DICTIONARY_COPIES {
            self.small(repo, DICTIONARY, key, &row.encode())?;
        }
        Ok(number)
    }

    /// Adds the missing copies of a dictionary that has an intact one.
    pub(crate) fn copy_dictionary(&mut self, repo: i64, key: i64) -> StoreResult<()> {
        let mut known = self.reader(repo).dictionaries()?;
        known.retain(|dictionary| dictionary.key == key);
        let Some(StoredDictionary { number, is_stale, stored, .. }) = known.first() else {
            return Ok(());
        };
        let data = DictionaryRow { number: *number, is_stale: *is_stale, stored }.encode();
        for _ in known.len()..usize::from(DICTIONARY_COPIES) {
            self.small(repo, DICTIONARY, key, &data)?;
        }
        Ok(())
    }

    /// Marks all dictionaries of a repository as stale: they may contain text of erased blobs.
    pub(crate) fn distrust_dictionaries(&mut self, repo: i64) -> StoreResult<()> {
        for known in self.reader(repo).dictionaries()? {
            let (number, stored) = (known.number, known.stored.as_slice());
            let data = DictionaryRow { number, is_stale: true, stored }.encode();
            let sum = small_sum(repo, DICTIONARY, known.key, &data);
            let sql = "UPDATE small SET data = ?2, sum = ?3 WHERE id = ?1";
            self.execute(sql, &[&known.row, &data.as_slice(), &sum])?;
        }
        Ok(())
    }

    pub(crate) fn delete_dictionary(&mut self, dictionary: &StoredDictionary) -> StoreResult<()> {
        self.execute("DELETE FROM small WHERE id = ?1", &[&dictionary.row]).map(drop)
    }
}
