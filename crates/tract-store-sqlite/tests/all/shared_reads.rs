//! Long lines, whose rows are read on several connections at once.

use std::path::PathBuf;
use std::thread;

use rusqlite::Connection;
use tract_core::store::{BlobKey, BlockingStore, Walk};
use tract_core::{BlobId, CommitId, ObjectId, Store, StoreErrorKind, StoreResult, block_on};
use tract_store_sqlite::SqliteStore;

use crate::common::*;

/// Far more rows than one thread reads alone.
const LONG: usize = 2_000;

struct Line {
    _folder: tempfile::TempDir,
    path: PathBuf,
    commits: Vec<CommitId>,
    contents: Vec<BlobId>,
}

fn stored() -> Line {
    let (folder, path, store) = fresh();
    let (mut batch, mut commits) = (batch("import"), Vec::new());
    for text in messages().take(LONG) {
        commits.push(push(&mut batch, commits.last().copied(), &text).id());
    }
    let contents = batch.blobs.iter().map(|blob| blob.id()).collect();
    batch.refs.push(advance("main", None, commits[LONG - 1]));
    let _ = apply(&store, batch).unwrap();
    block_on(store.close()).unwrap();
    Line { _folder: folder, path, commits, contents }
}

/// Walks the line and reads its contents; gives both, oldest first.
fn read(store: &SqliteStore, line: &Line) -> StoreResult<(Vec<CommitId>, Vec<BlobId>)> {
    let page = store.walk(&repo(), Walk::from(*line.commits.last().expect("a line")))?;
    let keys: Vec<BlobKey> = page
        .entries
        .iter()
        .map(|entry| BlobKey { id: entry.commit.content.expect("a message"), hint: entry.content })
        .collect();
    let blobs = store.blobs(&repo(), &keys)?;
    Ok((
        page.entries.iter().rev().map(|entry| entry.commit.id()).collect(),
        blobs.iter().rev().flatten().map(|blob| blob.id()).collect(),
    ))
}

/// Overwrites `rec` or `data` of the row of this place in the line, as a failing disk would.
fn damage(line: &Line, table: &str, column: &str, place: usize) {
    let sql = format!(
        "UPDATE {table} SET {column} = CAST(replace(hex({column}), '0', '1') AS BLOB) \
         WHERE id = (SELECT id FROM {table} ORDER BY id LIMIT 1 OFFSET {place})"
    );
    assert_eq!(Connection::open(&line.path).unwrap().execute(&sql, []).unwrap(), 1);
}

#[test]
fn more_readers_than_connections_read_the_same_line() {
    let line = stored();
    let store = reopen(&line.path);
    thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                for _ in 0..3 {
                    let (commits, contents) = read(&store, &line).unwrap();
                    assert!(commits == line.commits && contents == line.contents);
                }
            });
        }
    });
}

/// Damages one row of a line, and asserts that reading the line names the object.
#[track_caller]
fn assert_reported(table: &str, column: &str, place: usize, object: impl Fn(&Line) -> ObjectId) {
    let line = stored();
    damage(&line, table, column, place);
    let error = read(&reopen(&line.path), &line).unwrap_err();
    let object = Some(object(&line));
    assert_eq!(error.kind, StoreErrorKind::Corrupt { object }, "{table} {place}: {error}");
}

#[test]
fn a_damaged_commit_is_reported_wherever_it_is() {
    for place in [0, 1, 500, 1_000, 1_871, LONG - 2, LONG - 1] {
        assert_reported("commits", "rec", place, |line| ObjectId::Commit(line.commits[place]));
    }
}

#[test]
fn a_damaged_content_is_reported_wherever_it_is() {
    for place in [0, 500, 1_000, LONG - 1] {
        assert_reported("blobs", "data", place, |line| ObjectId::Blob(line.contents[place]));
    }
}

#[test]
fn a_line_with_gaps_is_walked_whole() {
    let line = stored();
    // Rows that lie elsewhere than next to their neighbors are found by their ids.
    let moved = Connection::open(&line.path).unwrap();
    for (place, to) in [(300, 11), (301, 12), (1_200, 13)] {
        let id: i64 = moved
            .query_row("SELECT id FROM commits ORDER BY id LIMIT 1 OFFSET ?1", [place + 3], |row| {
                row.get(0)
            })
            .unwrap();
        assert!(id > 100, "{id}");
        moved.execute("UPDATE commits SET id = ?2, content = ?1 WHERE id = ?1", [id, to]).unwrap();
    }
    let (commits, contents) = read(&reopen(&line.path), &line).unwrap();
    assert!(commits == line.commits && contents == line.contents);
}
