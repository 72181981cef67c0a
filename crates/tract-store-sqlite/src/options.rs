//! Options for opening a store.

use std::time::Duration;

use tract_core::store::WriteMode;

/// Options for opening a store.
///
/// ```
/// use std::time::Duration;
/// use tract_store_sqlite::SqliteOptions;
/// let options = SqliteOptions {
///     create: true,
///     busy_timeout: Duration::from_secs(1),
///     ..SqliteOptions::default()
/// };
/// ```
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// Creates the file and its folder if they do not exist; off by default.
    pub create: bool,
    /// Rejects all writes; off by default. The folder must still be writable while other processes
    /// use the store, for the index of the write-ahead log.
    pub read_only: bool,
    /// Maximum wait for another process's write; then the write fails with `Busy`. 5 s by default.
    pub busy_timeout: Duration,
    /// The thread that writes run on.
    pub write_mode: WriteMode,
    /// Acknowledges writes before they are flushed (`synchronous=NORMAL`). A power loss may then
    /// lose the last acknowledged writes. The store stays intact, and a crash of the process loses
    /// nothing. Off by default.
    pub unsafe_lose_on_power_loss: bool,
}

impl Default for SqliteOptions {
    /// Opens an existing file for reading and writing, durably, with a busy timeout of five
    /// seconds.
    fn default() -> Self {
        Self {
            create: false,
            read_only: false,
            busy_timeout: Duration::from_secs(5),
            write_mode: WriteMode::Thread,
            unsafe_lose_on_power_loss: false,
        }
    }
}
