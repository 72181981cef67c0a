//! The floor of redb: the raw engine writing the same bytes into as many tables, in two phases,
//! one transaction, with as much to be repaired from. Nothing is hashed, planned or checked.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition};

use crate::floor::Sizes;

type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

const COMMITS: Definition = TableDefinition::new("commits");
const BLOBS: Definition = TableDefinition::new("blobs");
const INDEX: Definition = TableDefinition::new("index");
const SMALL: Definition = TableDefinition::new("small");
const LOG: Definition = TableDefinition::new("log");

pub(crate) struct RedbFloor {
    database: Database,
    sizes: Sizes,
    next: u64,
}

fn scatter(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).swap_bytes().to_be_bytes()
}

fn key(parts: &[&[u8]]) -> Vec<u8> {
    [&[1u8][..], &parts.concat()].concat()
}

fn place(n: u64) -> [u8; 8] {
    ((1 << 32) | n).to_be_bytes()
}

impl RedbFloor {
    pub(crate) fn open(folder: &Path, sizes: Sizes) -> Self {
        let database =
            Database::builder().set_cache_size(64 << 20).create(folder.join("floor.redb")).unwrap();
        Self { database, sizes, next: 0 }
    }

    /// Writes `count` messages in one durable transaction.
    pub(crate) fn write(&mut self, count: u64) {
        let (content, record) = (vec![b'x'; self.sizes.content], vec![b'y'; self.sizes.record]);
        let mut transaction = self.database.begin_write().unwrap();
        transaction.set_two_phase_commit(true);
        transaction.set_quick_repair(true);
        {
            type Open<'t> = Table<'t, &'static [u8], &'static [u8]>;
            let put = |table: &mut Open<'_>, key: Vec<u8>, value: &[u8]| {
                drop(table.insert(key.as_slice(), value).unwrap());
            };
            let mut commits = transaction.open_table(COMMITS).unwrap();
            let mut blobs = transaction.open_table(BLOBS).unwrap();
            let mut index = transaction.open_table(INDEX).unwrap();
            for n in self.next..self.next + count {
                put(&mut commits, key(&[&place(n)]), &record);
                put(&mut blobs, key(&[&place(n)]), &content);
                put(&mut index, key(&[b"c", &scatter(n), &place(n)]), b"");
                put(&mut index, key(&[b"b", &scatter(!n), &place(n)]), b"");
            }
            self.next += count;
            let n = self.next;
            let mut small = transaction.open_table(SMALL).unwrap();
            put(&mut small, key(&[b"s"]), &[n as u8; 36]);
            put(&mut small, key(&[b"g", &[0, 0, 0, 1]]), &[n as u8; 13]);
            put(&mut small, key(&[b"r", b"heads/main"]), &[n as u8; 41]);
            let mut log = transaction.open_table(LOG).unwrap();
            put(&mut log, key(&[&n.to_be_bytes()]), &[n as u8; 150]);
            put(&mut index, key(&[b"l", &scatter(n ^ 0x55), &n.to_be_bytes()]), b"");
        }
        transaction.commit().unwrap();
    }

    /// Reads and hashes the newest messages: records, then contents.
    pub(crate) fn walk(&self, count: u64) -> usize {
        let transaction = self.database.begin_read().unwrap();
        let mut read = 0;
        for table in [COMMITS, BLOBS] {
            let table = transaction.open_table(table).unwrap();
            let from = key(&[&place(self.next - count)]);
            let to = key(&[&place(self.next)]);
            let range = ReadableTable::range(&table, from.as_slice()..to.as_slice()).unwrap();
            for entry in range.rev() {
                let (_, value) = entry.unwrap();
                std::hint::black_box(tract_core::hash::blob(value.value()));
                read += 1;
            }
        }
        read
    }
}
