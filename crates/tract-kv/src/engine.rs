//! The interface of an engine with ordered keys.

use std::ops::{ControlFlow, Deref};

use bytes::Bytes;

use super::KvBatch;
use tract_core::store::{Capabilities, Damage, StoreResult, WipeReport};

/// The key spaces. An engine keeps them separate: as trees, tables, or by a first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Commit records by place. Keys mostly ascend.
    Commits,
    /// Blobs by place. Keys mostly ascend.
    Blobs,
    /// Hash prefixes and batch prefixes; keys in no particular order, values empty.
    Index,
    /// Small values: the format, repositories, segments, refs, toolsets, tools, derived rows.
    Small,
    /// The ref log. Keys ascend.
    Log,
}

impl Space {
    /// All spaces, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Commits, Self::Blobs, Self::Index, Self::Small, Self::Log];

    /// Returns the number that [`KvBatch::encode`] writes. It never changes.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the space with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns a name for a table or tree.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Commits => "commits",
            Self::Blobs => "blobs",
            Self::Index => "index",
            Self::Small => "small",
            Self::Log => "log",
        }
    }
}

/// A range of keys, in byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The space to read.
    pub space: Space,
    /// The lowest key, inclusive.
    pub from: Vec<u8>,
    /// The end of the range, exclusive; `None` for the end of the space.
    pub to: Option<Vec<u8>>,
    /// Whether to read the highest key first.
    pub reverse: bool,
}

impl Scan {
    /// Returns the range of all keys with this prefix.
    ///
    /// ```
    /// use tract_kv::{Scan, Space};
    /// assert_eq!(Scan::prefix(Space::Log, vec![7, 255]).to, Some(vec![8]));
    /// assert_eq!(Scan::prefix(Space::Log, vec![255]).to, None);
    /// ```
    pub fn prefix(space: Space, prefix: Vec<u8>) -> Self {
        let mut to = prefix.clone();
        while to.pop_if(|last| *last == u8::MAX).is_some() {}
        if let Some(last) = to.last_mut() {
            *last += 1;
        }
        let to = (!to.is_empty()).then_some(to);
        Self { space, from: prefix, to, reverse: false }
    }

    /// Returns whether the range is empty.
    pub fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }

    /// Returns whether a key is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key && self.to.as_ref().is_none_or(|to| key < to.as_slice())
    }
}

/// Receives one key and value of a scan, and returns whether to continue.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> StoreResult<ControlFlow<()>> + 'a;

/// A consistent snapshot of an engine: later writes are not visible in it.
pub trait KvRead {
    /// Reads one value.
    fn get(&self, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>>;

    /// Calls `visit` for each key in the range, in order, until it returns `Break`.
    ///
    /// # Errors
    /// The engine's failure, or the first error of `visit`.
    fn scan(&self, scan: &Scan, visit: &mut Visit<'_>) -> StoreResult<()>;

    /// Returns the number of the open store that it reads, or 0 if unknown. Caches use it as a key,
    /// because data of one store must not be used for another.
    #[doc(hidden)]
    fn store_number(&self) -> u64 {
        0
    }
}

/// A snapshot with the number of its store.
pub(super) struct NumberedRead<'r> {
    pub(super) read: Box<dyn KvRead + 'r>,
    pub(super) number: u64,
}

impl KvRead for NumberedRead<'_> {
    fn get(&self, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>> {
        self.read.get(space, key)
    }

    fn scan(&self, scan: &Scan, visit: &mut Visit<'_>) -> StoreResult<()> {
        self.read.scan(scan, visit)
    }

    fn store_number(&self) -> u64 {
        self.number
    }
}

impl<P: Deref<Target: KvRead>> KvRead for P {
    fn get(&self, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>> {
        (**self).get(space, key)
    }

    fn scan(&self, scan: &Scan, visit: &mut Visit<'_>) -> StoreResult<()> {
        (**self).scan(scan, visit)
    }

    fn store_number(&self) -> u64 {
        (**self).store_number()
    }
}

/// Returns the next batch to join a write, given the state written so far; `None` if no batch is
/// waiting.
pub type KvJoining<'a> = dyn FnMut(&dyn KvRead) -> Option<KvBatch> + 'a;

/// The durability required of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Durable before the call returns.
    #[default]
    Immediate,
    /// Durable at some later time, at the latest with the next immediate write.
    Eventual,
}

/// The outcome of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum KvOutcome {
    /// The whole batch was written.
    Committed,
    /// A key did not have its required value; nothing was written.
    Conflict {
        /// The key's space.
        space: Space,
        /// The key.
        key: Bytes,
    },
}

