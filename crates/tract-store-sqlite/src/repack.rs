//! Rewrites blobs in a smaller form, in short steps that block writers only briefly.

use std::sync::Mutex;

use rusqlite::{Connection, params};
use tract_compression::{Dictionary, MAX_SAMPLE_BYTES, SAMPLE_BYTES, replacement};
use tract_core::store::{RepackPage, RepackStep};
use tract_core::{StoreErrorKind, StoreResult};

use crate::compressed::StoredDictionary;
use crate::erase;
use crate::error::engine;
use crate::memory::Memory;
use crate::read::{RepoReader, statement};
use crate::sweep;
use crate::write::{Tx, WriteTransaction};

const OP: &str = "repack";
/// Maximum number of bytes of blobs read by one step. `STEP_BLOBS` is the limit on their number.
const STEP_BYTES: usize = 1 << 20;
const STEP_BLOBS: usize = 1024;

/// Rewrites the next blobs.
pub(crate) fn blobs(
    connection: &Connection,
    repo: i64,
    after: u64,
    trained: u64,
    unreadable: bool,
) -> StoreResult<RepackPage> {
    let writing = WriteTransaction::begin(connection, OP)?;
    let newest = RepoReader::new(connection, OP, repo).dictionaries()?;
    let newest = newest.iter().rfind(|known| !known.is_stale);
    let newest = newest.and_then(StoredDictionary::open);
    let (mut page, last) = write_again(connection, repo, after as i64, newest.as_ref(), |_| true)?;
    writing.commit(OP)?;
    let unreadable = unreadable || page.unreadable > 0;
    page.next = Some(match last {
        Some(last) => RepackStep::Blobs { after: last as u64, trained, unreadable },
        None => RepackStep::Finish { trained, unreadable },
    });
    Ok(page)
}

/// Deletes the dictionaries older than the one that this repack trained. Since then all blobs were
/// rewritten with it or with a newer one.
pub(crate) fn finish(
    connection: &Connection,
    memory: &Mutex<Memory>,
    repo: i64,
    trained: u64,
) -> StoreResult<()> {
    let writing = WriteTransaction::begin(connection, OP)?;
    let mut tx = Tx::new(connection, memory);
    for older in RepoReader::new(connection, OP, repo).dictionaries()? {
        if older.number < trained {
            tx.delete_dictionary(&older)?;
        }
    }
    drop(tx);
    writing.commit(OP)
}

/// Rewrites the file. Returns a note if others prevent it.
pub(crate) fn shrink(connection: &Connection) -> StoreResult<Option<String>> {
    match erase::rewrite(connection, OP) {
        Ok(()) => Ok(None),
        Err(error) if error.kind == StoreErrorKind::Busy => Ok(Some(error.message)),
        Err(error) => Err(error),
    }
}

/// A dictionary, and the number of sweeps and erasures in the store when it was trained.
pub(crate) struct TrainedDictionary {
    sweeps: i64,
    dictionary: Dictionary,
}

/// Stores a trained dictionary and returns the next step. If something was erased since the
/// training, the dictionary may contain it, so the next step trains again.
pub(crate) fn trained(
    connection: &Connection,
    memory: &Mutex<Memory>,
    repo: i64,
    trained: Option<&TrainedDictionary>,
) -> StoreResult<RepackStep> {
    let trained = match trained {
        Some(TrainedDictionary { sweeps, dictionary }) => {
            let writing = WriteTransaction::begin(connection, OP)?;
            if sweep::sweeps(RepoReader::new(connection, OP, 0))? != *sweeps {
                return Ok(RepackStep::Train);
            }
            let number = Tx::new(connection, memory).dictionary(repo, dictionary)?;
            writing.commit(OP)?;
            number
        }
        None => 0,
    };
    Ok(RepackStep::Blobs { after: 0, trained, unreadable: false })
}

