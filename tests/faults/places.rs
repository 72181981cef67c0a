//! The stores that agents run on: one in memory, those that need no server, and PostgreSQL where
//! there is one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tract::{OpenOptions, Store, Tract, block_on};

use crate::backends::{self, Backend};

/// A store that can be opened again.
#[derive(Clone, Debug)]
pub(crate) enum StoreLocation {
    Memory(Arc<dyn Store>),
    Folder(&'static Backend, PathBuf),
}

impl StoreLocation {
    /// One of each.
    pub(crate) fn all(folder: &Path) -> Vec<Self> {
        let lasting = backends::all().map(|backend| Self::Folder(backend, folder.to_owned()));
        std::iter::once(Self::Memory(Arc::new(tract::core::memory()))).chain(lasting).collect()
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Folder(backend, _) => backend.name,
        }
    }

    /// Opens it, made when it is missing, in a way that promises less: for tests that say nothing of
    /// durability.
    pub(crate) fn fast(&self) -> Tract {
        match self {
            Self::Memory(store) => {
                block_on(OpenOptions::new().open_store(Arc::clone(store))).unwrap()
            }
            Self::Folder(backend, folder) => backend.fast(folder, "agent"),
        }
    }

    /// Closes it, so that it can be opened again; what is in memory lives as long as it is open.
    pub(crate) fn close(&self, tract: Tract) {
        if !matches!(self, Self::Memory(_)) {
            block_on(tract.store().close()).unwrap();
        }
    }
}
