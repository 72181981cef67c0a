use std::time::Duration;

use tract_core::store::{BlockingStore, WriteMode};
use tract_core::{Applied, Blob, Store, StoreErrorKind, StoreExt, block_on};
use tract_store_sqlite::SqliteOptions;
use tract_testkit::fixtures::{erasing, storing};

use crate::common::*;

#[track_caller]
fn refused(path: &std::path::Path, options: &SqliteOptions) -> StoreErrorKind {
    tract_store_sqlite::open(path, options).expect_err("an error").kind
}

#[test]
fn no_file_is_no_store_and_none_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    assert_eq!(refused(&path, &SqliteOptions::default()), StoreErrorKind::NoStore);
    let reading = SqliteOptions { create: true, read_only: true, ..SqliteOptions::default() };
    assert_eq!(refused(&path, &reading), StoreErrorKind::NoStore);
    assert!(!path.exists());
    std::fs::write(&path, "").unwrap();
    assert_eq!(refused(&path, &SqliteOptions::default()), StoreErrorKind::NoStore);
    drop(create(&path));
    drop(create(&folder.path().join("new/folder/agent.db")));
}

#[test]
fn a_foreign_file_is_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { create: true, ..SqliteOptions::default() };
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "a text of another program, longer than a header of a database").unwrap();
    assert_eq!(refused(&text, &options), StoreErrorKind::NotAStore);
    assert!(std::fs::read_to_string(&text).unwrap().starts_with("a text"));

    let foreign = folder.path().join("foreign.db");
    let connection = rusqlite::Connection::open(&foreign).unwrap();
    connection.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(connection);
    let before = std::fs::read(&foreign).unwrap();
    assert_eq!(refused(&foreign, &options), StoreErrorKind::NotAStore);
    assert_eq!(std::fs::read(&foreign).unwrap(), before);

    // A true beginning and garbage after it.
    let torn = folder.path().join("torn.db");
    let mut bytes = b"SQLite format 3\0".to_vec();
    bytes.resize(8192, 0xa5);
    std::fs::write(&torn, &bytes).unwrap();
    assert_eq!(refused(&torn, &options), StoreErrorKind::NotAStore);
    assert_eq!(refused(folder.path(), &options), StoreErrorKind::NotAStore);
}

/// Makes a store, changes its file, and opens it.
#[track_caller]
fn refused_after(sql: &str) -> StoreErrorKind {
    let (_folder, path, store) = fresh();
    block_on(store.close()).unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    refused(&path, &SqliteOptions::default())
}

#[test]
fn a_newer_format_is_refused_whole() {
    let found = refused_after("PRAGMA user_version = 3");
    assert_eq!(found, StoreErrorKind::TooNew { found: 3, known: 2 });
}

#[test]
fn other_tables_are_damage() {
    let found = refused_after("DROP INDEX commits_h");
    assert_eq!(found, StoreErrorKind::Corrupt { object: None });
}

#[test]
fn read_only_reads_and_refuses_writes() {
    let (_folder, path, writer) = fresh();
    let line = append(&writer, "main", None, messages().take(3));
    let reader = tract_store_sqlite::open(
        &path,
        &SqliteOptions { read_only: true, ..SqliteOptions::default() },
    )
    .unwrap();
    assert!(reader.store().commits(&repo(), &line).unwrap().iter().all(Option::is_some));
    let (batch, _) = appending("main", line.last().copied(), "never");
    assert_eq!(apply(&reader, batch).unwrap_err().kind, StoreErrorKind::ReadOnly);
    // It sees what is written after it was opened.
    let more = append(&writer, "main", line.last().copied(), ["later".to_owned()]);
    assert!(reader.store().commits(&repo(), &more).unwrap().iter().all(Option::is_some));
}

