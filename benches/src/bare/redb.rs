//! redb alone.

use std::path::Path;

use super::{BareEngine, Outcome};
use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition, WriteTransaction};

/// redb writing as many bytes into the tables of a store, in one transaction of two phases, with as
/// much to be repaired from. Nothing is hashed, planned or checked: what it takes is what no store
/// on redb can be faster than.
pub(super) struct BareRedb {
    database: Database,
    content: Vec<u8>,
    record: Vec<u8>,
    next: u64,
}

// The names of the store's tables.
const COMMITS: &str = "tract-commits-1";
const BLOBS: &str = "tract-blobs-1";
const INDEX: &str = "tract-index-1";
const SMALL: &str = "tract-small-1";
const LOG: &str = "tract-log-1";

/// How much of the file the store keeps in memory.
const CACHE_BYTES: usize = 64 << 20;

fn definition(space: &str) -> TableDefinition<'_, &'static [u8], &'static [u8]> {
    TableDefinition::new(space)
}

type Opened<'t> = Table<'t, &'static [u8], &'static [u8]>;

fn opened<'t>(transaction: &'t WriteTransaction, space: &str) -> Outcome<Opened<'t>> {
    Ok(transaction.open_table(definition(space))?)
}

fn put(table: &mut Opened<'_>, key: &[u8], value: &[u8]) -> Outcome<()> {
    table.insert(key, value)?;
    Ok(())
}

fn place(segment: u64, n: u64) -> [u8; 8] {
    ((segment << 32) | n).to_be_bytes()
}

fn scatter(n: u64) -> [u8; 8] {
    super::scatter(n).to_be_bytes()
}

fn key(parts: &[&[u8]]) -> Vec<u8> {
    [&[1u8][..], &parts.concat()].concat()
}

/// The tables of a store, opened.
struct Tables<'t> {
    commits: Opened<'t>,
    blobs: Opened<'t>,
    index: Opened<'t>,
    small: Opened<'t>,
    log: Opened<'t>,
}

impl<'t> Tables<'t> {
    fn open(transaction: &'t WriteTransaction) -> Outcome<Self> {
        Ok(Self {
            commits: opened(transaction, COMMITS)?,
            blobs: opened(transaction, BLOBS)?,
            index: opened(transaction, INDEX)?,
            small: opened(transaction, SMALL)?,
            log: opened(transaction, LOG)?,
        })
    }
}

/// Writes that a ref moved.
fn moved(tables: &mut Tables<'_>, n: u64, segment: u8, name: &[u8]) -> Outcome<()> {
    let low = n.to_be_bytes()[7];
    put(&mut tables.small, &key(&[b"s"]), &[low; 36])?;
    put(&mut tables.small, &key(&[b"g", &[0, 0, 0, segment]]), &[low; 13])?;
    put(&mut tables.small, &key(&[b"r", name]), &[low; 41])?;
    put(&mut tables.log, &key(&[&n.to_be_bytes()]), &[low; 150])?;
    put(&mut tables.index, &key(&[b"l", &scatter(n ^ 0x55), &n.to_be_bytes()]), b"")
}

impl BareRedb {
    /// Makes a file for messages with contents and records of the given lengths in bytes.
    pub(super) fn create(path: &Path, content: usize, record: usize) -> Outcome<Self> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let database = builder.create(path)?;
        Ok(Self { database, content: vec![b'x'; content], record: vec![b'y'; record], next: 0 })
    }

    fn begin(&self) -> Outcome<WriteTransaction> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_two_phase_commit(true);
        transaction.set_quick_repair(true);
        Ok(transaction)
    }

    fn message(&self, tables: &mut Tables<'_>, n: u64, place: [u8; 8]) -> Outcome<()> {
        put(&mut tables.commits, &key(&[&place]), &self.record)?;
        put(&mut tables.blobs, &key(&[&place]), &self.content)?;
        put(&mut tables.index, &key(&[b"c", &scatter(n), &place]), b"")?;
        put(&mut tables.index, &key(&[b"b", &scatter(!n), &place]), b"")
    }
}

impl BareEngine for BareRedb {
    fn write(&mut self, messages: u64) -> Outcome<()> {
        let transaction = self.begin()?;
        {
            let mut tables = Tables::open(&transaction)?;
            for n in self.next..self.next + messages {
                self.message(&mut tables, n, place(1, n))?;
            }
            self.next += messages;
            moved(&mut tables, self.next, 1, b"heads/main")?;
        }
        Ok(transaction.commit()?)
    }

    fn write_branches(&mut self, branches: u64, in_all: u32) -> Outcome<()> {
        let transaction = self.begin()?;
        {
            let mut tables = Tables::open(&transaction)?;
            let in_all = u64::from(in_all);
            let next = self.next + branches;
            // In the order of their keys, as the store writes them.
            let mut branches: Vec<u64> = (self.next..next).collect();
            branches.sort_unstable_by_key(|n| n % in_all);
            for n in branches {
                let branch = n % in_all;
                self.message(&mut tables, n, place(branch + 1, n / in_all))?;
                let name = format!("heads/writer-{branch}");
                moved(&mut tables, n + 1, branch as u8 + 1, name.as_bytes())?;
            }
            self.next = next;
        }
        Ok(transaction.commit()?)
    }

    fn walk(&self, messages: u64) -> Outcome<u64> {
        let transaction = self.database.begin_read()?;
        let mut read = 0;
        let (from, to) = (self.next.saturating_sub(messages), self.next);
        let (from, to) = (key(&[&place(1, from)]), key(&[&place(1, to)]));
        for space in [COMMITS, BLOBS] {
            let table = transaction.open_table(definition(space))?;
            let range = ReadableTable::range(&table, from.as_slice()..to.as_slice());
            for entry in range?.rev() {
                let (_, value) = entry?;
                std::hint::black_box(tract_core::hash::blob(value.value()));
                read += 1;
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use redb::ReadableTableMetadata;

    use super::*;

    #[test]
    fn it_writes_what_it_is_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bare.redb");
        let mut bare = BareRedb::create(&path, 500, 120).expect("it is made");
        bare.write(1).expect("it is written");
        bare.write(100).expect("it is written");
        assert_eq!(bare.next, 101);
        assert_eq!(bare.walk(7).expect("it is read"), 14);
        assert_eq!(bare.walk(1000).expect("it is read"), 202);
        let read = bare.database.begin_read().expect("it can be read");
        let blobs = read.open_table(definition(BLOBS)).expect("a table");
        let key = key(&[&place(1, 100)]);
        let found = blobs.get(key.as_slice()).expect("it is read");
        assert_eq!(found.map(|value| value.value().len()), Some(500));
        drop(read);
        bare.write_branches(8, 16).expect("it is written");
        bare.write_branches(12, 16).expect("it is written");
        assert_eq!(bare.next, 121);
        let read = bare.database.begin_read().expect("it can be read");
        let logged = read.open_table(definition(LOG)).expect("a table");
        assert_eq!(logged.len().expect("it is counted"), 2 + 20);
    }
}
