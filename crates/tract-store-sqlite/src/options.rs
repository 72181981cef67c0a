//! Options for opening a store.

use std::time::Duration;

use tract_core::store::WriteMode;

/// Options for opening a store.
///
/// ```
/// use std::time::Duration;
/// use tract_store_sqlite::SqliteOptions;
/// let options = SqliteOptions::new().create(true).busy_timeout(Duration::from_secs(1));
/// ```
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    pub(crate) create: bool,
    pub(crate) read_only: bool,
    pub(crate) busy_timeout: Duration,
    pub(crate) write_mode: WriteMode,
    pub(crate) unsafe_lose_on_power_loss: bool,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl SqliteOptions {
    /// Opens an existing file for reading and writing, durably, with a busy timeout of five
    /// seconds.
    pub const fn new() -> Self {
        Self {
            create: false,
            read_only: false,
            busy_timeout: Duration::from_secs(5),
            write_mode: WriteMode::Thread,
            unsafe_lose_on_power_loss: false,
        }
    }

    /// Creates the file and its folder if they do not exist; off by default.
    #[must_use]
    pub const fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Rejects all writes; off by default. The folder must still be writable while other processes
    /// use the store, for the index of the write-ahead log.
    #[must_use]
    pub const fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Sets how long to wait for another process's write before failing with `Busy`.
    #[must_use]
    pub const fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Sets where writes run.
    #[must_use]
    pub const fn write_mode(mut self, mode: WriteMode) -> Self {
        self.write_mode = mode;
        self
    }

    /// Acknowledges writes before they are flushed (`synchronous=NORMAL`). A power loss may then
    /// lose the last acknowledged writes. The store stays intact, and a crash of the process loses
    /// nothing. Off by default.
    #[must_use]
    pub const fn unsafe_lose_on_power_loss(mut self, lose: bool) -> Self {
        self.unsafe_lose_on_power_loss = lose;
        self
    }
}
