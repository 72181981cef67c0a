//! An in-memory disk for engines with pluggable I/O.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tract_core::CommitId;

use super::{ACKNOWLEDGED, Act, FileOp, Image, WriteTrace, carry_out};

#[derive(Debug, Default)]
struct Inner {
    files: BTreeMap<PathBuf, Vec<u8>>,
    tape: WriteTrace,
}

/// Files in memory, with a record of all operations. Clones share the disk.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<Inner>>);

impl Recorder {
    /// Makes a disk without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a disk with the files that a power loss left.
    pub fn holding(image: &Image) -> Self {
        let inner = Inner { files: image.files.clone(), tape: WriteTrace::default() };
        Self(Arc::new(Mutex::new(inner)))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self, file: impl AsRef<Path>, act: Act) {
        let mut inner = self.inner();
        let file = file.as_ref().to_owned();
        carry_out(inner.files.entry(file.clone()).or_default(), &act);
        inner.tape.steps.push(FileOp { file, act });
    }

    /// Returns the bytes of a file; empty if it is missing.
    pub fn read(&self, file: impl AsRef<Path>) -> Vec<u8> {
        self.with(file, <[u8]>::to_vec)
    }

    /// Passes the bytes of a file to a function without copying them; empty if it is missing.
    pub fn with<T>(&self, file: impl AsRef<Path>, look: impl FnOnce(&[u8]) -> T) -> T {
        look(self.inner().files.get(file.as_ref()).map_or(&[], Vec::as_slice))
    }

    /// Writes bytes at an offset of a file, which is created if it is missing.
    pub fn write(&self, file: impl AsRef<Path>, offset: u64, data: &[u8]) {
        self.step(file, Act::Write(offset, data.to_vec()));
    }

    /// Sets the length of a file.
    pub fn set_len(&self, file: impl AsRef<Path>, length: u64) {
        self.step(file, Act::Length(length));
    }

    /// Flushes a file.
    pub fn flush(&self, file: impl AsRef<Path>) {
        self.step(file, Act::Flush);
    }

    /// Records that a commit of a writer was acknowledged.
    pub fn acknowledge(&self, writer: usize, commit: CommitId) {
        let line = format!("{writer} {}\n", commit.to_hex());
        self.step(ACKNOWLEDGED, Act::Write(0, line.into_bytes()));
    }

    /// Returns the operations so far.
    pub fn tape(&self) -> WriteTrace {
        self.inner().tape.clone()
    }
}
