//! The floor: raw SQLite writing the same bytes into as many tables and indexes, with prepared
//! statements, one transaction, the same durability. Nothing is hashed, planned or checked.

use std::path::Path;

use rusqlite::{Connection, Result, params};

const TABLES: &str = "
    PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000;
    CREATE TABLE blobs (id INTEGER PRIMARY KEY, repo INTEGER, h INTEGER, data BLOB);
    CREATE INDEX blobs_h ON blobs (repo, h);
    CREATE TABLE commits (id INTEGER PRIMARY KEY, repo INTEGER, h INTEGER, content INTEGER, rec BLOB);
    CREATE INDEX commits_h ON commits (repo, h);
    CREATE TABLE refs (repo INTEGER, name TEXT, target BLOB, sum INTEGER, PRIMARY KEY (repo, name))
        WITHOUT ROWID;
    CREATE TABLE ref_log (id INTEGER PRIMARY KEY, ref INTEGER, kinds INTEGER, before INTEGER,
        after INTEGER, b1 INTEGER, b2 INTEGER, operation BLOB, what INTEGER, who INTEGER,
        why INTEGER, undoes INTEGER, at INTEGER, sum INTEGER);
    CREATE INDEX ref_log_batch ON ref_log (b1);
    CREATE TABLE segments (id INTEGER PRIMARY KEY, tip INTEGER);
    INSERT INTO segments VALUES (1, 0); INSERT INTO refs VALUES (1, 'heads/main', x'00', 0);";

/// What one message costs in bytes: its content, its record.
pub(crate) struct Sizes {
    pub(crate) content: usize,
    pub(crate) record: usize,
}

pub(crate) struct Floor {
    connection: Connection,
    sizes: Sizes,
    next: i64,
}

/// A number that looks like the first bytes of a hash.
fn scatter(n: i64) -> i64 {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64)
}

impl Floor {
    pub(crate) fn open(folder: &Path, sizes: Sizes) -> Result<Self> {
        let connection = Connection::open(folder.join("floor.db"))?;
        connection.execute_batch(TABLES)?;
        connection.set_prepared_statement_cache_capacity(32);
        Ok(Self { connection, sizes, next: 1 })
    }

    /// Writes `count` messages in one durable transaction.
    pub(crate) fn write(&mut self, count: usize) -> Result<()> {
        let (content, record) = (vec![b'x'; self.sizes.content], vec![b'y'; self.sizes.record]);
        let transaction =
            self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        for _ in 0..count {
            let n = self.next;
            self.next += 1;
            let run = |sql: &str, with: &[&dyn rusqlite::ToSql]| {
                transaction.prepare_cached(sql)?.execute(with).map(drop)
            };
            run("INSERT INTO blobs VALUES (?1, 1, ?2, ?3)", params![n, scatter(n), content])?;
            run("INSERT INTO commits VALUES (?1, 1, ?2, ?1, ?3)", params![n, scatter(!n), record])?;
        }
        let n = self.next - 1;
        let run = |sql: &str, with: &[&dyn rusqlite::ToSql]| {
            transaction.prepare_cached(sql)?.execute(with).map(drop)
        };
        run("UPDATE segments SET tip = ?1 WHERE id = 1", params![n])?;
        run(
            "UPDATE refs SET target = ?1 WHERE repo = 1 AND name = 'heads/main'",
            params![[7u8; 33]],
        )?;
        run(
            "INSERT INTO ref_log VALUES (NULL, 1, 17, ?1, ?2, ?3, ?4, ?5, 1, 2, NULL, NULL, ?6, 9)",
            params![
                n - 1,
                n,
                scatter(n + 7),
                scatter(n + 9),
                [1u8; 16],
                1_763_764_800_000_000_i64 + n
            ],
        )?;
        transaction.commit()
    }

    /// Reads and hashes the newest messages: records, then contents. Gives how many rows it read.
    pub(crate) fn walk(&self, count: usize) -> Result<usize> {
        let mut read = 0;
        for sql in [
            "SELECT rec FROM commits ORDER BY id DESC LIMIT ?1",
            "SELECT data FROM blobs ORDER BY id DESC LIMIT ?1",
        ] {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query([count as i64])?;
            while let Some(row) = rows.next()? {
                std::hint::black_box(tract_core::hash::blob(row.get_ref(0)?.as_blob()?));
                read += 1;
            }
        }
        Ok(read)
    }

    /// Reads all messages, newest first, as a compile must: records, then contents.
    pub(crate) fn read(&self) -> Result<usize> {
        let mut bytes = 0;
        for sql in
            ["SELECT rec FROM commits ORDER BY id DESC", "SELECT data FROM blobs ORDER BY id"]
        {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                bytes += row.get_ref(0)?.as_blob()?.len();
            }
        }
        Ok(bytes)
    }
}