#[test]
fn a_locked_database_is_busy_and_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    for mode in [WriteMode::Thread, WriteMode::InPlace] {
        let options = SqliteOptions {
            create: true,
            busy_timeout: Duration::from_millis(30),
            write_mode: mode,
            ..SqliteOptions::default()
        };
        let store = tract_store_sqlite::open(&path, &options).unwrap();
        let name = format!("{mode:?}");
        let line = append(&store, &name, None, messages().take(2));
        let other = rusqlite::Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (batch, head) = appending(&name, line.last().copied(), "waits");
        assert_eq!(apply(&store, batch.clone()).unwrap_err().kind, StoreErrorKind::Busy);
        assert_eq!(store.store().commits(&repo(), &[head]).unwrap(), [None]);
        assert!(store.store().commits(&repo(), &line).unwrap().iter().all(Option::is_some));
        other.execute_batch("ROLLBACK").unwrap();
        assert_eq!(apply(&store, batch).unwrap(), Applied::Done);
    }
}

#[test]
fn a_closed_store_refuses_everything() {
    let (folder, _, store) = fresh();
    append(&store, "main", None, messages().take(2));
    block_on(store.close()).unwrap();
    block_on(store.close()).unwrap();
    let closed = |error: tract_core::StoreError| {
        assert_eq!(error.kind, StoreErrorKind::Unavailable);
    };
    closed(apply(&store, batch("late")).unwrap_err());
    closed(store.store().repos().unwrap_err());
    closed(store.store().toolsets(&repo(), &[]).unwrap_err());
    // All of it is in the one file.
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(files.len(), 1, "{files:?}");
}

#[test]
fn the_faster_mode_says_that_it_is_not_durable() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        SqliteOptions { create: true, unsafe_lose_on_power_loss: true, ..SqliteOptions::default() };
    let store = tract_store_sqlite::open(folder.path().join("agent.db"), &options).unwrap();
    assert!(!store.capabilities().durable);
    assert!(create(&folder.path().join("other.db")).capabilities().durable);
}

/// Who closes waits for no reader, and keeps no writer out meanwhile.
#[test]
fn closing_does_not_wait_for_readers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let options = SqliteOptions {
        create: true,
        busy_timeout: Duration::from_secs(3600),
        ..SqliteOptions::default()
    };
    let store = tract_store_sqlite::open(&path, &options).unwrap();
    append(&store, "main", None, messages().take(2));
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM commits").unwrap();
    append(&store, "other", None, messages().take(2));
    let (closed, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || closed.send(block_on(store.close())));
    // With all the time that a busy machine may need: it would wait for an hour.
    let answer = wait.recv_timeout(Duration::from_secs(120)).expect("it waits for the reader");
    answer.unwrap();
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(create(&path).store().check(&repo(), false).unwrap(), []);
}

/// SQLite alone would drop acknowledged writes behind a flipped bit of its log in silence.
#[test]
fn a_flipped_bit_in_the_log_is_reported_once_and_the_log_is_kept() {
    let (folder, _, store) = fresh();
    let killed = folder.path().join("killed");
    std::fs::create_dir(&killed).unwrap();
    let line = append(&store, "main", None, messages().take(12));
    for name in ["agent.db", "agent.db-wal"] {
        std::fs::copy(folder.path().join(name), killed.join(name)).unwrap();
    }
    let log = killed.join("agent.db-wal");
    let mut bytes = std::fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&log, &bytes).unwrap();
    let path = killed.join("agent.db");
    let error = tract_store_sqlite::open(&path, &SqliteOptions::default()).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Corrupt { object: None });
    assert!(error.message.contains("acknowledged writes behind it"), "{error}");
    assert_eq!(std::fs::read(killed.join("agent.db-wal.damaged")).unwrap(), bytes);
    // It continues without what is lost, and the check says so until the copy is removed.
    let left = tract_store_sqlite::open(&path, &SqliteOptions::default()).unwrap();
    let found = left.store().commits(&repo(), &line).unwrap();
    let there = found.iter().filter(|commit| commit.is_some()).count();
    assert!(0 < there && there < line.len(), "{there} of {}", line.len());
    let damage = left.store().check(&repo(), false).unwrap();
    assert!(damage.len() == 1 && damage[0].what.contains("agent.db-wal.damaged"), "{damage:?}");
    std::fs::remove_file(killed.join("agent.db-wal.damaged")).unwrap();
    assert_eq!(left.store().check(&repo(), false).unwrap(), []);
}

