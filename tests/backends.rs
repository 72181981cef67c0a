//! The stores that walks are tried on: one list, so that a new one stands in one place.

use std::path::{Path, PathBuf};

use tract::store::WriteMode;
use tract::{OpenOptions, Tract, block_on};

/// A store that keeps what it is given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backend {
    /// The scheme of its urls.
    pub(crate) name: &'static str,
    /// Whether all of it is one file, so that a test can flip its bytes.
    pub(crate) one_file: bool,
}

/// Those that need no server.
pub(crate) const ALL: &[Backend] = &[
    Backend { name: "sqlite", one_file: true },
    Backend { name: "redb", one_file: true },
    Backend { name: "sled", one_file: false },
];

impl Backend {
    /// Where its store lies in a folder.
    pub(crate) fn path(&self, folder: &Path, name: &str) -> PathBuf {
        folder.join(format!("{name}.{}", self.name))
    }

    /// Opens the store of this name in a folder, and makes it when it is missing.
    pub(crate) fn open(&self, folder: &Path, name: &str) -> Tract {
        self.try_open(folder, name, true).unwrap_or_else(|error| panic!("{}: {error:?}", self.name))
    }

    /// Opens the store of this name in a folder.
    pub(crate) fn try_open(&self, folder: &Path, name: &str, create: bool) -> tract::Result<Tract> {
        let url = format!("{}:{}", self.name, self.path(folder, name).display());
        let options = OpenOptions::new().create(create).write_mode(WriteMode::InPlace);
        block_on(options.open(&url))
    }

    /// Opens a store that need not outlive the machine, where the engine has a faster way for
    /// that: for tests that say nothing of durability.
    pub(crate) fn fast(&self, folder: &Path, name: &str) -> Tract {
        if self.name != "sqlite" {
            return self.open(folder, name);
        }
        let options = tract_store_sqlite::SqliteOptions::new()
            .create(true)
            .unsafe_lose_on_power_loss(true)
            .write_mode(WriteMode::InPlace);
        let store = tract_store_sqlite::open(self.path(folder, name), &options).unwrap();
        block_on(OpenOptions::new().open_store(store)).unwrap()
    }
}
