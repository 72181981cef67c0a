//! Migrates a database to the newest format in numbered steps. A copy is made first, and all steps
//! are one transaction.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior};
use tract_core::store::{
    Ownership, copy_access, create_unfinished, format_copy_path, unfinished_copy_path,
};
use tract_core::{StoreErrorKind, StoreResult};

use crate::error::{engine, new};

/// A migration from one format to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Migration {
    /// The format before the step. The step leads to the next one.
    pub(crate) from: u32,
    /// The statements, run in the transaction of all steps.
    pub(crate) sql: &'static str,
}

/// All steps, in order.
pub(crate) const STEPS: &[Migration] = &[
    // Format 2 compresses blobs. Blobs that start like a compressed one are marked as plain.
    Migration {
        from: 1,
        sql: "UPDATE blobs SET data = CAST(x'FF' || data AS BLOB) \
              WHERE substr(data, 1, 1) IN (x'FD', x'FE', x'FF');",
    },
];

fn version(connection: &Connection) -> StoreResult<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(engine("migrate"))
}

/// Migrates a database to a format. First puts a copy of the file next to it, which is kept.
///
/// Returns the path of the copy; `None` if there was nothing to do.
pub(crate) fn upgrade(
    connection: &mut Connection,
    path: &Path,
    steps: &[Migration],
    to: u32,
) -> StoreResult<Option<PathBuf>> {
    let from = version(connection)?;
    if from == to {
        return Ok(None);
    }
    let way: Vec<Migration> =
        (from..to).map_while(|from| steps.iter().find(|step| step.from == from).copied()).collect();
    if way.len() != to.saturating_sub(from) as usize {
        let message = format!("expected a way from format {from} to {to}, found none");
        return Err(new(StoreErrorKind::Unsupported, "migrate", message));
    }
    let copy = copied(connection, path, from)?;
    let begun = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(engine("migrate"))?;
    // Another process may have migrated it first.
    if version(&begun)? == to {
        return Ok(Some(copy));
    }
    for step in way {
        begun
            .execute_batch(step.sql)
            .and_then(|()| begun.pragma_update(None, "user_version", step.from + 1))
            .map_err(engine("migrate"))?;
    }
    begun.commit().map_err(engine("migrate"))?;
    Ok(Some(copy))
}

/// Creates a complete and durable copy next to the file, unless one of that format exists.
fn copied(connection: &Connection, path: &Path, format: u32) -> StoreResult<PathBuf> {
    let copy = format_copy_path(path, format);
    if copy.exists() {
        return Ok(copy);
    }
    let part = unfinished_copy_path(path, format);
    let failed = |error: std::io::Error| {
        let message = format!("the copy {} cannot be made", part.display());
        new(StoreErrorKind::Unavailable, "migrate", message).with_source(error)
    };
    let name = part.to_str().ok_or_else(|| {
        new(StoreErrorKind::Unsupported, "migrate", "expected a path in UTF-8, found another")
    })?;
    // Locked until it is renamed, so that no other process removes it as a leftover.
    let locked = create_unfinished(&part).map_err(failed)?;
    // Before it has content: the copy of a private store is private.
    copy_access(&locked, path, Ownership::IfPermitted).map_err(failed)?;
    connection.execute("VACUUM INTO ?1", [name]).map_err(engine("migrate"))?;
    File::open(&part).and_then(|file| file.sync_all()).map_err(failed)?;
    std::fs::rename(&part, &copy).map_err(failed)?;
    if let Some(folder) = path.parent().and_then(|folder| File::open(folder).ok()) {
        let _ = folder.sync_all();
    }
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [Migration; 2] = [
        Migration { from: 2, sql: "UPDATE t SET a = a * 10; ALTER TABLE t ADD COLUMN b;" },
        Migration { from: 1, sql: "UPDATE t SET a = a + 1;" },
    ];

    fn database(folder: &Path) -> (PathBuf, Connection) {
        let path = folder.join("store.db");
        let connection = Connection::open(&path).expect("it opens");
        connection
            .execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1); PRAGMA user_version = 1;")
            .expect("it is made");
        (path, connection)
    }

    fn value(connection: &Connection) -> i64 {
        connection.query_row("SELECT a FROM t", [], |row| row.get(0)).expect("a value")
    }

    #[test]
    fn steps_go_in_order_and_leave_a_copy_of_what_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, mut connection) = database(folder.path());
        let copy = upgrade(&mut connection, &path, &GOOD, 3).expect("it goes").expect("a copy");
        assert_eq!((value(&connection), version(&connection).expect("a version")), (20, 3));
        let before = Connection::open(copy).expect("the copy opens");
        assert_eq!((value(&before), version(&before).expect("a version")), (1, 1));
        assert_eq!(upgrade(&mut connection, &path, &GOOD, 3).expect("again"), None);
        let left = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 2, "the store and its copy");
    }

    #[cfg(unix)]
    #[test]
    fn the_copy_of_a_private_store_is_private() {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
        let folder = tempfile::tempdir().expect("a folder");
        let (path, mut connection) = database(folder.path());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
        // Only root may give a file away; elsewhere the owner stays.
        let _ = chown(&path, Some(65534), Some(65534));
        let copy = upgrade(&mut connection, &path, &GOOD, 3).expect("it goes").expect("a copy");
        let rights = |path: &Path| {
            let file = std::fs::metadata(path).expect("a file");
            (file.mode() & 0o777, file.uid(), file.gid())
        };
        assert_eq!(rights(&copy), rights(&path));
        assert_eq!(rights(&copy).0, 0o600);
    }

    #[test]
    fn a_step_that_fails_takes_all_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, mut connection) = database(folder.path());
        let bad = [
            GOOD[1],
            Migration { from: 2, sql: "UPDATE t SET a = 7; INSERT INTO nowhere VALUES (1);" },
        ];
        upgrade(&mut connection, &path, &bad, 3).expect_err("there is no such table");
        assert_eq!((value(&connection), version(&connection).expect("a version")), (1, 1));
        // And can be tried again, with steps that work.
        upgrade(&mut connection, &path, &GOOD, 3).expect("it goes");
        assert_eq!(value(&connection), 20);
    }

    #[test]
    fn without_a_way_nothing_is_touched() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, mut connection) = database(folder.path());
        let error = upgrade(&mut connection, &path, &GOOD[..1], 3).expect_err("no first step");
        assert_eq!(error.kind, StoreErrorKind::Unsupported);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
        assert_eq!(value(&connection), 1);
    }
}
