//! Tests power loss at any moment: any subset of the unflushed writes may be on the disk.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{Database, StorageBackend};
use tract_core::store::{BlockingStore, OpenedFile, ThreadedStore};
use tract_core::{Applied, Blob, RefTarget, RepoName, Store, StoreResult};
use tract_kv::KvStore;
use tract_testkit::crash;
use tract_testkit::fixtures::{appending, branch};
use tract_testkit::power::{self, Act, Image, Recorder};

use crate::engine::{File, RedbEngine};
use crate::error::{contained, engine};
use crate::{RedbOptions, RedbStore};

const FILE: &str = "agent.redb";

/// A disk that records all operations on its one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Recorder);

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.with(FILE, |bytes| bytes.len() as u64))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.with(FILE, |bytes| {
            let from = bytes.get(offset as usize..offset as usize + out.len());
            out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(FILE, len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.flush(FILE);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(FILE, offset, data);
        Ok(())
    }
}

/// Opens the store in a database without a file.
fn store_in(database: Database, quick_repair: bool) -> StoreResult<RedbStore> {
    let options = RedbOptions { quick_repair, ..RedbOptions::default() };
    let opened = OpenedFile::new(PathBuf::new());
    KvStore::new(RedbEngine::new(&options, File::Writable(database, None), opened))
}

pub(crate) fn open(disk: impl StorageBackend, quick_repair: bool) -> StoreResult<RedbStore> {
    let mut builder = Database::builder();
    builder.set_cache_size(4 << 20);
    let made = contained("open", || builder.create_with_backend(disk).map_err(engine("open")));
    store_in(made?, quick_repair)
}

fn nothing_acknowledged_is_lost(quick_repair: bool) {
    let disk = Disk::default();
    let store = open(disk.clone(), quick_repair).expect("it opens");
    let (repo, mut parent) = (RepoName::default(), None);
    let texts = tract_testkit::data::recorded().swap_remove(0).messages;
    for (n, text) in texts.iter().cycle().take(60).enumerate() {
        let (batch, id) = appending("writer-0", parent, &format!("{text} {n}"));
        let group = [(repo.clone(), batch)];
        assert!(matches!(store.apply_group(&group)[..], [Ok(Applied::Done)]));
        disk.0.acknowledge(0, id);
        parent = Some(id);
    }
    let tape = disk.0.tape();
    let flushes = tape.steps.iter().filter(|step| step.act == Act::Flush).count();
    assert!(flushes >= 2 * 60, "two phases, two flushes: {flushes} for 60 writes");

    let folder = tempfile::tempdir().expect("a folder");
    let open = |image: &Image| {
        let place = folder.path().join(image.number().to_string());
        image.write_to(&place)?;
        let options = RedbOptions { quick_repair, ..RedbOptions::default() };
        let store: ThreadedStore<RedbStore> = crate::open(place.join(FILE), &options)?;
        // The surviving store accepts further writes.
        crash::append(&store, &repo, 1, 1, |_| {})?;
        Ok(Arc::new(store) as Arc<dyn Store>)
    };
    let losses = power::losses(&tape, &mut tract_testkit::rounds(1000, 20), open);
    let losses = losses.expect("nothing is lost");
    let finding = format!(
        "{} images{}: 0 acknowledged lost, {} times the write in flight was there",
        losses.images,
        if quick_repair { "" } else { " without quick repair" },
        losses.in_flight,
    );
    tract_testkit::figure("T2 loss of power", "redb", finding);
}

#[test]
fn a_loss_of_power_loses_nothing_acknowledged() {
    nothing_acknowledged_is_lost(true);
}

#[test]
fn a_loss_of_power_loses_nothing_acknowledged_without_quick_repair() {
    nothing_acknowledged_is_lost(false);
}

/// Opening a file that was not closed has to walk all of it to find the free pages, unless quick
/// repair is on.
#[test]
fn opening_after_a_kill_needs_no_walk_with_quick_repair() {
    for quick_repair in [true, false] {
        let disk = Disk::default();
        let store = open(disk.clone(), quick_repair).expect("it opens");
        let mut parent = None;
        for n in 0..16 {
            let (mut batch, id) = appending("main", parent, &format!("head {n}"));
            let more = (0..200).map(|m| Blob::seal(format!("{n} {m} {}", "x".repeat(1000))));
            batch.blobs.extend(more);
            let done = store.apply_group(&[(RepoName::default(), batch)]);
            assert!(matches!(done[..], [Ok(Applied::Done)]));
            parent = Some(id);
        }
        // The state after a kill: nothing is closed.
        let killed = Disk::default();
        killed.0.write(FILE, 0, &disk.0.read(FILE));
        let walked = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&walked);
        let database = Database::builder()
            .set_repair_callback(move |_| seen.store(true, Ordering::Relaxed))
            .create_with_backend(killed)
            .expect("redb opens what a kill left");
        assert_eq!(walked.load(Ordering::Relaxed), !quick_repair);
        let again = store_in(database, quick_repair).expect("the store opens what a kill left");
        let found =
            again.refs(&RepoName::default(), &[branch("main")]).expect("refs").swap_remove(0);
        assert_eq!(found, parent.map(RefTarget::Commit));
    }
}
