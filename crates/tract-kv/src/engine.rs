//! What an engine of ordered keys has to offer.

use std::ops::{ControlFlow, Deref};

use bytes::Bytes;

use super::KvBatch;
use tract_core::store::{Capabilities, Damage, StoreResult, WipeReport};

/// The spaces that keys live in. An engine keeps each apart: a tree, a table, or a first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Commit records by place. Keys mostly ascend.
    Commits,
    /// Blobs by place. Keys mostly ascend.
    Blobs,
    /// Hash prefixes and batch prefixes; keys in no order, values empty.
    Index,
    /// Everything small: the format, repositories, segments, refs, toolsets, tools, derived rows.
    Small,
    /// The ref log. Keys ascend.
    Log,
}

impl Space {
    /// All spaces, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Commits, Self::Blobs, Self::Index, Self::Small, Self::Log];

    /// Returns the number under which [`KvBatch::encode`] writes it; it never changes.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the space with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns a name that suits a table or tree.
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

/// A range of keys to be read, in byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Where.
    pub space: Space,
    /// The lowest key; part of the range.
    pub from: Vec<u8>,
    /// The key where the range ends; not part of it. `None`: to the end of the space.
    pub to: Option<Vec<u8>>,
    /// Highest key first.
    pub reverse: bool,
}

impl Scan {
    /// Reads all keys that begin with `prefix`.
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

    /// The same range, highest key first.
    #[must_use]
    pub fn reversed(mut self) -> Self {
        self.reverse = !self.reverse;
        self
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

/// Takes one key and value of a scan, and says whether to continue.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> StoreResult<ControlFlow<()>> + 'a;

/// One consistent state of an engine: what other writers do after it was made does not show.
pub trait KvRead {
    /// Reads one value.
    fn get(&self, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>>;

    /// Calls `visit` for each key in the range, in order, until it says to break.
    ///
    /// # Errors
    /// The engine's failure, or the first error of `visit`.
    fn scan(&self, scan: &Scan, visit: &mut Visit<'_>) -> StoreResult<()>;

    /// Returns the number of the open store that it reads, 0 where that is not known: what is
    /// remembered of one store is not there in another.
    #[doc(hidden)]
    fn store_number(&self) -> u64 {
        0
    }
}

/// A state of the store with a number.
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

/// Gives what joins a write, given what was written so far; `None` when no batch waits.
pub type KvJoining<'a> = dyn FnMut(&dyn KvRead) -> Option<KvBatch> + 'a;

/// The durability that a write asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Before the call returns.
    #[default]
    Immediate,
    /// Some time; at the latest with the next immediate write.
    Eventual,
}

/// The outcome of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum KvOutcome {
    /// All of it was written.
    Committed,
    /// A key did not hold what the batch requires; nothing was written.
    Conflict {
        /// Where.
        space: Space,
        /// The key.
        key: Bytes,
    },
}

/// An engine of ordered keys: what it takes to be a store.
///
/// [`KvStore`](super::KvStore) does the rest: layout, walks, compare-and-swap of refs, group
/// commit, checks. [`KvMap`](super::KvMap) and [`KvBatch`] help engines that keep their keys in
/// memory. The error of a method is the engine's failure where nothing else is said.
pub trait KvEngine: Send + Sync + 'static {
    /// The engine's name, such as `redb`.
    const NAME: &'static str;

    /// Takes a snapshot.
    fn read(&self) -> StoreResult<Box<dyn KvRead + '_>>;

    /// Writes a batch, all of it or nothing, if every key holds what the batch requires; no other
    /// write may come between the comparison and the writing.
    ///
    /// # Errors
    /// An error of kind `Busy`, `ReadOnly`, `TooLarge` or `Unsupported` says that nothing was
    /// written. After any other it is unknown what was, and the store lets nothing more be written
    /// through this handle; after `Full`, not until [`reopen`](Self::reopen) has opened it again.
    fn write(&self, batch: &KvBatch, durability: Durability) -> StoreResult<KvOutcome>;

    /// Does what [`write`](Self::write) does, and before the write is durable asks `joining` for
    /// another batch to become part of it, until there is none: its argument shows what has been
    /// written so far. All of the batches are written, or none. By default `joining` is not asked.
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

    /// Returns what the engine can do. It has no default, since a store that loses data must not
    /// claim to be durable by omission: [`Capabilities::ONE_PROCESS`] is right for an engine whose
    /// writes are on disk when [`Durability::Immediate`] returns, [`Capabilities::IN_MEMORY`] for one
    /// that forgets.
    fn capabilities(&self) -> Capabilities;

    /// Returns how many bytes it takes on disk; 0 in memory.
    fn disk_bytes(&self) -> StoreResult<u64> {
        Ok(0)
    }

    /// Gives space that nothing uses back to the file system, as far as the engine can while it is
    /// open, and says what else helps. By default it does nothing and has nothing to say.
    fn release_space(&self) -> StoreResult<Option<String>> {
        Ok(None)
    }

    /// Makes deleted bytes unrecoverable in the engine's files, and reports where they may remain. By
    /// default an engine has no files, and nothing remains.
    fn wipe(&self) -> StoreResult<WipeReport> {
        Ok(WipeReport::default())
    }

    /// Checks the engine's own files.
    fn check(&self) -> StoreResult<Vec<Damage>> {
        Ok(Vec::new())
    }

    /// Puts a whole and durable copy next to the store, before that is brought from `format` to the
    /// next; a copy of that format that is there already is left as it is. By default there is
    /// none: each step of a migration is one write, so nothing is half done without it either.
    ///
    /// # Errors
    /// The engine's failure; then the store stays as it is.
    fn keep_copy(&self, _format: u32) -> StoreResult<()> {
        Ok(())
    }

    /// Opens the engine's files again after a write failed with `Full`, as a new process would, so that
    /// what is read from then on is what is on disk. Waits until nothing reads. Returns `false` where
    /// an engine does not do this, which is the default.
    ///
    /// # Errors
    /// Why it cannot be opened, such as a disk that is still full. The engine then reads and writes
    /// nothing until a later call succeeds.
    fn reopen(&self) -> StoreResult<bool> {
        Ok(false)
    }

    /// Writes out what is held back and releases files and locks. The store calls nothing after it.
    fn close(&self) -> StoreResult<()> {
        Ok(())
    }
}
