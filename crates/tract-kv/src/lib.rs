//! The simplest way to implement a store: an engine of ordered keys.
//!
//! [`KvEngine`] requires a snapshot to read from ([`KvRead`]), an atomic write that compares before
//! it swaps ([`KvBatch`]), and the capabilities of the engine. [`KvStore`] implements all else:
//! layout, walks, refs and their log, group commit, poisoning, checks. The in-memory store,
//! [`memory`], is built on it.
//!
//! An engine that keeps its keys in memory and a journal on disk:
//!
//! ```
//! use std::fs::File;
//! use std::io::{Read, Seek, SeekFrom, Write};
//! use std::path::Path;
//! use std::sync::{Arc, Mutex, PoisonError};
//! use tract_core::StoreResult;
//! use tract_core::store::Capabilities;
//! use tract_kv::{Durability, KvBatch, KvEngine, KvMap, KvOutcome, KvRead, KvStore};
//!
//! pub struct Journal(Mutex<(File, Arc<KvMap>)>);
//!
//! impl Journal {
//!     pub fn open(path: &Path) -> StoreResult<Self> {
//!         let (mut bytes, mut map, mut end) = (Vec::new(), KvMap::default(), 0);
//!         let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
//!         file.read_to_end(&mut bytes)?;
//!         for batch in KvBatch::decode_all(&bytes)? {
//!             batch.apply_to(&mut map);
//!             end += batch.encoded_len() as u64;
//!         }
//!         file.set_len(end)?; // a torn tail was never acknowledged
//!         file.seek(SeekFrom::Start(end))?;
//!         Ok(Self(Mutex::new((file, Arc::new(map)))))
//!     }
//! }
//!
//! impl KvEngine for Journal {
//!     const NAME: &'static str = "journal";
//!
//!     fn capabilities(&self) -> Capabilities {
//!         Capabilities::ONE_PROCESS // durable, since `write` flushes
//!     }
//!
//!     fn read(&self) -> StoreResult<Box<dyn KvRead + '_>> {
//!         let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
//!         Ok(Box::new(Arc::clone(&state.1))) // a snapshot
//!     }
//!
//!     fn write(&self, batch: &KvBatch, durability: Durability) -> StoreResult<KvOutcome> {
//!         let (file, map) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
//!         if let Some(conflict) = batch.check(&**map)? {
//!             return Ok(conflict);
//!         }
//!         file.write_all(&batch.encode())?;
//!         if durability == Durability::Immediate {
//!             file.sync_data()?;
//!         }
//!         batch.apply_to(Arc::make_mut(map));
//!         Ok(KvOutcome::Committed)
//!     }
//! }
//!
//! # let dir = tempfile::tempdir()?;
//! let store = KvStore::new(Journal::open(&dir.path().join("journal"))?)?;
//! # drop(store);
//! # KvStore::new(Journal::open(&dir.path().join("journal"))?)?;
//! # Ok::<(), tract_core::StoreError>(())
//! ```

#![forbid(unsafe_code)]

mod batch;
mod check;
mod compressed;
mod engine;
mod erase;
pub mod files;
mod keys;
mod known;
mod map;
mod memory;
mod migrate;
mod neighbors;
mod overlay;
mod read;
mod recent;
mod repack;
mod repair;
mod restore;
mod store;
mod survey;
mod sweep;
mod value;
mod walk;
mod write;

#[cfg(test)]
mod tests;

pub use bytes::Bytes;

pub use self::batch::{KvBatch, KvEntry};
pub use self::engine::{Durability, KvEngine, KvJoining, KvOutcome, KvRead, Scan, Space, Visit};
pub use self::map::KvMap;
pub use self::memory::{MemoryEngine, MemoryStore, memory};
#[doc(hidden)]
pub use self::migrate::{KvStep, migrate};
pub use self::store::{FORMAT, KvStore};
