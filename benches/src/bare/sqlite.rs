//! SQLite alone.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, TransactionBehavior, params};
use tract_store_sqlite::SqliteOptions;

use super::{BareEngine, Outcome};

/// SQLite writing as many bytes into the tables and indexes of a store, with prepared statements,
/// one transaction and the store's own durability. Nothing is hashed, planned or checked: what it
/// takes is what no store on SQLite can be faster than.
#[derive(Debug)]
pub struct BareSqlite {
    connection: Connection,
    content: Vec<u8>,
    record: Vec<u8>,
    next: i64,
}

/// A time as the log keeps it, in microseconds since 1970.
const AT: i64 = 1_700_000_000_000_000;

fn scatter(n: i64) -> i64 {
    super::scatter(n as u64) as i64
}

/// A place as the store numbers it: segment in the upper half, position in the lower.
const fn place(segment: i64, position: i64) -> i64 {
    segment << 32 | position
}

impl BareSqlite {
    /// Makes a file for messages with contents and records of the given lengths in bytes.
    pub(super) fn create(path: &Path, content: usize, record: usize) -> Outcome<Self> {
        // The tables and indexes of a store, by making an empty one.
        drop(tract_store_sqlite::open(
            path,
            &SqliteOptions { create: true, ..SqliteOptions::default() },
        )?);
        let connection = Connection::open(path)?;
        // As the store sets up a connection that writes.
        connection.set_prepared_statement_cache_capacity(64);
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
             PRAGMA wal_autocheckpoint = 4000; PRAGMA temp_store = MEMORY; PRAGMA fullfsync = ON; \
             PRAGMA cell_size_check = ON; PRAGMA cache_size = -8000; \
             INSERT INTO refs VALUES (1, 'heads/main', x'00', 0);",
        )?;
        let (content, record) = (vec![b'x'; content], vec![b'y'; record]);
        Ok(Self { connection, content, record, next: 1 })
    }

    /// Reads all messages, as a compile must: records, newest first, then contents. Gives how many
    /// bytes it read.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn read(&self) -> Outcome<u64> {
        let mut read = 0;
        let rows = [
            "SELECT rec FROM commits ORDER BY id DESC LIMIT ?1",
            "SELECT data FROM blobs ORDER BY id LIMIT ?1",
        ];
        for sql in rows {
            self.each(sql, u64::MAX >> 1, |bytes| read += bytes.len() as u64)?;
        }
        Ok(read)
    }

    fn each(&self, sql: &str, limit: u64, mut visit: impl FnMut(&[u8])) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([i64::try_from(limit).unwrap_or(i64::MAX)])?;
        while let Some(row) = rows.next()? {
            visit(row.get_ref(0)?.as_blob()?);
        }
        Ok(())
    }
}

impl BareEngine for BareSqlite {
    fn write(&mut self, messages: u64) -> Outcome<()> {
        let writing = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let bare = Bare { writing: &writing, content: &self.content, record: &self.record };
        let mut at = 0;
        for _ in 0..messages {
            at = place(1, self.next);
            bare.message(self.next, at)?;
            self.next += 1;
        }
        bare.moved("heads/main", self.next, at + 1)?;
        Ok(writing.commit()?)
    }

    fn write_branches(&mut self, branches: u64, in_all: u32) -> Outcome<()> {
        let writing = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let bare = Bare { writing: &writing, content: &self.content, record: &self.record };
        for _ in 0..branches {
            let n = self.next;
            let (branch, position) = (n % i64::from(in_all), n / i64::from(in_all));
            let (name, at) = (format!("heads/writer-{branch}"), place(2 * branch + 2, position));
            bare.run("INSERT OR IGNORE INTO refs VALUES (1, ?1, x'00', 0)", params![name])?;
            bare.message(n, at)?;
            bare.moved(&name, n, at)?;
            self.next += 1;
        }
        Ok(writing.commit()?)
    }

    fn walk(&self, messages: u64) -> Outcome<u64> {
        let mut read = 0;
        let rows = [
            "SELECT rec FROM commits ORDER BY id DESC LIMIT ?1",
            "SELECT data FROM blobs ORDER BY id DESC LIMIT ?1",
        ];
        for sql in rows {
            self.each(sql, messages, |bytes| {
                std::hint::black_box(tract_core::hash::blob(bytes));
                read += 1;
            })?;
        }
        Ok(read)
    }
}

/// A transaction of the bare engine with its statements.
struct Bare<'a> {
    writing: &'a Connection,
    content: &'a [u8],
    record: &'a [u8],
}

impl Bare<'_> {
    fn run(&self, sql: &str, with: &[&dyn rusqlite::ToSql]) -> rusqlite::Result<()> {
        self.writing.prepare_cached(sql)?.execute(with).map(drop)
    }

    fn message(&self, n: i64, at: i64) -> rusqlite::Result<()> {
        let blob = "INSERT INTO blobs VALUES (?1, 1, ?2, ?3)";
        self.run(blob, params![at, scatter(n), self.content])?;
        let commit = "INSERT INTO commits VALUES (?1, 1, ?2, 0, ?3)";
        self.run(commit, params![at, scatter(!n), self.record])
    }

    fn moved(&self, name: &str, n: i64, to: i64) -> rusqlite::Result<()> {
        // Never the same twice: SQLite writes no page for a row that stays as it is.
        let mut target = [7; 33];
        target[1..9].copy_from_slice(&scatter(n).to_be_bytes());
        let refs = "UPDATE refs SET target = ?1, sum = ?2 WHERE repo = 1 AND name = ?3";
        self.run(refs, params![target, scatter(n + 5) >> 32, name])?;
        let log = "INSERT INTO ref_log \
                   VALUES (NULL, 1, 5, 1, ?1, ?2, ?3, NULL, 1, 2, NULL, NULL, ?4, ?5)";
        let (b1, b2, sum) = (scatter(n + 7), scatter(n + 9), scatter(n + 11) >> 32);
        self.run(log, params![to, b1, b2, AT + n, sum])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_writes_what_it_is_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bare.db");
        let mut bare = BareSqlite::create(&path, 500, 120).expect("it is made");
        bare.write(1).expect("it is written");
        bare.write(100).expect("it is written");
        let counts = |bare: &BareSqlite| {
            ["blobs", "commits", "ref_log", "refs"].map(|table| -> i64 {
                let sql = format!("SELECT count(*) FROM {table}");
                bare.connection.query_row(&sql, [], |row| row.get(0)).expect("a number")
            })
        };
        assert_eq!(counts(&bare), [101, 101, 2, 1]);
        bare.write_branches(8, 16).expect("it is written");
        bare.write_branches(12, 16).expect("it is written");
        assert_eq!(counts(&bare), [121, 121, 22, 17]);
        assert_eq!(bare.walk(7).expect("it is read"), 14);
        assert_eq!(bare.read().expect("it is read"), 121 * (500 + 120));
    }
}
