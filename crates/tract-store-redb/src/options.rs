//! How a store is opened.

use std::time::Duration;

use tract_core::store::WriteMode;

/// How many bytes of the file are kept in memory at most.
pub(crate) const CACHE_BYTES: usize = 64 << 20;

/// How a store is opened.
///
/// ```
/// use std::time::Duration;
/// use tract_store_redb::RedbOptions;
/// let options = RedbOptions::new().create(true).busy_timeout(Duration::from_secs(1));
/// ```
#[derive(Clone, Debug)]
pub struct RedbOptions {
    pub(crate) create: bool,
    pub(crate) read_only: bool,
    pub(crate) busy_timeout: Duration,
    pub(crate) write_mode: WriteMode,
    pub(crate) quick_repair: bool,
}

impl Default for RedbOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl RedbOptions {
    /// Opens an existing file for reading and writing, with five seconds of patience and 64 MiB of
    /// cache.
    pub const fn new() -> Self {
        Self {
            create: false,
            read_only: false,
            busy_timeout: Duration::from_secs(5),
            write_mode: WriteMode::Thread,
            quick_repair: true,
        }
    }

    /// Makes the file, and its folder, when there is none; off by default.
    #[must_use]
    pub const fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens for reading only, together with other readers; off by default. No process may have the
    /// file open for writing, and the last writer must have closed it.
    #[must_use]
    pub const fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// How long opening waits for another process that has the file open, before giving up with
    /// `Busy`.
    #[must_use]
    pub const fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// How writes reach the store.
    #[must_use]
    pub const fn write_mode(mut self, mode: WriteMode) -> Self {
        self.write_mode = mode;
        self
    }

    /// Stores with every write what opening after a kill would else have to gather from the whole
    /// file; on by default. Off, writes are some microseconds faster, and opening after a kill
    /// takes time in proportion to the size of the file.
    #[must_use]
    pub const fn quick_repair(mut self, quick: bool) -> Self {
        self.quick_repair = quick;
        self
    }
}
