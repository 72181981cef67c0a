//! A sled tree as an engine of ordered keys.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use bytes::Bytes;
use sled::{Db, Tree};
use tract_core::kv::{
    Durability, KvBatch, KvEngine, KvEntry, KvOutcome, KvRead, Scan, Space, Visit,
};
use tract_core::store::{Capabilities, Damage};
use tract_core::{StoreError, StoreErrorKind, StoreResult};

use crate::copy;
use crate::error::{BACKEND, contained, engine, io, new};
use crate::flush::Flush;

/// The opened folder. Everything is in one tree, so that one batch of sled's is one write.
pub(crate) struct Folder {
    pub(crate) db: Db,
    pub(crate) tree: Tree,
    pub(crate) flush: Flush,
}

/// A sled folder. [`open`](crate::open) makes a store of it.
pub struct SledEngine {
    path: PathBuf,
    /// sled has no snapshots of its own: while somebody reads, nobody writes.
    folder: RwLock<Option<Folder>>,
}

impl fmt::Debug for SledEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledEngine").field("path", &self.path).finish_non_exhaustive()
    }
}

fn closed(op: &'static str) -> StoreError {
    new(StoreErrorKind::Unavailable, op, "the store is closed")
}

impl SledEngine {
    pub(crate) fn new(path: PathBuf, folder: Folder) -> Self {
        Self { path, folder: RwLock::new(Some(folder)) }
    }

    /// Returns the absolute path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn folder(&self) -> RwLockReadGuard<'_, Option<Folder>> {
        // Panics of sled are caught before they reach the lock.
        self.folder.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts the space before a key: its number never changes.
fn keyed(space: Space, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + key.len());
    out.push(space.number());
    out.extend_from_slice(key);
    out
}

fn get(tree: &Tree, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>> {
    let found = tree.get(keyed(space, key)).map_err(engine("read"))?;
    Ok(found.map(|value| Bytes::copy_from_slice(&value)))
}

struct Snapshot<'a> {
    tree: Tree,
    _folder: RwLockReadGuard<'a, Option<Folder>>,
}

impl KvRead for Snapshot<'_> {
    fn get(&self, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>> {
        contained("read", || get(&self.tree, space, key))
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

    fn read(&self) -> StoreResult<Box<dyn KvRead + '_>> {
        let folder = self.folder();
        let Some(Folder { tree, .. }) = &*folder else { return Err(closed("read")) };
        Ok(Box::new(Snapshot { tree: tree.clone(), _folder: folder }))
    }

    fn write(&self, batch: &KvBatch, durability: Durability) -> StoreResult<KvOutcome> {
        let mut folder = self.folder.write().unwrap_or_else(PoisonError::into_inner);
        let Some(Folder { db, tree, flush }) = &mut *folder else { return Err(closed("apply")) };
        contained("apply", || {
            for KvEntry { space, key, value } in &batch.requires {
                if get(tree, *space, key)? != *value {
                    return Ok(KvOutcome::Conflict { space: *space, key: key.clone() });
                }
            }
            let mut writes = sled::Batch::default();
            for KvEntry { space, key, value } in &batch.writes {
                match value {
                    Some(value) => writes.insert(keyed(*space, key), &**value),
                    None => writes.remove(keyed(*space, key)),
                }
            }
            tree.apply_batch(writes).map_err(engine("apply"))?;
            if durability == Durability::Immediate {
                db.flush().map_err(engine("apply"))?;
                flush.sync().map_err(io("apply"))?;
            }
            Ok(KvOutcome::Committed)
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ONE_PROCESS
    }

    fn disk_bytes(&self) -> StoreResult<u64> {
        match &*self.folder() {
            Some(folder) => folder.db.size_on_disk().map_err(engine("stats")),
            None => Err(closed("stats")),
        }
    }

    fn check(&self) -> StoreResult<Vec<Damage>> {
        let folder = self.folder();
        let Some(Folder { tree, .. }) = &*folder else { return Err(closed("check")) };
        match contained("check", || tree.verify_integrity().map_err(engine("check"))) {
            Ok(()) => Ok(Vec::new()),
            Err(error) if matches!(error.kind, StoreErrorKind::Corrupt { .. }) => {
                Ok(vec![Damage { object: None, what: error.message, derived: false }])
            }
            Err(error) => Err(error),
        }
    }

    fn keep_copy(&self, format: u32) -> StoreResult<()> {
        let folder = self.folder();
        let Some(Folder { tree, .. }) = &*folder else { return Err(closed("migrate")) };
        contained("migrate", || copy::keep(&self.path, tree, format))
    }

    fn close(&self) -> StoreResult<()> {
        let folder = self.folder.write().unwrap_or_else(PoisonError::into_inner).take();
        contained("close", || match folder {
            Some(Folder { db, tree, mut flush }) => {
                db.flush().map_err(engine("close"))?;
                flush.sync().map_err(io("close"))?;
                drop((tree, db));
                Ok(())
            }
            None => Ok(()),
        })
    }
}

impl Drop for SledEngine {
    fn drop(&mut self) {
        // Dropping a database writes: damaged files must not make that panic.
        let _ = self.close();
    }
}
