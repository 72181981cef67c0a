//! The in-memory store, without persistence.

use std::sync::{PoisonError, RwLock};

use super::{Durability, KvBatch, KvEngine, KvMap, KvOutcome, KvRead, KvStore};
use tract_core::store::{Capabilities, StoreResult, ThreadedStore};

/// An engine that keeps its keys in memory. Readers block writers, but not other readers.
#[derive(Debug, Default)]
pub struct MemoryEngine(pub(super) RwLock<KvMap>);

impl MemoryEngine {
    /// Creates an engine without keys.
    pub fn new() -> Self {
        Self::default()
    }
}

impl From<KvMap> for MemoryEngine {
    fn from(map: KvMap) -> Self {
        Self(RwLock::new(map))
    }
}

impl KvEngine for MemoryEngine {
    const NAME: &'static str = "memory";

    fn read(&self) -> StoreResult<Box<dyn KvRead + '_>> {
        // A panic cannot leave the map partly changed, so a poisoned lock is safe to use.
        Ok(Box::new(self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }

    fn write(&self, batch: &KvBatch, _durability: Durability) -> StoreResult<KvOutcome> {
        let mut map = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(conflict) = batch.check(&*map)? {
            return Ok(conflict);
        }
        batch.apply_to(&mut map);
        Ok(KvOutcome::Committed)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::IN_MEMORY
    }
}

/// The in-memory store. Its contents are lost when it is dropped.
pub type MemoryStore = ThreadedStore<KvStore<MemoryEngine>>;

/// Creates an empty store in memory.
///
/// ```
/// use tract_core::{RepoName, Store, StoreExt, block_on};
/// use tract_kv::memory;
/// let store: std::sync::Arc<dyn Store> = std::sync::Arc::new(memory());
/// assert_eq!(block_on(store.repos())?, []);
/// # Ok::<(), tract_core::StoreError>(())
/// ```
pub fn memory() -> MemoryStore {
    ThreadedStore::inline(KvStore::memory())
}
