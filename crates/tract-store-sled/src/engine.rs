//! A sled tree as an engine of ordered keys.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use bytes::Bytes;
use sled::{Db, Tree};
use tract_core::store::{Capabilities, Damage, OpenedFile, WipeReport, remove_copies};
use tract_core::{StoreError, StoreErrorKind, StoreResult};
use tract_kv::{
    Durability, KvBatch, KvEngine, KvEntry, KvOutcome, KvRead, Scan, Space, Visit, files,
};

use crate::copy;
use crate::error::{BACKEND, contained, engine, io, new};
use crate::flush::Flush;

/// The opened folder. All spaces are in one tree, because sled's batches are only atomic within a
/// tree.
pub(crate) struct Folder {
    pub(crate) config: sled::Config,
    pub(crate) db: Db,
    pub(crate) tree: Tree,
    pub(crate) flush: Flush,
}

/// Time limit for sled to release a folder when it is closed after a failed write.
const RELEASE: Duration = Duration::from_secs(2);

/// Interval at which a flush checks whether a concurrent write failed.
const WAKE: Duration = Duration::from_millis(200);

/// The state of a handle.
enum State {
    Open(Folder),
    /// A write failed: sled's memory may contain half a batch, and a flush may never return.
    Failed {
        cause: String,
        folder: Folder,
    },
    Closed,
}

impl State {
    fn folder(&self, op: &'static str) -> StoreResult<&Folder> {
        match self {
            Self::Open(folder) => Ok(folder),
            Self::Failed { cause, .. } => Err(failed(op, cause)),
            Self::Closed => Err(files::closed(BACKEND, op)),
        }
    }
}

/// A sled folder. [`open`](crate::open) creates a store from it.
pub struct SledEngine {
    path: PathBuf,
    /// The log file in the folder.
    log: OpenedFile,
    /// sled does not offer snapshots, so a write excludes all readers.
    state: RwLock<State>,
}

impl fmt::Debug for SledEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledEngine").field("path", &self.path).finish_non_exhaustive()
    }
}

fn failed(op: &'static str, cause: &str) -> StoreError {
    let message = format!("an earlier write failed, what is in memory may be half of it: {cause}");
    new(StoreErrorKind::Poisoned, op, message)
}

/// Drops a folder whose last write failed, on a separate thread. sled 0.34 flushes when it is
/// dropped, and that never returns if sled gave up on a write halfway.
fn release(folder: Folder) -> StoreResult<()> {
    let (done, dropped) = mpsc::channel();
    let drop_folder = move || {
        let _ = contained("close", || {
            drop(folder);
            Ok(())
        });
        let _ = done.send(());
    };
    let started =
        std::thread::Builder::new().name("tract-sled-close".to_owned()).spawn(drop_folder);
    started.map_err(io("close"))?;
    match dropped.recv_timeout(RELEASE) {
        Ok(()) | Err(RecvTimeoutError::Disconnected) => Ok(()),
        Err(RecvTimeoutError::Timeout) => {
            let message = "sled waits for the write that failed: its folder stays locked until this \
                           process ends";
            Err(new(StoreErrorKind::Unavailable, "close", message))
        }
    }
}

impl SledEngine {
    pub(crate) fn new(path: PathBuf, folder: Folder) -> Self {
        let log = OpenedFile::new(path.join("db"));
        Self { path, log, state: RwLock::new(State::Open(folder)) }
    }

    /// Returns the absolute path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        // Panics of sled are caught before they reach the lock.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prefixes a key with the number of its space.
fn keyed(space: Space, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + key.len());
    out.push(space.number());
    out.extend_from_slice(key);
    out
}

struct Snapshot<'a> {
    tree: Tree,
    /// `None` if the state is locked for a write.
    _state: Option<RwLockReadGuard<'a, State>>,
}

impl KvRead for Snapshot<'_> {
    fn get(&self, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>> {
        contained("read", || {
            let found = self.tree.get(keyed(space, key)).map_err(engine("read"))?;
            Ok(found.map(|value| Bytes::copy_from_slice(&value)))
        })
    }

    fn scan(&self, scan: &Scan, visit: &mut Visit<'_>) -> StoreResult<()> {
        if scan.is_empty() {
            return Ok(());
        }
        let from = keyed(scan.space, &scan.from);
        let to = match &scan.to {
            Some(to) => keyed(scan.space, to),
            None => vec![scan.space.number() + 1],
        };
        contained("read", || {
            let mut range = self.tree.range(from..to);
            loop {
                let next = if scan.reverse { range.next_back() } else { range.next() };
                let Some((key, value)) = next.transpose().map_err(engine("read"))? else {
                    return Ok(());
                };
                if visit(key.get(1..).unwrap_or_default(), &value)?.is_break() {
                    return Ok(());
                }
            }
        })
    }
}

