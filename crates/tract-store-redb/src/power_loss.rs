//! The loss of power at any moment: what was not flushed is on the disk or not, in any mixture.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{Database, StorageBackend};
use tract_core::store::{BlockingStore, Walk};
use tract_core::{Applied, Blob, CommitId, RefTarget, RepoName, StoreResult};
use tract_kv::KvStore;
use tract_testkit::fixtures::{appending, branch};
use tract_testkit::power::SeededRng;

use crate::engine::{File, RedbEngine};
use crate::{RedbOptions, RedbStore};

/// What was done to the disk.
#[derive(Clone, Debug)]
enum Step {
    Write(u64, Vec<u8>),
    Length(u64),
    Flush,
}

#[derive(Debug, Default)]
pub(crate) struct Tape {
    pub(crate) image: Vec<u8>,
    steps: Vec<Step>,
}

/// A disk that remembers all that was done to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<Tape>>);

impl Disk {
    pub(crate) fn holding(image: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(Tape { image, ..Tape::default() })))
    }

    pub(crate) fn tape(&self) -> MutexGuard<'_, Tape> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self, step: Step) {
        let mut tape = self.tape();
        carry_out(&mut tape.image, &step);
        tape.steps.push(step);
    }
}

fn carry_out(image: &mut Vec<u8>, step: &Step) {
    match step {
        Step::Write(offset, data) => {
            let at = *offset as usize;
            // Where the length was not yet made durable, there is nothing to write to.
            let reach = image.len().saturating_sub(at).min(data.len());
            if reach > 0 {
                image[at..at + reach].copy_from_slice(&data[..reach]);
            }
        }
        Step::Length(length) => image.resize(*length as usize, 0),
        Step::Flush => {}
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.tape().image.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let tape = self.tape();
        let from = tape.image.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.done(Step::Length(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.done(Step::Flush);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.done(Step::Write(offset, data.to_vec()));
        Ok(())
    }
}

/// Opens the store in a database that no file holds.
pub(crate) fn store_in(database: Database, quick_repair: bool) -> StoreResult<RedbStore> {
    let options = RedbOptions::new().quick_repair(quick_repair);
    KvStore::new(RedbEngine::new(PathBuf::new(), &options, File::Writable(database)))
}

fn open(disk: Disk, quick_repair: bool) -> RedbStore {
    let database = Database::builder()
        .set_cache_size(4 << 20)
        .create_with_backend(disk)
        .expect("redb opens what a loss of power left");
    store_in(database, quick_repair).expect("the store opens what a loss of power left")
}

/// Reads a branch whole and appends to it; gives the commits that were there, newest first.
pub(crate) fn read_and_continue(store: &RedbStore, what: &str) -> Vec<CommitId> {
    let repo = RepoName::default();
    let found = store.refs(&repo, &[branch("main")]).expect("refs can be read").swap_remove(0);
    let Some(found) = found else { return Vec::new() };
    let head = found.commit().unwrap_or_else(|| panic!("{what}: the branch points at {found:?}"));
    let page = store.walk(&repo, Walk::from(head)).expect("all of it is there");
    let keys: Vec<_> =
        page.steps.iter().filter_map(|step| Some(step.commit.content?.into())).collect();
    let contents = store.blobs(&repo, &keys).expect("contents can be read");
    assert!(contents.iter().all(Option::is_some), "{what}");
    let (batch, _) = appending("main", Some(head), "and on");
    assert!(matches!(store.apply_group(&[(repo, batch)])[..], [Ok(Applied::Done)]), "{what}");
    page.steps.iter().map(|step| step.commit.id()).collect()
}

fn nothing_acknowledged_is_lost(quick_repair: bool) {
    let disk = Disk::default();
    let store = open(disk.clone(), quick_repair);
    let begun = disk.tape().steps.len();
    let repo = RepoName::default();
    // After so many steps of the disk this head was acknowledged.
    let mut acks: Vec<(usize, Option<CommitId>)> = vec![(begun, None)];
    let texts = tract_testkit::data::recorded().swap_remove(0).messages;
    for text in texts.iter().cycle().take(60) {
        let parent = acks.last().and_then(|(_, head)| *head);
        let (batch, id) = appending("main", parent, &format!("{text} {}", acks.len()));
        let group = [(repo.clone(), batch)];
        assert!(matches!(store.apply_group(&group)[..], [Ok(Applied::Done)]));
        acks.push((disk.tape().steps.len(), Some(id)));
    }
    let steps = disk.tape().steps.clone();
    let flushes = steps.iter().filter(|step| matches!(step, Step::Flush)).count();
    assert!(flushes >= 2 * 60, "two phases, two flushes: {flushes} for 60 writes");

    let mut dice = SeededRng(if quick_repair { 3 } else { 5 });
    let mut in_flight = 0;
    let mut images = tract_testkit::rounds(1000, 20);
    for image in images.by_ref() {
        let cut = begun + dice.below(steps.len() - begun + 1);
        let flushed = steps[..cut].iter().rposition(|step| matches!(step, Step::Flush));
        let flushed = flushed.map_or(0, |at| at + 1);
        let mut bytes = Vec::new();
        steps[..flushed].iter().for_each(|step| carry_out(&mut bytes, step));
        for step in &steps[flushed..cut] {
            // Lost, there, or torn in the middle of a sector.
            match (dice.below(3), step) {
                (0, _) => {}
                (1, Step::Write(offset, data)) => {
                    let torn = data[..dice.below(data.len())].to_vec();
                    carry_out(&mut bytes, &Step::Write(*offset, torn));
                }
                _ => carry_out(&mut bytes, step),
            }
        }
        let after = acks.iter().rposition(|(at, _)| *at <= cut).expect("the first is before all");
        let acknowledged = acks[after].1;
        let next = acks.get(after + 1).and_then(|(_, head)| *head);

        let store = open(Disk::holding(bytes), quick_repair);
        let line = read_and_continue(&store, &format!("image {image}"));
        let found = line.first().copied();
        assert!(
            found == acknowledged || (found == next && next.is_some()),
            "image {image}, cut at {cut}: {found:?}, {acknowledged:?} was acknowledged"
        );
        in_flight += usize::from(found != acknowledged);
        assert_eq!(line.len(), after + usize::from(found != acknowledged));
    }
    let finding = format!(
        "{} images{}: 0 acknowledged lost, {in_flight} times the write in flight was there",
        images.done(),
        if quick_repair { "" } else { " without quick repair" },
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

/// Opening a file that was not closed walks all of it where that is to find out which pages are free:
/// not with quick repair, however large the file is.
#[test]
fn opening_after_a_kill_needs_no_walk_with_quick_repair() {
    for quick_repair in [true, false] {
        let disk = Disk::default();
        let store = open(disk.clone(), quick_repair);
        let mut parent = None;
        for n in 0..16 {
            let (mut batch, id) = appending("main", parent, &format!("head {n}"));
            let more = (0..200).map(|m| Blob::seal(format!("{n} {m} {}", "x".repeat(1000))));
            batch.blobs.extend(more);
            let done = store.apply_group(&[(RepoName::default(), batch)]);
            assert!(matches!(done[..], [Ok(Applied::Done)]));
            parent = Some(id);
        }
        // As it lies when the process is killed: nothing of it is closed.
        let image = disk.tape().image.clone();
        let walked = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&walked);
        let database = Database::builder()
            .set_repair_callback(move |_| seen.store(true, Ordering::Relaxed))
            .create_with_backend(Disk::holding(image))
            .expect("redb opens what a kill left");
        assert_eq!(walked.load(Ordering::Relaxed), !quick_repair);
        let again = store_in(database, quick_repair).expect("the store opens what a kill left");
        let found =
            again.refs(&RepoName::default(), &[branch("main")]).expect("refs").swap_remove(0);
        assert_eq!(found, parent.map(RefTarget::Commit));
    }
}