/// Trains a dictionary on a sample of blobs, chosen by their hashes so that the sample is
/// representative.
pub(crate) fn train(reader: RepoReader<'_>) -> StoreResult<Option<TrainedDictionary>> {
    let (repo, sweeps) = (reader.repo, sweep::sweeps(reader)?);
    if !tract_compression::IS_AVAILABLE {
        return Ok(None);
    }
    let sql = "SELECT coalesce(sum(length(data)), 0) FROM blobs \
               WHERE +repo = ?1 AND length(data) <= ?2";
    let limit = MAX_SAMPLE_BYTES as i64;
    let total: Option<i64> = reader.find_row(sql, [repo, limit], |row| row.get(0))?;
    let stride = (total.unwrap_or_default() as u64).div_ceil(SAMPLE_BYTES).max(1);
    let sql = "SELECT data FROM blobs WHERE repo = ?1 AND length(data) <= ?2 AND h % ?3 = 0 \
               ORDER BY h";
    let (mut samples, mut taken) = (Vec::new(), 0);
    reader.find_row(sql, params![repo, limit, stride as i64], |row| {
        let sample = reader.plain(row.bytes(0)?)?;
        // A compressed blob may be longer than its stored value, so check the length again.
        let Some(sample) = sample.filter(|sample| sample.len() <= MAX_SAMPLE_BYTES) else {
            return Ok(None);
        };
        taken += sample.len();
        if taken as u64 > 2 * SAMPLE_BYTES {
            return Ok(Some(()));
        }
        samples.push(sample.into_owned());
        Ok(None)
    })?;
    let dictionary = Dictionary::train(samples.iter().map(Vec::as_slice));
    Ok(dictionary.map(|dictionary| TrainedDictionary { sweeps, dictionary }))
}

/// Rewrites the blobs after a row, with a dictionary or without one. Returns the page and the last
/// row visited, or `None` if there are no more blobs.
pub(crate) fn write_again(
    connection: &Connection,
    repo: i64,
    after: i64,
    dictionary: Option<&Dictionary>,
    is_meant: impl Fn(&[u8]) -> bool,
) -> StoreResult<(RepackPage, Option<i64>)> {
    let (mut page, mut last, mut read) = (RepackPage::default(), after, 0);
    let mut changed = Vec::new();
    // `+repo` keeps SQLite from using the index by repository.
    let sql = "SELECT id, data FROM blobs WHERE +repo = ?1 AND id > ?2 ORDER BY id";
    let reader = RepoReader::new(connection, OP, repo);
    let cut = reader.find_row(sql, params![repo, after], |row| {
        if read >= STEP_BYTES || page.blobs as usize >= STEP_BLOBS {
            return Ok(Some(()));
        }
        last = row.number(0)?;
        let stored = row.bytes(1)?;
        page.blobs += 1;
        page.before += stored.len() as u64;
        page.after += stored.len() as u64;
        if !is_meant(stored) {
            read += stored.len() / 64;
            return Ok(None);
        }
        let Some(bytes) = reader.plain(stored)? else {
            page.unreadable += 1;
            return Ok(None);
        };
        read += bytes.len();
        if let Some(again) = replacement(stored, &bytes, dictionary) {
            page.after = page.after - stored.len() as u64 + again.len() as u64;
            changed.push((last, again));
        }
        Ok(None)
    })?;
    page.written = changed.len() as u64;
    let mut update = statement(connection, OP, "UPDATE blobs SET data = ?2 WHERE id = ?1")?;
    for (row, data) in changed {
        update.execute(params![row, data]).map_err(engine(OP))?;
    }
    Ok((page, cut.map(|()| last)))
}

/// Removes the stale dictionaries, which may contain text of erased blobs. Blobs that need one are
/// first rewritten without it.
pub(crate) fn remove_stale(
    connection: &Connection,
    memory: &Mutex<Memory>,
    repo: i64,
) -> StoreResult<()> {
    let known = RepoReader::new(connection, OP, repo).dictionaries()?;
    let stale: Vec<_> = known.into_iter().filter(|known| known.is_stale).collect();
    if stale.is_empty() {
        return Ok(());
    }
    let marks: Vec<[u8; 5]> = stale.iter().filter_map(StoredDictionary::mark).collect();
    let is_meant = |stored: &[u8]| marks.iter().any(|mark| stored.starts_with(mark));
    let mut after = Some(0);
    while let Some(place) = after {
        let writing = WriteTransaction::begin(connection, OP)?;
        (_, after) = write_again(connection, repo, place, None, is_meant)?;
        writing.commit(OP)?;
    }
    let writing = WriteTransaction::begin(connection, OP)?;
    let mut tx = Tx::new(connection, memory);
    stale.iter().try_for_each(|stale| tx.delete_dictionary(stale))?;
    drop(tx);
    writing.commit(OP)
}

