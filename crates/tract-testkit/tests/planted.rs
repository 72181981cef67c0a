//! Stores with planted faults that only crashes, the loss of power, damage or other processes show:
//! each must be caught by a tool that this crate offers.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tract_core::store::{Capabilities, ThreadedStore, WriteMode};
use tract_core::{RepoName, Store, StoreResult, block_on};
use tract_kv::{Durability, KvBatch, KvEngine, KvMap, KvOutcome, KvRead, KvStore};
use tract_testkit::crash::append;
use tract_testkit::damage::{ReachableObjects, flipped_bytes};
use tract_testkit::power::{Recorder, losses};
use tract_testkit::{Capability, Outcome, Suite, cases, rounds};

/// What is wrong with a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// Acknowledges without a flush, and claims to be durable.
    NeverFlushes,
    /// Keeps writes in memory until it is closed.
    WritesWhenClosed,
    /// Takes damage for the end of the journal.
    SwallowsDamage,
    /// Claims that several processes may use it, and reads it once.
    ReadsOnce,
}

enum Disk {
    Real(File),
    Recorded(Recorder),
}

impl Disk {
    fn write(&mut self, at: u64, bytes: &[u8]) -> StoreResult<()> {
        match self {
            Self::Recorded(recorder) => recorder.write("journal", at, bytes),
            Self::Real(file) => {
                file.seek(SeekFrom::Start(at))?;
                file.write_all(bytes)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> StoreResult<()> {
        match self {
            Self::Recorded(recorder) => recorder.flush("journal"),
            Self::Real(file) => file.sync_all()?,
        }
        Ok(())
    }
}

struct State {
    disk: Disk,
    map: Arc<KvMap>,
    end: u64,
    held: Vec<u8>,
}

/// A journal of batches in one file.
struct Journal {
    planted: Planted,
    state: Mutex<State>,
}

impl Journal {
    fn open(disk: Disk, bytes: &[u8], planted: Planted) -> StoreResult<Arc<dyn Store>> {
        let batches = match KvBatch::decode_all(bytes) {
            Err(_) if planted == Planted::SwallowsDamage => Vec::new(),
            batches => batches?,
        };
        let (mut map, mut end) = (KvMap::default(), 0);
        for batch in batches {
            batch.apply_to(&mut map);
            end += batch.encoded_len() as u64;
        }
        let state = State { disk, map: Arc::new(map), end, held: Vec::new() };
        let store = KvStore::new(Self { planted, state: Mutex::new(state) })?;
        Ok(Arc::new(ThreadedStore::new(store, WriteMode::InPlace)))
    }

    fn in_folder(folder: &Path, planted: Planted) -> StoreResult<Arc<dyn Store>> {
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false);
        let (mut file, mut bytes) = (file.open(folder.join("journal"))?, Vec::new());
        file.read_to_end(&mut bytes)?;
        Self::open(Disk::Real(file), &bytes, planted)
    }
}

impl KvEngine for Journal {
    const NAME: &'static str = "journal";

    fn read(&self) -> StoreResult<Box<dyn KvRead + '_>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Box::new(Arc::clone(&state.map)))
    }

    fn write(&self, batch: &KvBatch, _durability: Durability) -> StoreResult<KvOutcome> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        if let Some(conflict) = batch.check(&*state.map)? {
            return Ok(conflict);
        }
        let bytes = batch.encode();
        if self.planted == Planted::WritesWhenClosed {
            state.held.extend_from_slice(&bytes);
        } else {
            state.disk.write(state.end, &bytes)?;
            state.end += bytes.len() as u64;
            if self.planted != Planted::NeverFlushes {
                state.disk.flush()?;
            }
        }
        batch.apply_to(Arc::make_mut(&mut state.map));
        Ok(KvOutcome::Committed)
    }

    fn capabilities(&self) -> Capabilities {
        match self.planted {
            Planted::ReadsOnce => Capabilities::MANY_PROCESSES,
            _ => Capabilities::ONE_PROCESS,
        }
    }

    fn close(&self) -> StoreResult<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (end, held) = (state.end, std::mem::take(&mut state.held));
        state.disk.write(end, &held)?;
        state.disk.flush()
    }
}

