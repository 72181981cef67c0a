//! The stores that walks are tried on: one list, so that a new one is added in one place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tract::core::Store;
use tract::store::{StoreOptions, WriteMode};
use tract::{OpenOptions, Tract, block_on};

use crate::server;

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

/// The one that needs a server.
pub(crate) const POSTGRES: Backend = Backend { name: "postgres", one_file: false };

/// All of them. Without a server PostgreSQL is left out, which is said; in continuous integration
/// that is a failure.
pub(crate) fn all() -> impl Iterator<Item = &'static Backend> {
    ALL.iter().chain(server::shared().map(|_| &POSTGRES))
}

/// The backend of a name.
pub(crate) fn named(name: &str) -> &'static Backend {
    let mut all = ALL.iter().chain([&POSTGRES]);
    all.find(|backend| backend.name == name).unwrap_or_else(|| panic!("no backend {name}"))
}

/// The url of a schema of the server, whose name the folder remembers.
fn schema_url(folder: &Path, name: &str) -> String {
    let url = server::shared().expect("a store on the server was opened before");
    let file = folder.join(format!("{name}.postgres"));
    let schema = std::fs::read_to_string(&file).unwrap_or_else(|_| {
        let schema = server::schema();
        std::fs::write(&file, &schema).expect("the folder can be written");
        schema
    });
    // Every test makes tables of its own.
    format!("{}&partitions=1", server::with_schema(url, &schema))
}

impl Backend {
    /// Its url in a folder.
    pub(crate) fn url(&self, folder: &Path, name: &str) -> String {
        match self.name {
            "postgres" => schema_url(folder, name),
            scheme => format!("{scheme}:{}", self.path(folder, name).display()),
        }
    }

    /// Opens the store as a program does: writes of several threads share a flush.
    pub(crate) fn grouped(&self, folder: &Path, name: &str) -> tract::Result<Arc<dyn Store>> {
        block_on(tract::store::open(&self.url(folder, name)))
    }

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
        let url = self.url(folder, name);
        let options = OpenOptions::new().create(create).write_mode(WriteMode::InPlace);
        block_on(options.open(&url))
    }

    /// Opens a store that need not outlive the machine, where the engine has a faster way for
    /// that: for tests that say nothing of durability.
    pub(crate) fn fast(&self, folder: &Path, name: &str) -> Tract {
        match self.fast_sqlite(folder, name) {
            Some(store) => block_on(OpenOptions::new().open_store(store)).unwrap(),
            None => self.open(folder, name),
        }
    }

    /// Opens another handle of a store that was opened [`fast`](Self::fast): one of its own where the
    /// store may have several, and then as fast, as a store that is opened unsafely is opened so by
    /// all.
    pub(crate) fn again(&self, folder: &Path, shared: &Tract) -> Tract {
        match shared.store().capabilities().multi_process {
            true => self.fast(folder, "agent"),
            false => block_on(OpenOptions::new().open_store(Arc::clone(shared.store()))).unwrap(),
        }
    }

    /// The same as [`fast`](Self::fast) without a handle, which would write of itself.
    pub(crate) fn bare(&self, folder: &Path, name: &str) -> Arc<dyn Store> {
        if let Some(store) = self.fast_sqlite(folder, name) {
            return Arc::new(store);
        }
        let options = StoreOptions { write_mode: WriteMode::InPlace, ..StoreOptions::default() };
        block_on(tract::store::open_with(&self.url(folder, name), &options))
            .unwrap_or_else(|error| panic!("{}: {error:?}", self.name))
    }

    fn fast_sqlite(&self, folder: &Path, name: &str) -> Option<impl Store + use<>> {
        let options = tract_store_sqlite::SqliteOptions {
            create: true,
            unsafe_lose_on_power_loss: true,
            write_mode: WriteMode::InPlace,
            ..tract_store_sqlite::SqliteOptions::default()
        };
        let path = self.path(folder, name);
        (self.name == "sqlite").then(|| tract_store_sqlite::open(path, &options).unwrap())
    }
}