#[test]
fn blobs_of_the_first_format_that_begin_like_compressed_ones_are_read() {
    let (_folder, path, store) = fresh();
    let bytes = |first: u8| [&[first, 0xD8, 0, 0xFF, 0xE0], "plain".as_bytes()].concat();
    let blobs: Vec<Blob> = (0xFBu8..=0xFF).map(|first| Blob::seal(bytes(first))).collect();
    assert_eq!(apply(&store, storing(blobs.clone())).unwrap(), Applied::Done);
    block_on(store.close()).unwrap();
    drop(store);
    // As format 1 has them.
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "UPDATE blobs SET data = substr(data, 2) WHERE substr(data, 1, 1) = x'FF'; \
             PRAGMA user_version = 1",
        )
        .unwrap();
    drop(connection);
    let store = tract_store_sqlite::open(&path, &SqliteOptions::default()).unwrap();
    for blob in &blobs {
        assert_eq!(block_on(store.blob(&repo(), blob.id())).unwrap().as_ref(), Some(blob));
    }
    assert_sound(&store);
}

/// A file that is no longer at its path would take writes until it is closed, and lose them; and a
/// reader that is opened later would read another file.
#[test]
#[cfg(unix)]
fn a_file_that_was_moved_takes_no_more_writes_until_it_is_back() {
    let (folder, path, store) = fresh();
    let away = tempfile::tempdir().unwrap();
    let (batch, first) = appending("main", None, "one");
    assert_eq!(apply(&store, batch).unwrap(), Applied::Done);
    let carry = |from: &std::path::Path, to: &std::path::Path| {
        for name in ["agent.db", "agent.db-wal", "agent.db-shm"] {
            std::fs::rename(from.join(name), to.join(name)).unwrap();
        }
    };
    carry(folder.path(), away.path());
    let (batch, second) = appending("main", Some(first), "two");
    let refused = || {
        let error = apply(&store, batch.clone()).unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::ReadOnly, "{error}");
        assert!(error.to_string().contains("was moved or deleted"), "{error}");
    };
    refused();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no file is made");
    // Another process makes a store there.
    drop(create(&path));
    refused();
    std::fs::read_dir(folder.path()).unwrap().for_each(|file| {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    });
    carry(away.path(), folder.path());
    assert_eq!(apply(&store, batch.clone()).unwrap(), Applied::Done);
    drop(store);
    let found = create(&path).store().commits(&repo(), &[first, second]).unwrap();
    assert!(found.iter().all(Option::is_some));
}

#[test]
fn the_last_reader_removes_erased_bytes_from_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let options = SqliteOptions {
        create: true,
        busy_timeout: Duration::from_millis(30),
        ..SqliteOptions::default()
    };
    let store = tract_store_sqlite::open(&path, &options).unwrap();
    let secret = "the erased words ".repeat(20);
    let texts = messages().take(50).chain([secret.clone()]).chain(messages().take(50));
    let line = append(&store, "main", None, texts);
    let blob = store.store().commits(&repo(), &line[50..51]).unwrap().remove(0).unwrap();
    let blob = blob.content.unwrap();
    let holding = || {
        let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
        let held = |file: &std::path::PathBuf| {
            let bytes = std::fs::read(file).unwrap();
            bytes.windows(16).any(|window| window == &secret.as_bytes()[..16])
        };
        files.filter(held).count()
    };
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").unwrap();
    assert_eq!(apply(&store, erasing(blob)).unwrap(), Applied::Done);
    let error = block_on(store.wipe()).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Busy);
    assert!(error.to_string().contains("until they close it"), "{error}");
    block_on(store.close()).unwrap();
    assert_ne!(holding(), 0, "the reader sees the store as it was");
    reader.execute_batch("ROLLBACK").unwrap();
    reader.close().unwrap();
    assert_eq!(holding(), 0);
    let store = reopen(&path);
    assert_eq!(store.check(&repo(), true).unwrap(), []);
}