impl KvEngine for SledEngine {
    const NAME: &'static str = BACKEND;

    fn capabilities(&self) -> Capabilities {
        Capabilities::ONE_PROCESS
    }

    fn read(&self) -> StoreResult<Box<dyn KvRead + '_>> {
        let state = self.state();
        // sled does not offer snapshots. The lock keeps writers away until the reader is dropped.
        let tree = state.folder("read")?.tree.clone();
        Ok(Box::new(Snapshot { tree, _state: Some(state) }))
    }

    fn write(&self, batch: &KvBatch, durability: Durability) -> StoreResult<KvOutcome> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        self.log.require_writable(BACKEND, "apply")?;
        // The write lock is held until the batch is applied, so the check below still holds then.
        let tree = state.folder("apply")?.tree.clone();
        if let Some(conflict) = batch.check(&Snapshot { tree, _state: None })? {
            return Ok(conflict);
        }
        let State::Open(mut folder) = std::mem::replace(&mut *state, State::Closed) else {
            return Err(files::closed(BACKEND, "apply"));
        };
        match contained("apply", || put(&mut folder, batch, durability))
            .map_err(files::at(&self.path))
        {
            Ok(()) => {
                *state = State::Open(folder);
                Ok(KvOutcome::Committed)
            }
            Err(mut error) => {
                // Some kinds mean that nothing was written, which is unknown here.
                if error.kind == StoreErrorKind::ReadOnly {
                    error.kind = StoreErrorKind::Engine;
                }
                *state = State::Failed { cause: error.message.clone(), folder };
                Err(error)
            }
        }
    }

    fn release_space(&self) -> StoreResult<Option<String>> {
        let note = "sled uses free space again, and does not give it back to the file system";
        Ok(Some(note.to_owned()))
    }

    fn wipe(&self) -> StoreResult<WipeReport> {
        let remains = "sled keeps what is deleted in its files until it writes over it, and cannot be \
                       made to: `tract copy` to a new store and delete this one";
        let mut report = remove_copies(&self.path);
        report.remains.push(remains.to_owned());
        Ok(report)
    }

    fn disk_bytes(&self) -> StoreResult<u64> {
        self.state().folder("stats")?.db.size_on_disk().map_err(engine("stats"))
    }

    fn check(&self) -> StoreResult<Vec<Damage>> {
        let state = self.state();
        let tree = &state.folder("check")?.tree;
        match contained("check", || tree.verify_integrity().map_err(engine("check"))) {
            Ok(()) => Ok(Vec::new()),
            Err(error) if matches!(error.kind, StoreErrorKind::Corrupt { .. }) => {
                Ok(vec![Damage { object: None, what: error.message, derived: false }])
            }
            Err(error) => Err(error),
        }
    }

    fn keep_copy(&self, format: u32) -> StoreResult<()> {
        let state = self.state();
        let tree = &state.folder("migrate")?.tree;
        contained("migrate", || copy::keep(&self.path, tree, format))
    }

    fn close(&self) -> StoreResult<()> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Closed) {
            State::Open(mut folder) => contained("close", || {
                flush(&mut folder, "close")?;
                drop(folder);
                Ok(())
            }),
            State::Failed { folder, .. } => release(folder),
            State::Closed => Ok(()),
        }
    }
}

fn put(folder: &mut Folder, batch: &KvBatch, durability: Durability) -> StoreResult<()> {
    let mut writes = sled::Batch::default();
    for KvEntry { space, key, value } in &batch.writes {
        match value {
            Some(value) => writes.insert(keyed(*space, key), &**value),
            None => writes.remove(keyed(*space, key)),
        }
    }
    folder.tree.apply_batch(writes).map_err(engine("apply"))?;
    if durability == Durability::Immediate {
        flush(folder, "apply")?;
    }
    Ok(())
}

/// Flushes all writes to disk.
fn flush(folder: &mut Folder, op: &'static str) -> StoreResult<()> {
    let Folder { config, db, flush, .. } = folder;
    let (config, db) = (&*config, &*db);
    let (flushed, flushing) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        // sled 0.34 does not always wake threads that wait for a failed write. Another flush does.
        let wake = move || {
            while let Err(RecvTimeoutError::Timeout) = flushing.recv_timeout(WAKE) {
                if config.global_error().is_err() {
                    let _ = db.flush();
                }
            }
        };
        // If the thread cannot be started, the flush works without it.
        let _ = std::thread::Builder::new().spawn_scoped(scope, wake);
        let done = db.flush().map_err(engine(op));
        drop(flushed);
        done
    })?;
    flush.sync().map_err(io(op))
}

impl Drop for SledEngine {
    fn drop(&mut self) {
        // Dropping a database writes to its files. With damaged files that must not panic, so close
        // it first.
        let _ = self.close();
    }
}
