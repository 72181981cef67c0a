//! The bare engine, to measure the store against.

use std::path::Path;

use redb::Database;
use tract_core::StoreResult;
use tract_core::kv::{Durability, KvBatch, KvEngine, KvEntry, Space};

use crate::engine::{File, RedbEngine};
use crate::error::engine;

/// redb writing as many bytes into the tables of a store, in one transaction of two phases, with as
/// much to be repaired from. Nothing is hashed, planned or checked: what it takes is what no store
/// on redb can be faster than.
#[derive(Debug)]
pub struct BareRedb {
    engine: RedbEngine,
    content: Vec<u8>,
    record: Vec<u8>,
    next: u64,
}

fn scatter(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).swap_bytes().to_be_bytes()
}

fn key(parts: &[&[u8]]) -> Vec<u8> {
    [&[1u8][..], &parts.concat()].concat()
}

impl BareRedb {
    /// Makes a file for messages whose contents and records are so many bytes long.
    ///
    /// # Errors
    /// What redb says.
    pub fn create(path: &Path, content: usize, record: usize) -> StoreResult<Self> {
        let database = Database::create(path).map_err(engine("bench"))?;
        let engine = RedbEngine::new(path.to_owned(), true, File::Writable(database));
        Ok(Self { engine, content: vec![b'x'; content], record: vec![b'y'; record], next: 0 })
    }

    /// Writes messages in one durable transaction.
    ///
    /// # Errors
    /// What redb says.
    pub fn write(&mut self, messages: u64) -> StoreResult<()> {
        let mut batch = KvBatch::default();
        let mut put = |space, key: Vec<u8>, value: Vec<u8>| {
            let value = Some(value.into());
            batch.writes.push(KvEntry { space, key: key.into(), value });
        };
        let place = |n: u64| ((1u64 << 32) | n).to_be_bytes();
        for n in self.next..self.next + messages {
            put(Space::Commits, key(&[&place(n)]), self.record.clone());
            put(Space::Blobs, key(&[&place(n)]), self.content.clone());
            put(Space::Index, key(&[b"c", &scatter(n), &place(n)]), Vec::new());
            put(Space::Index, key(&[b"b", &scatter(!n), &place(n)]), Vec::new());
        }
        self.next += messages;
        let n = self.next;
        let low = n.to_be_bytes()[7];
        put(Space::Small, key(&[b"s"]), vec![low; 36]);
        put(Space::Small, key(&[b"g", &[0, 0, 0, 1]]), vec![low; 13]);
        put(Space::Small, key(&[b"r", b"heads/main"]), vec![low; 41]);
        put(Space::Log, key(&[&n.to_be_bytes()]), vec![low; 150]);
        put(Space::Index, key(&[b"l", &scatter(n ^ 0x55), &n.to_be_bytes()]), Vec::new());
        self.engine.write(&batch, Durability::Immediate).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_writes_what_it_is_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bare.redb");
        let mut bare = BareRedb::create(&path, 500, 120).expect("it is made");
        bare.write(1).expect("it is written");
        bare.write(100).expect("it is written");
        let read = bare.engine.read().expect("it can be read");
        let place = key(&[&((1u64 << 32) | 100).to_be_bytes()]);
        assert_eq!(read.get(Space::Blobs, &place).expect("it is read").map(|v| v.len()), Some(500));
        assert_eq!(read.get(Space::Commits, &place).expect("read").map(|v| v.len()), Some(120));
    }
}
