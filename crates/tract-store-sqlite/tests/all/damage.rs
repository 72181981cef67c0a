use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tract_core::store::{BlockingStore, Walk};
use tract_core::{
    Applied, Commit, CommitId, DerivedKind, ObjectId, RefTarget, Store, StoreErrorKind,
    StoreResult, block_on,
};
use tract_store_sqlite::SqliteStore;
use tract_testkit::fixtures::{push_with_tools, record, row, schemas, storing};

use crate::common::*;

struct Stored {
    _folder: tempfile::TempDir,
    path: PathBuf,
    line: Vec<CommitId>,
}

/// Stores a conversation with its tools and a derived row, and closes.
fn stored() -> Stored {
    let (folder, path, store) = fresh();
    let conversation = &conversations()[0];
    let tools: Vec<&str> = conversation.tools.iter().map(String::as_str).collect();
    let (tools, mut writing) = (schemas(&tools), batch("import"));
    let mut line: Vec<CommitId> = Vec::new();
    for text in &conversation.messages {
        line.push(push_with_tools(&mut writing, line.last().copied(), text, &tools).id());
    }
    writing.refs.push(advance("main", None, line[line.len() - 1]));
    writing.derived.push(row(DerivedKind::Snapshot, line[1], "a view"));
    assert_eq!(apply(&store, writing).unwrap(), Applied::Done);
    append(&store, "main", line.last().copied(), ["one more".to_owned()]);
    assert_sound(&store);
    block_on(store.close()).unwrap();
    Stored { _folder: folder, path, line }
}

fn sql(path: &Path, statement: &str) {
    let changed = Connection::open(path).unwrap().execute(statement, []).unwrap();
    assert!(changed > 0, "{statement} changes nothing");
}

/// Reads everything that can be read.
fn read_all(store: &SqliteStore, line: &[CommitId]) -> StoreResult<()> {
    let commits = store.commits(&repo(), line)?;
    let commits: Vec<Commit> = commits.into_iter().map(|commit| commit.expect("stored")).collect();
    let contents: Vec<_> =
        commits.iter().map(|commit| commit.content.expect("a message").into()).collect();
    assert!(store.blobs(&repo(), &contents)?.iter().all(Option::is_some));
    let page = store.walk(&repo(), Walk::from(*line.last().expect("a line")))?;
    assert_eq!(page.entries.len(), line.len());
    let toolset = commits[0].toolset.expect("tools");
    let toolsets = store.toolsets(&repo(), &[toolset])?;
    let entries = toolsets[0].as_ref().expect("stored").entries().to_vec();
    let schemas: Vec<_> = entries.iter().map(|entry| entry.schema.into()).collect();
    assert!(store.blobs(&repo(), &schemas)?.iter().all(Option::is_some));
    for entry in entries {
        let found = store.tools(&repo(), &[entry.tool])?;
        let definition = found[0].as_ref().expect("in the index");
        assert!(store.tools_by_name(&repo(), &definition.name)?.contains(definition));
    }
    store.list_refs(&repo(), "")?;
    store.ref_log(&repo(), &Default::default())?;
    Ok(())
}

/// Flips one bit in the middle of a stored value, as a failing disk would.
fn flip(path: &Path, table: &str, column: &str, id: i64) {
    let connection = Connection::open(path).unwrap();
    let sql = format!("SELECT {column} FROM {table} WHERE id = ?1");
    let mut data: Vec<u8> = connection.query_row(&sql, [id], |row| row.get(0)).unwrap();
    let middle = data.len() / 2;
    data[middle] ^= 0x10;
    let sql = format!("UPDATE {table} SET {column} = ?2 WHERE id = ?1");
    connection.execute(&sql, rusqlite::params![id, data]).unwrap();
}

