//! How a store is opened.

use std::time::Duration;

use tract_core::store::WriteMode;

/// How many bytes of pages sled keeps in memory, about.
pub(crate) const CACHE_BYTES: u64 = 64 << 20;

/// How a store is opened.
///
/// ```
/// use tract_store_sled::SledOptions;
/// let options = SledOptions::new().create(true);
/// ```
#[derive(Clone, Debug)]
pub struct SledOptions {
    pub(crate) create: bool,
    pub(crate) busy_timeout: Duration,
    pub(crate) write_mode: WriteMode,
}

impl Default for SledOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl SledOptions {
    /// Opens an existing folder, with five seconds of patience and 64 MiB of cache.
    pub const fn new() -> Self {
        Self { create: false, busy_timeout: Duration::from_secs(5), write_mode: WriteMode::Thread }
    }

    /// Makes the folder when there is none; off by default.
    #[must_use]
    pub const fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// How long opening waits for another process that has the folder open, before giving up with
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
}
