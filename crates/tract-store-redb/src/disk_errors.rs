//! Fails the k-th access of the disk, for each k. Each failure is reported, and acknowledged writes
//! are there afterwards.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;
use tract_core::store::BlockingStore;
use tract_core::{Applied, CommitId, RepoName, StoreErrorKind};
use tract_testkit::disk::DiskReport;
use tract_testkit::fixtures::appending;

use crate::RedbStore;
use crate::power_loss::{self, open};

/// The kind of failure of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failing {
    /// One access fails, those after it work again.
    Once,
    /// Nothing works from then on.
    ForEver,
    /// Nothing that makes the file longer works from then on.
    Full,
}

#[derive(Debug, Default)]
struct Accesses {
    /// Accesses that write, so far.
    done: usize,
    /// The access that fails, and the kind of failure.
    fails: Option<(usize, Failing)>,
}

/// A disk that fails.
#[derive(Clone, Debug, Default)]
struct Disk {
    disk: power_loss::Disk,
    accesses: Arc<Mutex<Accesses>>,
}

impl Disk {
    fn accesses(&self) -> MutexGuard<'_, Accesses> {
        self.accesses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn access(&self, grows: bool) -> io::Result<()> {
        let mut accesses = self.accesses();
        accesses.done += 1;
        let done = accesses.done;
        match accesses.fails {
            Some((k, Failing::Once)) if done == k => Err(io::Error::other("the disk fails")),
            Some((k, Failing::ForEver)) if done >= k => Err(io::Error::other("the disk fails")),
            Some((k, Failing::Full)) if done >= k && grows => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.access(len > self.disk.len()?)?;
        self.disk.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.access(false)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.access(false)?;
        self.disk.write(offset, data)
    }
}

/// Appends until the disk fails or `many` commits exist. Returns the acknowledged commits, and the
/// one that was not acknowledged with its error.
fn append(
    store: &RedbStore,
    many: usize,
    size: usize,
) -> (Vec<CommitId>, Option<(CommitId, StoreErrorKind)>) {
    let repo = RepoName::default();
    let mut acknowledged: Vec<CommitId> = Vec::new();
    for n in 0..many {
        let text = format!("{n} {}", "x".repeat(size));
        let (batch, id) = appending("main", acknowledged.last().copied(), &text);
        match &store.apply_group(&[(repo.clone(), batch)])[..] {
            [Ok(Applied::Done)] => acknowledged.push(id),
            [Ok(other)] => panic!("no other writer: {other:?}"),
            [Err(error)] => return (acknowledged, Some((id, error.kind.clone()))),
            others => panic!("one write, one answer: {others:?}"),
        }
    }
    (acknowledged, None)
}

/// Opens the disk, which works again, and compares its contents with the acknowledged commits.
fn judge(disk: &Disk, acknowledged: Vec<CommitId>, in_flight: Option<CommitId>, what: &str) {
    let store = open(disk.disk.clone(), true).unwrap_or_else(|error| panic!("{what}: {error}"));
    let requested = acknowledged.iter().copied().chain(in_flight).collect();
    DiskReport { acknowledged, requested, ..DiskReport::default() }.judge(&store, what);
}

const MESSAGES: usize = 8;
/// The access from which on nothing makes the file longer.
const DISKS_FULL: [usize; 3] = [40, 90, 160];

#[test]
fn the_kth_error_of_the_disk_is_reported_and_loses_nothing() {
    let disk = Disk::default();
    let (acknowledged, _) = append(&open(disk.clone(), true).expect("it opens"), MESSAGES, 300);
    assert_eq!(acknowledged.len(), MESSAGES);
    let accesses = disk.accesses().done;
    let wanted = tract_testkit::scaled(accesses, 0.2, 30).clamp(1, accesses);
    let (mut refused, mut poisoned) = (0, 0);
    for k in (1..=accesses).step_by((accesses / wanted).max(1)) {
        for how in [Failing::Once, Failing::ForEver] {
            let what = format!("access {k} fails {how:?}");
            let disk = Disk::default();
            disk.accesses().fails = Some((k, how));
            let opened = open(disk.clone(), true);
            let Ok(store) = opened else {
                refused += 1;
                disk.accesses().fails = None;
                // A file that was never made whole is made again.
                continue;
            };
            let (acknowledged, in_flight) = append(&store, MESSAGES, 300);
            if in_flight.is_some() {
                refused += 1;
                // The handle does not continue as if nothing had happened.
                let (batch, _) = appending("main", acknowledged.last().copied(), "after the error");
                let again = store.apply_group(&[(RepoName::default(), batch)]).swap_remove(0);
                let error = again.expect_err(&what);
                poisoned += usize::from(error.kind == StoreErrorKind::Poisoned);
            }
            drop(store);
            judge(&disk, acknowledged, in_flight.map(|(id, _)| id), &what);
        }
    }
    let finding = format!(
        "{} of {accesses} accesses failed, once and for ever: {refused} typed errors, {poisoned} \
         handles poisoned, 0 acknowledged lost",
        accesses.div_ceil((accesses / wanted).max(1))
    );
    tract_testkit::figure("T3 errors of the disk", "redb", finding);
    assert!(refused > wanted / 2 && poisoned > 0);
}

#[test]
fn a_full_disk_refuses_and_continues_when_there_is_room() {
    for k in DISKS_FULL {
        let disk = Disk::default();
        disk.accesses().fails = Some((k, Failing::Full));
        let store = open(disk.clone(), true).expect("there is room for an empty file");
        let (acknowledged, in_flight) = append(&store, 400, 20_000);
        let (refused, kind) = in_flight.expect("400 messages of 20 kB do not fit");
        assert_eq!(kind, StoreErrorKind::Full, "the cause has its name");
        let (batch, _) = appending("main", acknowledged.last().copied(), "after the error");
        let again = store.apply_group(&[(RepoName::default(), batch)]).swap_remove(0);
        let again = again.expect_err("the handle takes no more writes");
        assert_eq!(again.kind, StoreErrorKind::Poisoned);
        assert!(again.message.contains("I/O error"), "it says what failed first: {again}");
        drop(store);
        judge(&disk, acknowledged, Some(refused), &format!("full from access {k} on"));
    }
    let finding =
        format!("{} full disks: 0 half writes, each continues with room", DISKS_FULL.len());
    tract_testkit::figure("T4 full disk", "redb", finding);
}

/// A process that records for hours continues when there is space again.
#[test]
fn an_open_store_continues_after_a_full_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("agent.redb");
    let options = crate::RedbOptions { create: true, ..crate::RedbOptions::default() };
    let engine = crate::open::open_engine(&path, &options).expect("it opens");
    let store = RedbStore::new(engine).expect("a store");
    let (mut acknowledged, _) = append(&store, 3, 300);
    for round in 0..3 {
        store.engine().fill_disk();
        let repo = RepoName::default();
        let (batch, refused) = appending("main", acknowledged.last().copied(), "does not fit");
        let full = store.apply_group(&[(repo.clone(), batch)]).swap_remove(0);
        assert_eq!(full.expect_err("the disk is full").kind, StoreErrorKind::Full);
        // The file is opened again, which does not see what fills the disk in this test.
        let text = format!("with space {round}");
        let (batch, id) = appending("main", acknowledged.last().copied(), &text);
        let applied = store.apply_group(&[(repo.clone(), batch)]).swap_remove(0);
        assert!(matches!(applied, Ok(Applied::Done)), "{applied:?}");
        acknowledged.push(id);
        let found = store.commits(&repo, &[acknowledged[0], id, refused]).expect("it reads");
        let is_found: Vec<bool> = found.iter().map(Option::is_some).collect();
        assert_eq!(is_found, [true, true, false]);
    }
    assert!(tract_kv::KvEngine::check(store.engine()).expect("it checks").is_empty());
    store.close().expect("it closes");
    let engine = crate::open::open_engine(&path, &options).expect("it opens");
    let reopened = RedbStore::new(engine).expect("a store");
    let requested = acknowledged.clone();
    let report = DiskReport { requested, acknowledged, ..DiskReport::default() };
    report.judge(&reopened, "after full disks");
}

#[test]
fn a_wipe_on_a_full_disk_says_how_many_bytes_it_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("agent.redb");
    std::fs::write(&path, vec![0; 12_345]).expect("written");
    let error = |kind| crate::error::new(kind, "wipe", "no space left on device");
    let full = crate::engine::with_space_needed(error(StoreErrorKind::Full), &path);
    assert!(full.message.contains("make 12345 bytes free in "), "{full}");
    // Other errors have other causes.
    let busy = crate::engine::with_space_needed(error(StoreErrorKind::Busy), &path);
    assert_eq!(busy.message, "no space left on device");
}