fn ids(path: &Path, sql: &str) -> Vec<i64> {
    let connection = Connection::open(path).unwrap();
    let mut select = connection.prepare(sql).unwrap();
    select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Rows of commits and blobs are flipped in `tests/damage.rs` of the workspace.
#[test]
fn a_flipped_bit_in_any_small_row_is_an_error() {
    let stored = stored();
    read_all(&reopen(&stored.path), &stored.line).unwrap();
    let rows = ids(&stored.path, "SELECT id FROM small WHERE kind < 16");
    assert!(!rows.is_empty());
    let whole = std::fs::read(&stored.path).unwrap();
    for id in rows {
        flip(&stored.path, "small", "data", id);
        let error = read_all(&reopen(&stored.path), &stored.line).unwrap_err();
        assert!(matches!(error.kind, StoreErrorKind::Corrupt { .. }), "{id}: {error}");
        // The name of a repository: without it there is nothing to check.
        if let Ok(damage) = reopen(&stored.path).check(&repo(), false) {
            assert!(!damage.is_empty(), "{id}");
        }
        std::fs::write(&stored.path, &whole).unwrap();
    }
}

/// The index says that the commit is this repository's, its row that it is another's.
#[test]
fn a_row_that_changed_hands_is_corrupt_and_not_walked_round_for_ever() {
    let stored = stored();
    let (index, root, text): (String, i64, String) = Connection::open(&stored.path)
        .unwrap()
        .query_row(
            "SELECT name, rootpage, sql FROM sqlite_schema \
             WHERE type = 'index' AND tbl_name = 'commits' AND sql IS NOT NULL",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    // Each opens the file again, to see the present schema.
    let schema = |statement: &str| {
        let connection = Connection::open(&stored.path).unwrap();
        connection.execute_batch("PRAGMA writable_schema = ON").unwrap();
        connection.execute(statement, []).unwrap();
    };
    schema(&format!("DELETE FROM sqlite_schema WHERE name = '{index}'"));
    sql(&stored.path, "UPDATE commits SET repo = 9 WHERE id = (SELECT min(id) FROM commits)");
    schema(&format!(
        "INSERT INTO sqlite_schema VALUES ('index', '{index}', 'commits', {root}, '{text}')"
    ));
    let store = reopen(&stored.path);
    for head in [*stored.line.last().unwrap(), stored.line[0]] {
        let error = store.walk(&repo(), Walk::from(head)).unwrap_err();
        let object = Some(ObjectId::Commit(stored.line[0]));
        assert_eq!(error.kind, StoreErrorKind::Corrupt { object });
    }
    assert!(!store.check(&repo(), false).unwrap().is_empty());
}

#[test]
fn a_moved_row_is_not_a_silent_walk() {
    let stored = stored();
    // Two neighbors change places: every record is sound, their order is not.
    let rows = ids(&stored.path, "SELECT id FROM commits ORDER BY id LIMIT 5");
    let (one, two) = (rows[2], rows[3]);
    sql(&stored.path, &format!("UPDATE commits SET id = 1 WHERE id = {one}"));
    sql(&stored.path, &format!("UPDATE commits SET id = {one} WHERE id = {two}"));
    sql(&stored.path, &format!("UPDATE commits SET id = {two} WHERE id = 1"));
    let store = reopen(&stored.path);
    let page = store.walk(&repo(), Walk::from(*stored.line.last().unwrap())).unwrap();
    let walked: Vec<_> = page.entries.iter().rev().map(|entry| entry.commit.id()).collect();
    assert_eq!(walked, stored.line);
    read_all(&store, &stored.line).unwrap();
    let damage = store.check(&repo(), false).unwrap();
    assert!(damage.iter().any(|damage| damage.what.contains("first parent")), "{damage:?}");
}

#[test]
fn a_wrong_hint_costs_nothing_but_time() {
    let stored = stored();
    sql(
        &stored.path,
        "UPDATE commits SET content = 7 WHERE id = (SELECT max(id) - 2 FROM commits)",
    );
    let store = reopen(&stored.path);
    read_all(&store, &stored.line).unwrap();
    let damage = store.check(&repo(), false).unwrap();
    assert!(damage.len() == 1 && damage[0].derived, "{damage:?}");
    store.check(&repo(), true).unwrap();
    assert_eq!(store.check(&repo(), false).unwrap(), []);
}

#[test]
fn repair_rebuilds_the_tool_index() {
    let stored = stored();
    let index = |store: &SqliteStore| {
        let names = store.tool_names(&repo()).unwrap();
        names.iter().map(|name| store.tools_by_name(&repo(), name).unwrap()).collect::<Vec<_>>()
    };
    let before = index(&reopen(&stored.path));
    assert!(!before.is_empty());
    for planted in [
        "DELETE FROM small WHERE kind = 4",
        "DELETE FROM small WHERE kind = 5 AND id = (SELECT min(id) FROM small WHERE kind = 5)",
        "UPDATE small SET data = zeroblob(140) WHERE kind = 4",
        "UPDATE small SET key = key + 1 WHERE kind IN (4, 5)",
    ] {
        sql(&stored.path, planted);
        let store = reopen(&stored.path);
        let damage = store.check(&repo(), false).unwrap();
        assert!(!damage.is_empty() && damage.iter().all(|damage| damage.derived), "{damage:?}");
        store.check(&repo(), true).unwrap();
        assert_eq!(store.check(&repo(), false).unwrap(), [], "{planted}");
        assert_eq!(index(&store), before, "{planted}");
    }
}

#[test]
fn planted_faults_are_found() {
    for (planted, derived) in [
        ("UPDATE refs SET target = x'0102'", false),
        ("UPDATE refs SET name = 'heads/mine'", false),
        ("DELETE FROM refs", false),
        ("UPDATE ref_log SET at = at + 1 WHERE id = 1", false),
        ("UPDATE ref_log SET after = after - 1 WHERE id = 2", false),
        ("DELETE FROM ref_log WHERE id = 1", false),
        ("DELETE FROM ref_log WHERE id = 2", false),
        ("UPDATE small SET data = x'00' WHERE kind = 17", true),
        ("UPDATE small SET key = 3 WHERE kind = 17", true),
        (
            "UPDATE small SET data = x'00' WHERE kind = 2 AND id = (SELECT max(id) FROM small WHERE kind = 2)",
            false,
        ),
        ("UPDATE blobs SET h = h + 1 WHERE id = (SELECT min(id) FROM blobs)", true),
        ("UPDATE blobs SET h = h + 1", true),
        ("UPDATE commits SET h = h + 1 WHERE id = (SELECT min(id) FROM commits)", true),
        ("UPDATE commits SET h = h + 1", true),
        ("UPDATE small SET key = key + 1 WHERE kind = 3", true),
        (
            "INSERT INTO blobs SELECT (SELECT max(id) FROM blobs) + 1, repo, h + 1, data FROM blobs WHERE id = (SELECT min(id) FROM blobs)",
            true,
        ),
        (
            "INSERT INTO commits SELECT 1 << 40, repo, h + 1, content, rec FROM commits WHERE id = (SELECT min(id) FROM commits)",
            true,
        ),
        ("UPDATE small SET sum = sum + 1 WHERE kind = 3", true),
        (
            "INSERT INTO small SELECT 1000000, repo, kind, key, data, sum + 1 FROM small WHERE kind = 3",
            true,
        ),
    ] {
        let stored = stored();
        sql(&stored.path, planted);
        let damage = reopen(&stored.path).check(&repo(), false).unwrap();
        assert!(damage.iter().any(|damage| damage.derived == derived), "{planted}: {damage:?}");
        reopen(&stored.path).check(&repo(), true).unwrap();
        let left = reopen(&stored.path).check(&repo(), false).unwrap();
        assert_eq!(left.is_empty(), derived, "{planted}: {left:?}");
        if derived {
            read_all(&reopen(&stored.path), &stored.line).expect(planted);
        }
    }
}

#[test]
fn storing_a_damaged_blob_again_heals_it() {
    let stored = stored();
    let id = ids(&stored.path, "SELECT id FROM blobs WHERE id >> 32 > 1 ORDER BY id LIMIT 1")[0];
    flip(&stored.path, "blobs", "data", id);
    let (_, blob) = record(None, &conversations()[0].messages[0]);
    let store = create(&stored.path);
    assert!(store.store().blobs(&repo(), &[blob.id().into()]).is_err());
    assert_eq!(apply(&store, storing([blob])).unwrap(), Applied::Done);
    block_on(store.close()).unwrap();
    read_all(&reopen(&stored.path), &stored.line).unwrap();
}

#[test]
fn an_index_entry_above_the_last_commit_of_a_line_ends_a_walk_with_an_error() {
    let stored = stored();
    let connection = Connection::open(&stored.path).unwrap();
    let last = "(SELECT max(id) FROM commits)";
    connection.execute(&format!("UPDATE commits SET id = id + 5 WHERE id = {last}"), []).unwrap();
    drop(connection);
    // The index takes no part in what follows: its entry then leads five places too far.
    let define = |rows: &str| {
        let connection = Connection::open(&stored.path).unwrap();
        connection
            .execute_batch(&format!(
                "PRAGMA writable_schema = ON; UPDATE sqlite_master \
                 SET sql = 'CREATE INDEX commits_h ON commits (repo, h){rows}' \
                 WHERE name = 'commits_h'"
            ))
            .unwrap();
    };
    define(" WHERE 0");
    sql(&stored.path, &format!("UPDATE commits SET id = id - 5 WHERE id = {last}"));
    define("");
    let store = reopen(&stored.path);
    let heads = store.refs(&repo(), &[branch("main")]).unwrap();
    let [Some(RefTarget::Commit(head))] = heads[..] else {
        panic!("the branch has commits");
    };
    let walk = store.walk(&repo(), Walk::from(head)).map_err(|error| error.kind);
    assert!(matches!(walk, Err(StoreErrorKind::Corrupt { .. })), "{walk:?}");
}
