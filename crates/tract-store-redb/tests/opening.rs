//! What lies at the path decides what opening gives, and a damaged file is never data.

#![allow(clippy::unwrap_used, reason = "helpers of tests are outside of `#[test]`")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use redb::{Database, ReadableDatabase, TableDefinition};
use tract_core::store::{BlockingStore, ThreadedStore, WriteMode};
use tract_core::{Applied, Commit, CommitId, RepoName, Store, StoreErrorKind, block_on};
use tract_store_redb::{RedbOptions, RedbStore};
use tract_testkit::damage::ReachableObjects;
use tract_testkit::fixtures::{appending, line};

fn repo() -> RepoName {
    RepoName::default()
}

fn create(path: &Path) -> ThreadedStore<RedbStore> {
    tract_store_redb::open(path, &RedbOptions { create: true, ..RedbOptions::default() }).unwrap()
}

/// Appends every recorded message of one conversation, one write each.
fn append(store: &dyn Store) -> Vec<CommitId> {
    let texts = tract_testkit::data::recorded().swap_remove(0).messages;
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let commits = block_on(line(store, &repo(), "main", None, &texts)).unwrap();
    commits.iter().map(Commit::id).collect()
}

#[track_caller]
fn refused(path: &Path, options: &RedbOptions) -> StoreErrorKind {
    tract_store_redb::open(path, options).expect_err("an error").kind
}

#[test]
fn no_file_is_no_store_and_none_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.redb");
    assert_eq!(refused(&path, &RedbOptions::default()), StoreErrorKind::NoStore);
    let reading = RedbOptions { create: true, read_only: true, ..RedbOptions::default() };
    assert_eq!(refused(&path, &reading), StoreErrorKind::NoStore);
    assert!(!path.exists());
    std::fs::write(&path, "").unwrap();
    assert_eq!(refused(&path, &RedbOptions::default()), StoreErrorKind::NoStore);
    drop(create(&path));
    drop(create(&folder.path().join("new/folder/agent.redb")));
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 2, "nothing else is left: {names:?}");
}

#[test]
fn a_foreign_file_is_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let options = RedbOptions { create: true, ..RedbOptions::default() };
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "a text of another program").unwrap();
    assert_eq!(refused(&text, &options), StoreErrorKind::NotAStore);
    assert_eq!(refused(folder.path(), &options), StoreErrorKind::NotAStore);

    let make = |path: &Path, table: &str| {
        let database = Database::create(path).unwrap();
        let writing = database.begin_write().unwrap();
        let table: TableDefinition<'_, u64, u64> = TableDefinition::new(table);
        writing.open_table(table).unwrap().insert(1, 1).unwrap();
        writing.commit().unwrap();
    };
    let foreign = folder.path().join("foreign.redb");
    make(&foreign, "theirs");
    let before = std::fs::read(&foreign).unwrap();
    assert_eq!(refused(&foreign, &options), StoreErrorKind::NotAStore);
    assert!(std::fs::read(&foreign).unwrap() == before);

    // The name of a table of ours, with other types in it.
    let other = folder.path().join("other.redb");
    make(&other, "tract-small-1");
    assert_eq!(refused(&other, &options), StoreErrorKind::NotAStore);

    // A true beginning and garbage after it.
    let torn = folder.path().join("torn.redb");
    let mut bytes = b"redb\x1A\x0A\xA9\x0D\x0A".to_vec();
    bytes.resize(20_000, 0xa5);
    std::fs::write(&torn, &bytes).unwrap();
    assert_eq!(refused(&torn, &options), StoreErrorKind::Corrupt { object: None });
}

#[test]
fn a_newer_format_is_refused_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.redb");
    block_on(create(&path).close()).unwrap();
    const SMALL: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("tract-small-1");
    let database = Database::open(&path).unwrap();
    let reading = database.begin_read().unwrap();
    let small = reading.open_table(SMALL).unwrap();
    let format = small.get(b"\0f".as_slice()).unwrap().unwrap().value().to_vec();
    assert_eq!(format[..4], [0, 0, 0, 2], "format 2, and its checksum");
    drop((small, reading));
    // The checksum of format 3 is not known here: a newer version is only one that has it.
    let writing = database.begin_write().unwrap();
    let mut newer = format;
    newer[3] = 3;
    writing.open_table(SMALL).unwrap().insert(b"\0f".as_slice(), newer.as_slice()).unwrap();
    writing.commit().unwrap();
    drop(database);
    assert_eq!(refused(&path, &RedbOptions::default()), StoreErrorKind::NotAStore);
}

#[test]
fn one_process_writes_and_others_get_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.redb");
    let store = create(&path);
    let options = RedbOptions { busy_timeout: Duration::from_millis(20), ..RedbOptions::default() };
    assert_eq!(refused(&path, &options), StoreErrorKind::Busy);
    assert_eq!(
        refused(&path, &RedbOptions { read_only: true, ..options.clone() }),
        StoreErrorKind::Busy
    );
    // Who waits long enough gets it.
    let waiting = std::thread::spawn({
        let path = path.clone();
        move || tract_store_redb::open(path, &RedbOptions::default()).map(drop)
    });
    std::thread::sleep(Duration::from_millis(20));
    drop(store);
    waiting.join().unwrap().unwrap();
}