/// The cases of the contract that a planted journal breaks.
fn broken(planted: Planted) -> Vec<&'static str> {
    let suite = Suite::new(move |folder: &Path| Journal::in_folder(folder, planted));
    let suite = match planted {
        Planted::ReadsOnce => suite,
        _ => suite.lacks([Capability::MultiProcess]),
    };
    let broken = |case: &tract_testkit::ContractCase| match case.run(&suite) {
        Outcome::Broken(how) => {
            println!("{}: {how}", case.name);
            Some(case.name)
        }
        Outcome::Kept | Outcome::Lacks(_) => None,
    };
    cases().iter().filter_map(broken).collect()
}

#[test]
fn the_contract_finds_nothing_wrong_with_a_sound_journal() {
    assert_eq!(broken(Planted::Nothing), [""; 0]);
}

#[test]
fn writes_that_wait_for_closing_are_caught_by_the_contract() {
    let broken = broken(Planted::WritesWhenClosed);
    assert!(broken.contains(&"acknowledged_writes_outlive_a_kill"), "{broken:?}");
}

#[test]
fn a_false_claim_of_many_processes_is_caught_by_the_contract() {
    let broken = broken(Planted::ReadsOnce);
    assert!(broken.contains(&"two_handles_are_one_store"), "{broken:?}");
    assert!(broken.contains(&"racing_handles_have_one_winner"), "{broken:?}");
}

/// Appends under a recorder, then cuts the power.
fn power_loss(planted: Planted) -> Result<usize, String> {
    let disk = Recorder::new();
    let open = |disk: &Recorder| {
        Journal::open(Disk::Recorded(disk.clone()), &disk.read("journal"), planted)
    };
    let (store, repo) = (open(&disk).expect("it opens"), RepoName::default());
    append(&*store, &repo, 0, 30, |id| disk.acknowledge(0, id)).expect("it is written");
    let mut images = rounds(500, 60);
    let lost = losses(&disk.tape(), &mut images, |image| open(&Recorder::holding(image)));
    lost.map(|losses| losses.images).map_err(|loss| loss.to_string())
}

#[test]
fn an_acknowledgment_without_a_flush_is_caught_by_the_loss_of_power() {
    assert!(power_loss(Planted::Nothing).expect("nothing is lost") >= 60);
    let lost = power_loss(Planted::NeverFlushes).expect_err("something is lost");
    assert!(lost.contains("power lost before step"), "{lost}");
}

#[test]
fn damage_that_is_swallowed_is_caught_by_flipped_bytes() {
    let flips = |planted: Planted| {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, repo) = (folder.path().join("journal"), RepoName::default());
        let store = Journal::in_folder(folder.path(), planted).expect("it opens");
        append(&*store, &repo, 0, 20, |_| {}).expect("it is written");
        let truth = ReachableObjects::of(&*store, &repo).expect("it is whole");
        // Damage in the last batch cannot be distinguished from one that a crash cut off.
        let mut last = tract_testkit::fixtures::batch("put");
        last.blobs.push(tract_core::Blob::seal("the last"));
        let _ = block_on(store.apply(&repo, last)).expect("it is written");
        block_on(store.close()).expect("it closes");
        let open = || Journal::in_folder(folder.path(), planted);
        let sound = |store: &Arc<dyn Store>| {
            block_on(store.check(&RepoName::default(), false)).is_ok_and(|found| found.is_empty())
        };
        flipped_bytes(&file, &truth, &mut rounds(200, 60), open, sound)
    };
    flips(Planted::Nothing).expect("no other data, and nothing missing in silence");
    flips(Planted::SwallowsDamage).expect_err("what is gone is gone in silence");
}

#[test]
fn dependencies_of_the_api_are_exported() {
    use tract_testkit::proptest::prelude::Strategy;
    use tract_testkit::proptest_state_machine::ReferenceStateMachine;
    fn names<M: ReferenceStateMachine, S: Strategy>() {}
    let _ = names::<tract_testkit::machine::StoreModel, tract_testkit::proptest::bool::Any>;
}