#[cfg(test)]
mod tests {
    use tract_core::store::BlockingStore;
    use tract_core::{Batch, Blob, BlobId, RepoName};

    use super::*;
    use crate::{SqliteOptions, SqliteStore};

    /// `topic` gives each test a dictionary of its own: those that were used lately are shared.
    fn filled(folder: &std::path::Path, topic: &str) -> (SqliteStore, RepoName, BlobId) {
        let path = folder.join("agent.db");
        let store =
            SqliteStore::open(&path, &SqliteOptions { create: true, ..SqliteOptions::default() })
                .unwrap();
        let repo = RepoName::default();
        let text = |n: usize| Blob::seal(format!("The {topic} of number {n} is {}", n * 7919));
        let blobs: Vec<Blob> = (0..2000).map(text).collect();
        let secret = blobs[7].id();
        let batch = Batch { blobs, ..tract_testkit::fixtures::batch("test") };
        let written = store.apply_group(&[(repo.clone(), batch)]);
        assert!(written.iter().all(Result::is_ok), "{written:?}");
        (store, repo, secret)
    }

    fn erase(store: &SqliteStore, repo: &RepoName, blob: BlobId) {
        let erasing = tract_testkit::fixtures::erasing(blob);
        let written = store.apply_group(&[(repo.clone(), erasing)]);
        assert!(written.iter().all(Result::is_ok), "{written:?}");
    }

    fn repack(store: &SqliteStore, repo: &RepoName) {
        let mut step = Some(RepackStep::Train);
        while let Some(next) = step {
            step = store.repack(repo, next).unwrap().next;
        }
    }

    fn count(store: &SqliteStore) -> u32 {
        store.ask("SELECT count(DISTINCT key) FROM small WHERE kind = 8")
    }

    #[test]
    fn dictionaries_that_saw_what_is_erased_do_not_outlive_a_wipe() {
        let folder = tempfile::tempdir().unwrap();
        let (store, repo, secret) = filled(folder.path(), "erasure");
        repack(&store, &repo);
        assert_eq!(count(&store), 1);
        erase(&store, &repo, secret);
        store.wipe().unwrap();
        assert_eq!(count(&store), 0);
        assert_eq!(store.check(&repo, false).unwrap(), []);
    }

    #[test]
    fn a_damaged_row_of_a_dictionary_takes_no_blob_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let (store, repo, secret) = filled(folder.path(), "damage");
        repack(&store, &repo);
        store.close().unwrap();
        let connection = Connection::open(store.path()).unwrap();
        let first = "SELECT min(id) FROM small WHERE kind = 8";
        let damage = format!("UPDATE small SET data = zeroblob(length(data)) WHERE id = ({first})");
        assert_eq!(connection.execute(&damage, []).unwrap(), 1);
        drop(connection);
        let store = SqliteStore::open(store.path(), &SqliteOptions::default()).unwrap();
        tract_compression::forget_dictionaries();
        assert!(store.blobs(&repo, &[secret.into()]).unwrap()[0].is_some());
        let damage = store.check(&repo, false).unwrap();
        assert!(matches!(&damage[..], [one] if one.what.contains("a dictionary")), "{damage:?}");
        // The next repack writes both rows again.
        repack(&store, &repo);
        assert!(store.blobs(&repo, &[secret.into()]).unwrap()[0].is_some());
    }

    #[test]
    fn dictionaries_that_are_trained_while_something_is_erased_are_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (store, repo, secret) = filled(folder.path(), "race");
        let path = store.path().to_owned();
        let connection = Connection::open(path).unwrap();
        let reader = RepoReader::new(&connection, OP, 1);
        let early = train(reader).unwrap();
        assert!(early.is_some());
        erase(&store, &repo, secret);
        let memory = Mutex::new(Memory::new());
        let next = trained(&connection, &memory, 1, early.as_ref()).unwrap();
        assert_eq!((next, count(&store)), (RepackStep::Train, 0));
        let again = train(reader).unwrap();
        let next = trained(&connection, &memory, 1, again.as_ref()).unwrap();
        assert_eq!(next, RepackStep::Blobs { after: 0, trained: 1, unreadable: false });
        assert_eq!(count(&store), 1);
    }
}