/// An engine of ordered keys, the smallest interface for implementing a store.
///
/// [`KvStore`](super::KvStore) implements the rest: layout, walks, compare-and-swap of refs, group
/// commit, checks. [`KvMap`](super::KvMap) and [`KvBatch`] help engines that keep their keys in
/// memory. Unless documented otherwise, a method's error is the engine's failure.
pub trait KvEngine: Send + Sync + 'static {
    /// The engine's name, such as `redb`.
    const NAME: &'static str;

    /// Takes a snapshot.
    fn read(&self) -> StoreResult<Box<dyn KvRead + '_>>;

    /// Writes a batch atomically if every key has its required value. No other write may happen
    /// between the comparison and the write.
    ///
    /// # Errors
    /// Errors of kind `Busy`, `ReadOnly`, `TooLarge` or `Unsupported` mean that nothing was
    /// written. After any other error the outcome is unknown, and the store rejects further writes
    /// through this handle; after `Full`, only until [`reopen`](Self::reopen) succeeds.
    fn write(&self, batch: &KvBatch, durability: Durability) -> StoreResult<KvOutcome>;

    /// Writes as [`write`](Self::write) does, but lets other batches join before the write is
    /// durable. Calls `joining` with the state written so far until it returns `None`, and adds
    /// each batch to the write. All of the batches are written, or none. The default implementation
    /// does not call `joining`.
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    fn write_joined(
        &self,
        batch: &KvBatch,
        durability: Durability,
        _joining: &mut KvJoining<'_>,
    ) -> StoreResult<KvOutcome> {
        self.write(batch, durability)
    }

    /// Returns the capabilities of the engine. There is no default, so that a store that loses data
    /// does not claim to be durable by omission. Use [`Capabilities::ONE_PROCESS`] for an engine
    /// whose writes are on disk when [`Durability::Immediate`] returns, and
    /// [`Capabilities::IN_MEMORY`] for one without persistence.
    fn capabilities(&self) -> Capabilities;

    /// Returns its size on disk in bytes; 0 in memory.
    fn disk_bytes(&self) -> StoreResult<u64> {
        Ok(0)
    }

    /// Returns unused space to the file system, as far as possible while the engine is open.
    /// Returns a note if another step would free more. The default implementation does nothing.
    fn release_space(&self) -> StoreResult<Option<String>> {
        Ok(None)
    }

    /// Makes deleted bytes unrecoverable in the engine's files, and reports where they may remain.
    /// The default implementation is for engines without files and reports nothing.
    fn wipe(&self) -> StoreResult<WipeReport> {
        Ok(WipeReport::default())
    }

    /// Checks the engine's own files.
    fn check(&self) -> StoreResult<Vec<Damage>> {
        Ok(Vec::new())
    }

    /// Creates a complete and durable copy next to the store before it is migrated from `format`.
    /// An existing copy of that format is kept. The default implementation does nothing; since each
    /// step of a migration is one write, a migration is safe without a copy too.
    ///
    /// # Errors
    /// The engine's failure; the store is then left unchanged.
    fn keep_copy(&self, _format: u32) -> StoreResult<()> {
        Ok(())
    }

    /// Reopens the engine's files after a write failed with `Full`, as a new process would, so that
    /// later reads see the state on disk. Waits for all readers. Returns `false` if the engine does
    /// not support it, which is the default.
    ///
    /// # Errors
    /// The reason that it cannot be opened, such as a full disk. Until a later call succeeds, the
    /// engine neither reads nor writes.
    fn reopen(&self) -> StoreResult<bool> {
        Ok(false)
    }

    /// Flushes pending writes and releases files and locks. The store makes no calls after it.
    fn close(&self) -> StoreResult<()> {
        Ok(())
    }
}
