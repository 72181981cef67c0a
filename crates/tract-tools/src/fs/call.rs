//! The filesystem as seen by one call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Entry, Filesystem, FsError, FsPath};
use crate::snapshot::{BoxError, SavedState, Snapshot};

/// Refuses access after the call has ended, and writes by read-only tools.
pub(crate) struct CallFs {
    inner: Arc<dyn Filesystem>,
    alive: Arc<AtomicBool>,
    read_only: bool,
}

impl CallFs {
    pub(crate) fn new(inner: Arc<dyn Filesystem>, alive: Arc<AtomicBool>, read_only: bool) -> Self {
        Self { inner, alive, read_only }
    }

    fn open(&self) -> Result<&dyn Filesystem, FsError> {
        if self.alive.load(Ordering::Acquire) { Ok(&*self.inner) } else { Err(FsError::CallOver) }
    }

    fn writable(&self, path: &FsPath) -> Result<&dyn Filesystem, FsError> {
        if self.read_only { Err(FsError::ReadOnly { path: path.to_string() }) } else { self.open() }
    }
}

impl Filesystem for CallFs {
    fn read(&self, path: &FsPath) -> Result<Vec<u8>, FsError> {
        self.open()?.read(path)
    }

    fn write(&self, path: &FsPath, bytes: &[u8]) -> Result<(), FsError> {
        self.writable(path)?.write(path, bytes)
    }

    fn remove(&self, path: &FsPath) -> Result<(), FsError> {
        self.writable(path)?.remove(path)
    }

    fn entry(&self, path: &FsPath) -> Result<Option<Entry>, FsError> {
        self.open()?.entry(path)
    }

    fn list(&self, directory: &FsPath) -> Result<Vec<Entry>, FsError> {
        self.open()?.list(directory)
    }

    fn max_file_bytes(&self) -> u64 {
        self.inner.max_file_bytes()
    }
}

impl Snapshot for CallFs {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn snapshot(&self) -> Result<SavedState, BoxError> {
        self.inner.snapshot()
    }

    fn restore(&self, saved: SavedState) -> Result<(), BoxError> {
        if self.read_only || !self.alive.load(Ordering::Acquire) {
            Err(FsError::CallOver.into())
        } else {
            self.inner.restore(saved)
        }
    }
}
