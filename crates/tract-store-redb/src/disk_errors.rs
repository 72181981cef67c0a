//! The k-th access of the disk fails, for each k: an error and never a lie, and what was
//! acknowledged is there afterwards.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{Database, StorageBackend};
use tract_core::store::{BlockingStore, Walk};
use tract_core::{Applied, CommitId, RefTarget, RepoName, StoreErrorKind};
use tract_kv::KvStore;

use crate::engine::{File, RedbEngine};
use crate::error::{contained, engine};
use crate::power_loss::{appending, main};
use crate::{RedbOptions, RedbStore};

/// How the disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failing {
    /// One access fails, those after it work again.
    Once,
    /// Nothing works from then on.
    ForEver,
    /// Nothing that makes the file longer works from then on.
    Full,
}

#[derive(Debug)]
struct Inner {
    image: Vec<u8>,
    /// Accesses that write, so far.
    done: usize,
    /// Which of them fails, and how.
    fails: Option<(usize, Failing)>,
}

#[derive(Clone, Debug)]
struct Disk(Arc<Mutex<Inner>>);

impl Disk {
    fn new(image: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(Inner { image, done: 0, fails: None })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn access(&self, grows: impl FnOnce(&Inner) -> bool) -> io::Result<MutexGuard<'_, Inner>> {
        let mut inner = self.inner();
        let grows = grows(&inner);
        inner.done += 1;
        let done = inner.done;
        match inner.fails {
            Some((k, Failing::Once)) if done == k => Err(io::Error::other("the disk fails")),
            Some((k, Failing::ForEver)) if done >= k => Err(io::Error::other("the disk fails")),
            Some((k, Failing::Full)) if done >= k && grows => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(inner),
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.inner().image.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inner = self.inner();
        let from = inner.image.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut inner = self.access(|inner| len > inner.image.len() as u64)?;
        inner.image.resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.access(|_| false).map(drop)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut inner = self.access(|_| false)?;
        let at = offset as usize;
        let reach = inner.image.len().saturating_sub(at).min(data.len());
        if let (Some(to), Some(from)) = (inner.image.get_mut(at..at + reach), data.get(..reach)) {
            to.copy_from_slice(from);
        }
        Ok(())
    }
}

fn open(disk: Disk) -> tract_core::StoreResult<RedbStore> {
    let database = contained("open", || {
        let mut builder = Database::builder();
        builder.set_cache_size(4 << 20);
        builder.create_with_backend(disk).map_err(engine("open"))
    })?;
    KvStore::new(RedbEngine::new(PathBuf::new(), &RedbOptions::new(), File::Writable(database)))
}

/// Appends until the disk fails or so many are there; gives the commits that were acknowledged,
/// and the one that was not.
fn append(store: &RedbStore, many: usize, size: usize) -> (Vec<CommitId>, Option<CommitId>) {
    let (told, refused) = append_until(store, many, size);
    (told, refused.map(|(id, _)| id))
}

/// Appends, and says also why one was not acknowledged.
fn append_until(
    store: &RedbStore,
    many: usize,
    size: usize,
) -> (Vec<CommitId>, Option<(CommitId, StoreErrorKind)>) {
    let repo = RepoName::default();
    let mut told: Vec<CommitId> = Vec::new();
    for n in 0..many {
        let text = format!("{n} {}", "x".repeat(size));
        let (batch, id) = appending(told.last().copied(), &text);
        match &store.apply_group(&[(repo.clone(), batch)])[..] {
            [Ok(Applied::Done)] => told.push(id),
            [Ok(other)] => panic!("no other writer: {other:?}"),
            [Err(error)] => return (told, Some((id, error.kind.clone()))),
            others => panic!("one write, one answer: {others:?}"),
        }
    }
    (told, None)
}

/// Opens what is on the disk, which works again, and compares with what was acknowledged.
fn judge(disk: &Disk, told: &[CommitId], in_flight: Option<CommitId>, what: &str) {
    let image = disk.inner().image.clone();
    let store = open(Disk::new(image)).unwrap_or_else(|error| panic!("{what}: {error}"));
    let repo = RepoName::default();
    let found = store.refs(&repo, &[main()]).expect("refs can be read").swap_remove(0);
    let found = found.as_ref().and_then(RefTarget::commit);
    let fits = found == told.last().copied() || (in_flight.is_some() && found == in_flight);
    assert!(fits, "{what}: {found:?}, {:?} was acknowledged", told.last());
    let Some(head) = found else { return };
    let page = store.walk(&repo, Walk::from(head)).expect("all of it is there");
    assert_eq!(page.steps.len(), told.len() + usize::from(found != told.last().copied()), "{what}");
    let keys: Vec<_> =
        page.steps.iter().filter_map(|step| Some(step.commit.content?.into())).collect();
    let contents = store.blobs(&repo, &keys).expect("contents can be read");
    assert!(contents.iter().all(Option::is_some), "{what}");
    let (batch, _) = appending(found, "and on");
    assert!(matches!(store.apply_group(&[(repo, batch)])[..], [Ok(Applied::Done)]), "{what}");
}

const MESSAGES: usize = 8;
/// The access from which on nothing makes the file longer.
const DISKS_FULL: [usize; 3] = [40, 90, 160];

#[test]
fn the_kth_error_of_the_disk_is_reported_and_loses_nothing() {
    let disk = Disk::new(Vec::new());
    let (told, _) = append(&open(disk.clone()).expect("it opens"), MESSAGES, 300);
    assert_eq!(told.len(), MESSAGES);
    let accesses = disk.inner().done;
    let wanted = tract_testkit::scaled(accesses, 0.2, 30).clamp(1, accesses);
    let (mut refused, mut poisoned) = (0, 0);
    for k in (1..=accesses).step_by((accesses / wanted).max(1)) {
        for how in [Failing::Once, Failing::ForEver] {
            let what = format!("access {k} fails {how:?}");
            let disk = Disk::new(Vec::new());
            disk.inner().fails = Some((k, how));
            let opened = open(disk.clone());
            let Ok(store) = opened else {
                refused += 1;
                disk.inner().fails = None;
                // A file that was never made whole is made again.
                continue;
            };
            let (told, in_flight) = append(&store, MESSAGES, 300);
            if in_flight.is_some() {
                refused += 1;
                // The handle does not continue as if nothing had happened.
                let (batch, _) = appending(told.last().copied(), "after the error");
                let again = store.apply_group(&[(RepoName::default(), batch)]).swap_remove(0);
                let error = again.expect_err(&what);
                poisoned += usize::from(error.kind == StoreErrorKind::Poisoned);
            }
            drop(store);
            judge(&disk, &told, in_flight, &what);
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
        let disk = Disk::new(Vec::new());
        disk.inner().fails = Some((k, Failing::Full));
        let store = open(disk.clone()).expect("there is room for an empty file");
        let (told, in_flight) = append_until(&store, 400, 20_000);
        let (refused, kind) = in_flight.expect("400 messages of 20 kB do not fit");
        assert_eq!(kind, StoreErrorKind::Full, "the cause has its name");
        let (batch, _) = appending(told.last().copied(), "after the error");
        let again = store.apply_group(&[(RepoName::default(), batch)]).swap_remove(0);
        let again = again.expect_err("the handle takes no more writes");
        assert_eq!(again.kind, StoreErrorKind::Poisoned);
        assert!(again.message.contains("I/O error"), "it says what failed first: {again}");
        drop(store);
        judge(&disk, &told, Some(refused), &format!("full from access {k} on"));
    }
    let finding =
        format!("{} full disks: 0 half writes, each continues with room", DISKS_FULL.len());
    tract_testkit::figure("T4 full disk", "redb", finding);
}
