//! A store on any engine of ordered keys.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::engine::NumberedRead;
use super::overlay::Overlay;
use super::read::{self, View};
use super::recent::{Recent, Stored};
use super::{Durability, KvEngine, KvOutcome, KvRead, MemoryEngine, Space, keys, migrate, write};
use tract_core::batch::{Applied, Batch, DerivedKind};
use tract_core::commit::Commit;
use tract_core::id::{CommitId, RepoName, ToolId, ToolsetId};
use tract_core::object::{Blob, IdPrefix, ObjectId, ToolDefinition, Toolset};
use tract_core::refs::{LogEntry, RefName, RefTarget};
use tract_core::store::{
    BlobKey, BlockingStore, Capabilities, Damage, JoinBatches, LogQuery, ObjectCopies,
    ObjectListing, ObjectPage, RepackPage, RepackStep, SpaceRelease, StoreError, StoreErrorKind,
    StoreResult, StoreStats, Sweep, SweepAnswer, ThreadedStore, Walk, WalkPage, WipeReport,
    WriteMode, WritePosition,
};

/// The format that this build writes, and the newest that it can read.
pub const FORMAT: u32 = 2;

/// Maximum number of attempts for a write while other handles on the same engine win the race.
const ATTEMPTS: usize = 64;

/// The number of the next opened store; 0 means unknown.
static OPENED: AtomicU64 = AtomicU64::new(1);

/// Interval between attempts to reopen the engine after the disk was full. Each may repair the
/// file.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);

/// A store on any engine of ordered keys: layout, walks, compare-and-swap of refs, group commit,
/// checks.
///
/// Writes are planned on a snapshot and compared by the engine before they are applied, so several
/// handles may write at the same time: the slower one conflicts and plans again. After a failed
/// write whose outcome is unknown the handle is poisoned. It must not write again, because a retry
/// could apply a write twice, and later writes could build on data that is lost at the next start.
pub struct KvStore<E> {
    engine: E,
    recent: Mutex<Recent>,
    /// The failed write after which the contents of the engine are unknown.
    failed_write: Mutex<Option<FailedWrite>>,
    /// Whether there is a failed write; readable without the lock.
    poisoned: AtomicBool,
    closed: AtomicBool,
    /// Distinguishes it from all other open stores.
    number: AtomicU64,
}

#[derive(Debug)]
struct FailedWrite {
    cause: String,
    /// Whether the disk was full. Only space was missing, so the engine can be reopened.
    was_full: bool,
    /// The time and error of the last attempt to reopen the engine.
    reopened: Option<(Instant, String)>,
}

impl<E: KvEngine> fmt::Debug for KvStore<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let poisoned = self.poisoned.load(Ordering::Acquire);
        f.debug_struct("KvStore")
            .field("engine", &E::NAME)
            .field("poisoned", &poisoned)
            .finish_non_exhaustive()
    }
}

impl KvStore<MemoryEngine> {
    pub(super) fn memory() -> Self {
        Self::new(MemoryEngine::new()).expect("an empty map takes the format")
    }
}

impl<E: KvEngine> KvStore<E> {
    /// Opens a store with a writer thread. An engine without keys becomes an empty store. A store
    /// of an earlier format is migrated, after a copy if the engine supports it.
    ///
    /// # Errors
    /// `TooNew` if a newer version wrote it, `NotAStore` if its keys are not a store's, or the
    /// engine's failure.
    pub fn open(engine: E) -> StoreResult<ThreadedStore<Self>> {
        Ok(ThreadedStore::new(Self::new(engine)?, WriteMode::default()))
    }