#[test]
fn read_only_reads_and_refuses_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.redb");
    let store = create(&path);
    let line = append(&store);
    drop(store);
    let bytes = std::fs::read(&path).unwrap();
    let open = || {
        tract_store_redb::open(&path, &RedbOptions { read_only: true, ..RedbOptions::default() })
            .unwrap()
    };
    let (reader, second) = (open(), open());
    for reader in [&reader, &second] {
        assert!(reader.store().commits(&repo(), &line).unwrap().iter().all(Option::is_some));
        assert_eq!(reader.store().check(&repo(), false).unwrap(), []);
    }
    let (batch, _) = appending("main", line.last().copied(), "never");
    let error = block_on(reader.apply(&repo(), batch)).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::ReadOnly);
    drop((reader, second));
    assert!(std::fs::read(&path).unwrap() == bytes, "reading changes nothing");
}

#[test]
fn a_closed_store_refuses_everything() {
    let folder = tempfile::tempdir().unwrap();
    let store = create(&folder.path().join("agent.redb"));
    append(&store);
    block_on(store.close()).unwrap();
    block_on(store.close()).unwrap();
    let (batch, _) = appending("main", None, "late");
    let error = block_on(store.apply(&repo(), batch)).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Unavailable);
    assert_eq!(store.store().repos().unwrap_err().kind, StoreErrorKind::Unavailable);
}

struct Stored {
    _folder: tempfile::TempDir,
    path: PathBuf,
    whole: Vec<u8>,
    truth: ReachableObjects,
    line: Vec<CommitId>,
}

fn stored() -> Stored {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.redb");
    let store = create(&path);
    let line = append(&store);
    assert_eq!(store.store().check(&repo(), false).unwrap(), []);
    let truth = ReachableObjects::of(&store, &repo()).unwrap();
    block_on(store.close()).unwrap();
    let whole = std::fs::read(&path).unwrap();
    Stored { _folder: folder, path, whole, truth, line }
}

/// Flips a bit of a file, and reads all: each answer is the truth, or an error, or nothing, and
/// then the check says that something is wrong. Returns whether it was noticed.
fn flip(stored: &Stored, at: usize) -> bool {
    let mut bytes = stored.whole.clone();
    bytes[at] ^= 1 << (at % 8);
    std::fs::write(&stored.path, &bytes).unwrap();
    let options = RedbOptions { write_mode: WriteMode::InPlace, ..RedbOptions::default() };
    let store = match tract_store_redb::open(&stored.path, &options) {
        Ok(store) => store,
        Err(error) => {
            let kinds = [StoreErrorKind::Corrupt { object: None }, StoreErrorKind::NotAStore];
            assert!(kinds.contains(&error.kind), "byte {at}: {error:?}");
            return true;
        }
    };
    let failed = stored.truth.read(&store).unwrap_or_else(|wrong| panic!("byte {at}: {wrong}"));
    let store = store.store();
    let refs = store.list_refs(&repo(), "");
    let log = store.ref_log(&repo(), &Default::default());
    let is_whole = refs.is_ok_and(|refs| !refs.is_empty())
        && log.is_ok_and(|log| log.len() == stored.line.len());
    let noticed = store.check(&repo(), false).map_or(true, |damage| !damage.is_empty());
    assert!(noticed || (is_whole && failed.is_empty()), "byte {at}: lost and not noticed");
    noticed
}

#[test]
fn a_flipped_bit_anywhere_is_found_or_harmless() {
    let stored = stored();
    let used = stored.whole.iter().rposition(|byte| *byte != 0).unwrap();
    let (mut found, mut harmless) = (0, 0);
    // The header byte by byte; of the rest every so many, a prime, so that all parts are met.
    let header = (0..320).chain((320..4096).step_by(61));
    let step = ((used - 4096) / 400) | 1;
    for at in header.chain((4096..used).step_by(step)) {
        if flip(&stored, at) { found += 1 } else { harmless += 1 }
    }
    println!("{found} flipped bits found, {harmless} harmless");
    assert!(found > 100, "{found} found, {harmless} not");
}

#[test]
fn a_file_cut_short_anywhere_is_refused_or_reported() {
    let stored = stored();
    let step = (stored.whole.len() / 40) | 1;
    for len in (1..stored.whole.len()).step_by(step) {
        std::fs::write(&stored.path, &stored.whole[..len]).unwrap();
        match tract_store_redb::open(&stored.path, &RedbOptions::default()) {
            Err(error) => assert!(
                matches!(error.kind, StoreErrorKind::Corrupt { .. } | StoreErrorKind::NotAStore),
                "cut at {len}: {error:?}"
            ),
            Ok(store) => {
                let read = store.store().commits(&repo(), &stored.line);
                let whole = read.is_ok_and(|found| found.iter().all(Option::is_some));
                let is_reported =
                    store.store().check(&repo(), false).map_or(true, |d| !d.is_empty());
                assert!(whole || is_reported, "cut at {len}");
            }
        }
    }
}

#[test]
fn checking_changes_nothing() {
    let stored = stored();
    let store = tract_store_redb::open(&stored.path, &RedbOptions::default()).unwrap();
    let before = std::fs::read(&stored.path).unwrap();
    assert_eq!(store.store().check(&repo(), false).unwrap(), []);
    assert!(std::fs::read(&stored.path).unwrap() == before);
    // And writing continues after it.
    let (batch, _) = appending("main", stored.line.last().copied(), "after the check");
    assert_eq!(block_on(store.apply(&repo(), batch)).unwrap(), Applied::Done);
}

#[test]
fn a_batch_that_joins_a_group_sees_its_writes_and_is_durable_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.redb");
    let is_joined = tract_testkit::blocking::groups_are_whole(create(&path), |store| {
        block_on(store.close()).unwrap();
        drop(store);
        create(&path)
    });
    assert!(is_joined);
}

#[test]
#[cfg(unix)]
fn a_file_that_was_moved_takes_no_more_writes_until_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.redb");
    tract_testkit::blocking::a_moved_store_takes_no_writes(&path, create);
}
