//! The stores that agents run on: one in memory, those that need no server, and PostgreSQL where
//! there is one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tract::{OpenOptions, Store, Tract, block_on};

use crate::backends::{self, Backend};
use crate::server;

/// A store that can be opened again.
#[derive(Clone, Debug)]
pub(crate) enum StoreLocation {
    Memory(Arc<dyn Store>),
    Folder(Backend, PathBuf),
    Postgres(String),
}

impl StoreLocation {
    /// One of each.
    pub(crate) fn all(folder: &Path) -> Vec<Self> {
        std::iter::once(Self::Memory(Arc::new(tract::core::memory())))
            .chain(Self::lasting(folder))
            .collect()
    }

    /// Those that outlive a process.
    pub(crate) fn lasting(folder: &Path) -> Vec<Self> {
        let in_folders = backends::ALL.iter().map(|each| Self::Folder(*each, folder.to_owned()));
        let served = server::shared().map(|url| server::with_schema(url, &server::schema()));
        in_folders.chain(served.map(Self::Postgres)).collect()
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Folder(backend, _) => backend.name,
            Self::Postgres(_) => "postgres",
        }
    }

    /// Opens it, and makes it when it is missing.
    pub(crate) fn open(&self) -> Tract {
        match self {
            Self::Memory(store) => {
                block_on(OpenOptions::new().open_store(Arc::clone(store))).unwrap()
            }
            Self::Folder(backend, folder) => backend.open(folder, "agent"),
            Self::Postgres(url) => block_on(OpenOptions::new().create(true).open(url)).unwrap(),
        }
    }

    /// Opens it in a way that promises less: for tests that say nothing of durability.
    pub(crate) fn fast(&self) -> Tract {
        match self {
            Self::Folder(backend, folder) => backend.fast(folder, "agent"),
            _ => self.open(),
        }
    }

    /// Closes it, so that it can be opened again; what is in memory lives as long as it is open.
    pub(crate) fn close(&self, tract: Tract) {
        if !matches!(self, Self::Memory(_)) {
            block_on(tract.store().close()).unwrap();
        }
    }

    /// What another process opens it by.
    pub(super) fn word(&self) -> String {
        match self {
            Self::Memory(_) => unreachable!("it is gone with its process"),
            Self::Folder(backend, folder) => format!("{} {}", backend.name, folder.display()),
            Self::Postgres(url) => format!("postgres {url}"),
        }
    }

    /// Reads what [`word`](Self::word) says.
    pub(super) fn of_word(word: &str) -> Self {
        let (name, place) = word.split_once(' ').unwrap();
        match backends::ALL.iter().find(|backend| backend.name == name) {
            Some(backend) => Self::Folder(*backend, place.into()),
            None => Self::Postgres(place.to_owned()),
        }
    }
}
