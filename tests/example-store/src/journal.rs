//! The engine: keys in memory, writes at the end of a file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use tract_core::store::{Capabilities, Damage};
use tract_core::{StoreError, StoreErrorKind, StoreResult};
use tract_kv::{
    Bytes, Durability, KvBatch, KvEngine, KvMap, KvOutcome, KvRead, Scan, Space, Visit,
};

/// The backend's name in errors.
pub(crate) const NAME: &str = "journal";

/// The first bytes of the file: its type and the version of its layout.
pub(crate) const MAGIC: &[u8; 16] = b"tract journal 1\n";

/// A journal that was read into memory.
#[derive(Debug)]
pub struct JournalEngine {
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    /// `None` once the store is closed.
    file: Option<File>,
    map: KvMap,
    /// The position of the next batch: the end of the last complete one.
    end: u64,
    /// A write or a flush failed: the content of the file after `end` is unknown.
    broken: bool,
}

fn error(kind: StoreErrorKind, op: &'static str, message: &str) -> StoreError {
    StoreError::new(kind, NAME, op, message)
}

impl JournalEngine {
    /// Reads a journal. A torn batch at its end was never acknowledged, and is cut off.
    pub(crate) fn replay(mut file: File) -> StoreResult<Self> {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(MAGIC.len() as u64))?;
        file.read_to_end(&mut bytes)?;
        let (mut map, mut end) = (KvMap::default(), MAGIC.len() as u64);
        for batch in KvBatch::decode_all(&bytes)? {
            batch.apply_to(&mut map);
            end += batch.encoded_len() as u64;
        }
        file.set_len(end)?;
        file.sync_all()?;
        let state = State { file: Some(file), map, end, broken: false };
        Ok(Self { state: RwLock::new(state) })
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader keeps writers waiting, not other readers.
struct Snapshot<'a>(RwLockReadGuard<'a, State>);

impl KvRead for Snapshot<'_> {
    fn get(&self, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>> {
        self.0.map.get(space, key)
    }

    fn scan(&self, scan: &Scan, visit: &mut Visit<'_>) -> StoreResult<()> {
        self.0.map.scan(scan, visit)
    }
}

impl State {
    /// Puts bytes at the end of the file, and waits for the disk if need be.
    fn append(&mut self, bytes: &[u8], durability: Durability) -> StoreResult<()> {
        let Some(file) = &mut self.file else {
            return Err(error(StoreErrorKind::Unavailable, "apply", "the store is closed"));
        };
        file.seek(SeekFrom::Start(self.end))?;
        file.write_all(bytes)?;
        if durability == Durability::Immediate {
            file.sync_data()?;
        }
        Ok(())
    }
}

impl KvEngine for JournalEngine {
    const NAME: &'static str = NAME;

    fn capabilities(&self) -> Capabilities {
        Capabilities::ONE_PROCESS
    }

    fn read(&self) -> StoreResult<Box<dyn KvRead + '_>> {
        Ok(Box::new(Snapshot(self.state())))
    }

    fn write(&self, batch: &KvBatch, durability: Durability) -> StoreResult<KvOutcome> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.broken {
            return Err(error(StoreErrorKind::Poisoned, "apply", "an earlier write failed"));
        }
        if let Some(conflict) = batch.check(&state.map)? {
            return Ok(conflict);
        }
        let bytes = batch.encode();
        if let Err(failed) = state.append(&bytes, durability) {
            state.broken = true;
            return Err(failed);
        }
        state.end += bytes.len() as u64;
        batch.apply_to(&mut state.map);
        Ok(KvOutcome::Committed)
    }

    fn disk_bytes(&self) -> StoreResult<u64> {
        Ok(self.state().end)
    }

    /// Reads the file again and compares it with the state in memory.
    fn check(&self) -> StoreResult<Vec<Damage>> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let (mut bytes, mut map) = (Vec::new(), KvMap::default());
        let Some(file) = &mut state.file else {
            return Err(error(StoreErrorKind::Unavailable, "check", "the store is closed"));
        };
        file.seek(SeekFrom::Start(MAGIC.len() as u64))?;
        file.read_to_end(&mut bytes)?;
        let what = match KvBatch::decode_all(&bytes) {
            Ok(batches) => {
                batches.iter().for_each(|batch| batch.apply_to(&mut map));
                if map == state.map {
                    return Ok(Vec::new());
                }
                "the file no longer says what was read from it".to_owned()
            }
            Err(damaged) => damaged.message,
        };
        Ok(vec![Damage { object: None, what, derived: false }])
    }

    fn close(&self) -> StoreResult<()> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = state.file.take() {
            file.sync_all()?;
        }
        Ok(())
    }
}