    /// Opens a store without a thread, for a [`ThreadedStore`] with other options or for blocking
    /// use.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn new(engine: E) -> StoreResult<Self> {
        migrate::migrate(&engine, migrate::STEPS, FORMAT)?;
        let (recent, failed_write) = (Mutex::default(), Mutex::default());
        let (poisoned, closed) = (AtomicBool::new(false), AtomicBool::new(false));
        let number = AtomicU64::new(OPENED.fetch_add(1, Ordering::Relaxed));
        Ok(Self { engine, recent, failed_write, poisoned, closed, number })
    }

    /// Returns the engine.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    fn error(&self, kind: StoreErrorKind, op: &'static str, message: &str) -> StoreError {
        StoreError::new(kind, E::NAME, op, message)
    }

    fn read(&self) -> StoreResult<NumberedRead<'_>> {
        let number = self.number.load(Ordering::Acquire);
        Ok(NumberedRead { read: self.engine.read()?, number })
    }

    fn check_open(&self, op: &'static str) -> StoreResult<()> {
        if self.closed.load(Ordering::Acquire) {
            Err(self.error(StoreErrorKind::Unavailable, op, "the store is closed"))
        } else {
            Ok(())
        }
    }

    fn failed_write(&self) -> MutexGuard<'_, Option<FailedWrite>> {
        self.failed_write.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reopens the engine after the disk was full, so that a long-running process continues once
    /// there is space. After other failures, writes that the system accepted may be lost, and the
    /// disk may fail again, so the handle stays poisoned.
    fn recover(&self, op: &'static str) -> StoreResult<()> {
        if !self.poisoned.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut failed = self.failed_write();
        let Some(write) = failed.as_mut().filter(|write| write.was_full) else { return Ok(()) };
        if write.reopened.as_ref().is_none_or(|(at, _)| at.elapsed() >= REOPEN_INTERVAL) {
            match self.engine.reopen() {
                Ok(true) => {
                    // A new number invalidates cached data that the failed write may have left.
                    self.number.store(OPENED.fetch_add(1, Ordering::Relaxed), Ordering::Release);
                    *failed = None;
                    self.poisoned.store(false, Ordering::Release);
                    return Ok(());
                }
                Ok(false) => return Ok(()),
                Err(error) => write.reopened = Some((Instant::now(), error.message)),
            }
        }
        let why = write.reopened.as_ref().map_or("", |(_, why)| why);
        let message = format!("the disk was full, and the store cannot be opened again: {why}");
        Err(self.error(StoreErrorKind::Full, op, &message))
    }

    fn check_writable(&self, op: &'static str) -> StoreResult<()> {
        self.check_open(op)?;
        self.recover(op)?;
        match &*self.failed_write() {
            Some(FailedWrite { cause, .. }) => {
                let message = format!("an earlier write failed to become durable: {cause}");
                Err(self.error(StoreErrorKind::Poisoned, op, &message))
            }
            None => Ok(()),
        }
    }

    /// Reads one repository in one snapshot; `None` if the repository does not exist.
    pub(super) fn with<T>(
        &self,
        op: &'static str,
        repo: &RepoName,
        reader: impl FnOnce(&View<'_>) -> StoreResult<T>,
    ) -> StoreResult<Option<T>> {
        self.check_open(op)?;
        self.recover(op)?;
        let read = self.read()?;
        match read::repo_number(&read, E::NAME, repo)? {
            Some(repo) => reader(&View { read: &read, repo, backend: E::NAME }).map(Some),
            None => Ok(None),
        }
    }

    /// Reads a value for each key, all in one snapshot.
    fn with_each<K, T>(
        &self,
        op: &'static str,
        repo: &RepoName,
        keys: &[K],
        reader: impl Fn(&View<'_>, &K) -> StoreResult<Option<T>>,
    ) -> StoreResult<Vec<Option<T>>> {
        let found =
            self.with(op, repo, |view| keys.iter().map(|key| reader(view, key)).collect())?;
        Ok(found.unwrap_or_else(|| keys.iter().map(|_| None).collect()))
    }

    /// Plans a write on a snapshot and writes it. Plans again if another writer was faster.
    pub(super) fn write<T>(
        &self,
        op: &'static str,
        mut plan: impl FnMut(&mut Overlay<'_>) -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.check_writable(op)?;
        for _ in 0..ATTEMPTS {
            let (planned, batch) = {
                let read = self.read()?;
                let mut overlay = Overlay::new(&read);
                let planned = plan(&mut overlay)?;
                (planned, overlay.into_batch())
            };
            if batch.writes.is_empty() {
                return Ok(planned);
            }
            match self.engine.write(&batch, Durability::Immediate) {
                Ok(KvOutcome::Committed) => return Ok(planned),
                Ok(KvOutcome::Conflict { .. }) => {}
                Err(error) => return Err(self.failed(op, error)),
            }
        }
        Err(self.outrun(op))
    }

    /// Writes a group and the batches that join it before it is durable. Plans again if another
    /// writer was faster. `joined` keeps the joined batches across attempts: they have left the
    /// queue, so they must be part of the next attempt and get their answers from it.
    fn write_group(
        &self,
        recent: &Recent,
        group: &[(RepoName, Batch)],
        joining: &mut JoinBatches<'_>,
        joined: &mut Vec<(RepoName, Batch)>,
    ) -> StoreResult<(Vec<StoreResult<Applied>>, Vec<Stored>)> {
        self.check_writable("apply")?;
        for _ in 0..ATTEMPTS {
            let (mut answers, mut stored) = (Vec::new(), Vec::new());
            let mut stage = |read: &dyn KvRead, batches: &[&[(RepoName, Batch)]]| {
                let mut overlay = Overlay::new(read);
                for (repo, batch) in batches.iter().copied().flatten() {
                    let overlay = &mut overlay;
                    let answer = write::apply(overlay, E::NAME, recent, repo, batch, &mut stored);
                    answers.push(answer);
                }
                overlay.into_batch()
            };
            // The snapshot is dropped before the engine writes.
            let batch = stage(&self.read()?, &[group, joined]);
            if batch.writes.is_empty() {
                return Ok((answers, stored));
            }
            let mut joining = |read: &dyn KvRead| {
                let arrived = joining();
                let batch = (!arrived.is_empty()).then(|| stage(read, &[&arrived]));
                joined.extend(arrived);
                batch
            };
            match self.engine.write_joined(&batch, Durability::Immediate, &mut joining) {
                Ok(KvOutcome::Committed) => return Ok((answers, stored)),
                Ok(KvOutcome::Conflict { .. }) => {}
                Err(error) => return Err(self.failed("apply", error)),
            }
        }
        Err(self.outrun("apply"))
    }

    fn outrun(&self, op: &'static str) -> StoreError {
        self.error(StoreErrorKind::Busy, op, "other writers came first, again and again")
    }

    /// Records a failed write and returns its error. Unless the engine reports that nothing was
    /// written, the outcome is unknown and the handle is poisoned.
    fn failed(&self, op: &'static str, error: StoreError) -> StoreError {
        use StoreErrorKind::{
            Busy, Corrupt, Full, Poisoned, ReadOnly, TooLarge, Unknown, Unsupported,
        };
        if matches!(error.kind, Busy | ReadOnly | TooLarge | Unsupported) {
            return error;
        }
        let was_full = error.kind == Full;
        let cause = error.message.clone();
        let write = FailedWrite { cause, was_full, reopened: None };
        // The first failure is the cause. Later ones only follow from it.
        self.failed_write().get_or_insert(write);
        self.poisoned.store(true, Ordering::Release);
        // A specific kind is more useful to the caller than `Unknown`.
        let kind = match &error.kind {
            Full | Corrupt { .. } | Poisoned => error.kind.clone(),
            _ => Unknown,
        };
        let message = format!("the write may have happened or not: {}", error.message);
        self.error(kind, op, &message).with_source(error)
    }
}

impl<E: KvEngine> BlockingStore for KvStore<E> {
    fn backend(&self) -> &'static str {
        E::NAME
    }

    fn capabilities(&self) -> Capabilities {
        let capabilities = self.engine.capabilities().collecting().erasing().restoring();
        capabilities.repacking(tract_compression::IS_AVAILABLE)
    }

    fn blobs(&self, repo: &RepoName, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>> {
        let found = self.with("blobs", repo, |view| view.blobs(keys))?;
        Ok(found.unwrap_or_else(|| vec![None; keys.len()]))
    }

    fn toolsets(&self, repo: &RepoName, ids: &[ToolsetId]) -> StoreResult<Vec<Option<Toolset>>> {
        self.with_each("toolsets", repo, ids, |view, id| view.toolset(*id))
    }

    fn resolve_prefix(
        &self,
        repo: &RepoName,
        prefix: &IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>> {
        let mut found =
            self.with("resolve_prefix", repo, |view| view.resolve(prefix))?.unwrap_or_default();
        found.truncate(limit);
        Ok(found)
    }

    fn commits(&self, repo: &RepoName, ids: &[CommitId]) -> StoreResult<Vec<Option<Commit>>> {
        let commit =
            |view: &View<'_>, id: &CommitId| Ok(view.commit(*id)?.map(|found| found.commit));
        self.with_each("commits", repo, ids, commit)
    }

    fn walk(&self, repo: &RepoName, walk: Walk) -> StoreResult<WalkPage> {
        match self.with("walk", repo, |view| view.walk(&walk))? {
            Some(page) => Ok(page),
            None if walk.until == Some(walk.head) => Ok(WalkPage::default()),
            None => Err(StoreError::missing(E::NAME, "walk", ObjectId::Commit(walk.head))),
        }
    }

    fn tools(&self, repo: &RepoName, ids: &[ToolId]) -> StoreResult<Vec<Option<ToolDefinition>>> {
        self.with_each("tools", repo, ids, |view, id| view.tool(*id))
    }

    fn tools_by_name(&self, repo: &RepoName, name: &str) -> StoreResult<Vec<ToolDefinition>> {
        Ok(self.with("tools_by_name", repo, |view| view.tools_by_name(name))?.unwrap_or_default())
    }

    fn tool_names(&self, repo: &RepoName) -> StoreResult<Vec<String>> {
        Ok(self.with("tool_names", repo, |view| view.tool_names())?.unwrap_or_default())
    }

    fn refs(&self, repo: &RepoName, names: &[RefName]) -> StoreResult<Vec<Option<RefTarget>>> {
        self.with_each("refs", repo, names, |view, name| view.ref_target(name))
    }

    fn list_refs(&self, repo: &RepoName, prefix: &str) -> StoreResult<Vec<(RefName, RefTarget)>> {
        Ok(self.with("list_refs", repo, |view| view.list_refs(prefix))?.unwrap_or_default())
    }

    fn ref_log(&self, repo: &RepoName, query: &LogQuery) -> StoreResult<Vec<LogEntry>> {
        Ok(self.with("ref_log", repo, |view| view.ref_log(query))?.unwrap_or_default())
    }

    fn derived(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
        commits: &[CommitId],
    ) -> StoreResult<Vec<Option<Bytes>>> {
        self.with_each("derived", repo, commits, |view, id| match view.commit(*id)? {
            Some(found) => view.read.get(Space::Small, &view.repo.derived(kind, found.place)),
            None => Ok(None),
        })
    }

    fn derived_commits(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
    ) -> StoreResult<Option<Vec<CommitId>>> {
        let listed = self.with("derived_commits", repo, |view| view.derived_commits(kind))?;
        Ok(Some(listed.unwrap_or_default()))
    }

    fn drop_derived(&self, repo: &RepoName) -> StoreResult<()> {
        self.write("drop_derived", |overlay| {
            let Some(repo) = read::repo_number(overlay, E::NAME, repo)? else { return Ok(()) };
            // Writes that add derived rows also change the counters, so they conflict with this
            // one.
            overlay.require(Space::Small, repo.state())?;
            for key in read::scan_keys(overlay, &repo.all_derived())? {
                overlay.delete(Space::Small, key);
            }
            Ok(())
        })
    }

    fn repos(&self) -> StoreResult<Vec<RepoName>> {
        self.check_open("repos")?;
        let skip = keys::repos().from.len();
        let mut names: Vec<RepoName> =
            read::collect(&*self.engine.read()?, &keys::repos(), |key, _| {
                RepoName::new(std::str::from_utf8(key.get(skip..)?).ok()?).ok()
            })?;
        names.sort();
        Ok(names)
    }

    fn stats(&self, repo: &RepoName) -> StoreResult<StoreStats> {
        let mut stats = self.with("stats", repo, |view| view.stats())?.unwrap_or_default();
        stats.disk_bytes = self.engine.disk_bytes()?;
        Ok(stats)
    }

    fn check(&self, repo: &RepoName, repair: bool) -> StoreResult<Vec<Damage>> {
        let mut damage = self.engine.check()?;
        damage.extend(self.with("check", repo, |view| view.check())?.unwrap_or_default());
        if repair && damage.iter().any(|damage| damage.derived) {
            self.repair(repo)?;
        }
        Ok(damage)
    }

    fn restore(&self, repo: &RepoName, copies: &ObjectCopies) -> StoreResult<Vec<ObjectId>> {
        self.restore_objects(repo, copies)
    }

    fn list_objects(&self, repo: &RepoName, listing: ObjectListing) -> StoreResult<ObjectPage> {
        Ok(self.with("list_objects", repo, |view| view.list(&listing))?.unwrap_or_default())
    }

    fn write_position(&self, repo: &RepoName) -> StoreResult<WritePosition> {
        Ok(self.with("write_position", repo, |view| view.position())?.unwrap_or_default())
    }

    fn sweep(&self, repo: &RepoName, sweep: &Sweep) -> StoreResult<SweepAnswer> {
        self.sweep_objects(repo, sweep)
    }

    fn release_space(&self) -> StoreResult<SpaceRelease> {
        self.check_writable("release_space")?;
        let before = self.engine.disk_bytes()?;
        let note = self.engine.release_space()?;
        Ok(SpaceRelease::new(before, self.engine.disk_bytes()?, note))
    }

    fn wipe(&self) -> StoreResult<WipeReport> {
        self.check_writable("wipe")?;
        for name in self.repos()? {
            self.remove_stale_dictionaries(&name)?;
        }
        self.engine.wipe()
    }

    fn repack(&self, repo: &RepoName, step: RepackStep) -> StoreResult<RepackPage> {
        self.check_writable("repack")?;
        self.repack_step(repo, step)
    }

    fn apply_group(&self, group: &[(RepoName, Batch)]) -> Vec<StoreResult<Applied>> {
        self.apply_joined(group, &mut Vec::new)
    }

    fn apply_joined(
        &self,
        group: &[(RepoName, Batch)],
        joining: &mut JoinBatches<'_>,
    ) -> Vec<StoreResult<Applied>> {
        // Held during the write. `ThreadedStore` has one writer at a time, so this lock is not
        // contended.
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut joined = Vec::new();
        let written = self.write_group(&recent, group, joining, &mut joined);
        match written {
            Ok((answers, stored)) => {
                // Only after the write is durable: a place of a write that failed would be handed
                // out again.
                recent.remember(stored);
                answers
            }
            // No batch of the group is known to be durable, so all get the error, even those that
            // would have been rejected.
            Err(error) => {
                let again = || self.error(error.kind.clone(), error.op, &error.message);
                let callers = group.len() + joined.len();
                let mut answers: Vec<_> = (1..callers).map(|_| Err(again())).collect();
                if callers > 0 {
                    answers.insert(0, Err(error));
                }
                answers
            }
        }
    }

    fn close(&self) -> StoreResult<()> {
        if self.closed.swap(true, Ordering::AcqRel) { Ok(()) } else { self.engine.close() }
    }
}
