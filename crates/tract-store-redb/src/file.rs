//! The open file of redb, shared with the engine, which can compare it with the file at its path
//! and release it.

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::backends::FileBackend;
use redb::{BackendError, Database, StorageBackend};

use tract_core::store::Ownership;

use crate::access::create_like;
use crate::header;

/// Maximum bytes of held writes. Opening a closed file writes one header, so more means a real
/// write.
const MAX_HELD_BYTES: usize = 64 << 10;

/// A file that redb reads and writes, shared with the engine.
///
/// When redb opens a closed file, it only writes a mark that the file is open. That write is held
/// until the engine writes. A handle that only reads thus leaves the file unchanged, and redb need
/// not close it. Closing is a commit, and that aborts the process if the file's list of freed pages
/// is damaged.
#[derive(Clone, Debug)]
pub(crate) struct FileHandle(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    backend: FileBackend,
    /// The same open file. The backend holds its locks.
    file: File,
    writes: Mutex<Writes>,
    /// Whether writes fail as on a full disk.
    #[cfg(test)]
    is_full: std::sync::atomic::AtomicBool,
}

/// The state of redb's writes.
#[derive(Debug)]
enum Writes {
    /// redb has not written yet.
    None,
    /// Writes are kept in memory, in order.
    Held(Vec<(u64, Vec<u8>)>),
    /// Writes go to the file.
    Through,
}

impl FileHandle {
    /// Opens a file for reading and writing; `create` creates a missing one.
    pub(crate) fn open(path: &Path, create: bool) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create(create).open(path)?;
        Self::new(file)
    }

    /// Creates a file that replaces or copies `like`, with its access rights.
    pub(crate) fn create_like(path: &Path, like: &Path, owner: Ownership) -> io::Result<Self> {
        Self::new(create_like(path, like, owner)?)
    }

    /// Opens a file for reading.
    pub(crate) fn open_read_only(path: &Path) -> io::Result<Self> {
        Self::new(File::open(path)?)
    }

    fn new(file: File) -> io::Result<Self> {
        let backend = FileBackend::new(file.try_clone()?).map_err(io::Error::other)?;
        let writes = Mutex::new(Writes::None);
        #[cfg(test)]
        let inner = Inner { backend, file, writes, is_full: false.into() };
        #[cfg(not(test))]
        let inner = Inner { backend, file, writes };
        Ok(Self(Arc::new(inner)))
    }

    /// Fails all further writes of this handle as a full disk does.
    #[cfg(test)]
    pub(crate) fn fill_disk(&self) {
        self.0.is_full.store(true, std::sync::atomic::Ordering::SeqCst);
    }

    /// Returns the open file.
    pub(crate) fn file(&self) -> &File {
        &self.0.file
    }

    fn writes(&self) -> MutexGuard<'_, Writes> {
        self.0.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets writes reach the file from now on. Flushes the mark of an open file before them, so
    /// that a crash during a later write is detected as an unclean shutdown.
    pub(crate) fn start_writing(&self) -> io::Result<()> {
        self.write_held(&mut self.writes())
    }

    /// Returns whether anything was written to the file.
    pub(crate) fn has_written(&self) -> bool {
        matches!(*self.writes(), Writes::Through)
    }

    fn write_held(&self, writes: &mut Writes) -> io::Result<()> {
        if let Writes::Held(held) = writes {
            held.iter().try_for_each(|(offset, data)| self.0.backend.write(*offset, data))?;
            self.0.backend.sync_data()?;
        }
        *writes = Writes::Through;
        Ok(())
    }

    /// Returns whether the last writer closed the file. A new file is not closed.
    fn is_closed(&self) -> io::Result<bool> {
        let mut start = vec![0; header::LEN as usize];
        if self.0.backend.len()? < header::LEN {
            return Ok(false);
        }
        self.0.backend.read(0, &mut start)?;
        Ok(header::is_closed(&start))
    }
}

impl StorageBackend for FileHandle {
    fn len(&self) -> io::Result<u64> {
        self.0.backend.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.backend.read(offset, out)?;
        if let Writes::Held(held) = &*self.writes() {
            held.iter().for_each(|(at, data)| overlay(offset, out, *at, data));
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len == self.0.backend.len()? {
            return Ok(());
        }
        self.write_held(&mut self.writes())?;
        self.0.backend.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        match *self.writes() {
            Writes::None | Writes::Held(_) => Ok(()),
            Writes::Through => self.0.backend.sync_data(),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        if self.0.is_full.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut writes = self.writes();
        if matches!(*writes, Writes::None) {
            // redb takes the lock before it writes, so no other process can change the answer.
            *writes = if self.is_closed()? { Writes::Held(Vec::new()) } else { Writes::Through };
        }
        if let Writes::Held(held) = &mut *writes {
            held.push((offset, data.to_vec()));
            let bytes: usize = held.iter().map(|(_, data)| data.len()).sum();
            return if bytes > MAX_HELD_BYTES { self.write_held(&mut writes) } else { Ok(()) };
        }
        drop(writes);
        self.0.backend.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.backend.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.backend.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.0.backend.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.backend.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.backend.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.backend.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.backend.query_lock_range(start, end)
    }
}

/// Copies the part of a write that overlaps a range that was read.
fn overlay(offset: u64, out: &mut [u8], at: u64, data: &[u8]) {
    let from = offset.max(at);
    let to = (offset + out.len() as u64).min(at + data.len() as u64);
    if from >= to {
        return;
    }
    let range = |start: u64| (from - start) as usize..(to - start) as usize;
    if let (Some(out), Some(data)) = (out.get_mut(range(offset)), data.get(range(at))) {
        out.copy_from_slice(data);
    }
}

/// Drops a database without writing to its file. redb skips its writes while a panic unwinds, so
/// this drops the database during an artificial one.
pub(crate) fn release(database: Database) {
    if std::thread::panicking() {
        return drop(database);
    }
    let released = AssertUnwindSafe(move || {
        let _database = database;
        std::panic::resume_unwind(Box::new(()))
    });
    let _: Result<(), _> = std::panic::catch_unwind(released);
}

#[cfg(test)]
mod tests {
    use redb::{ReadableDatabase, TableDefinition};

    use super::*;

    const TABLE: TableDefinition<'_, u64, u64> = TableDefinition::new("t");

    fn open(handle: &FileHandle) -> Database {
        Database::builder().create_with_backend(handle.clone()).expect("it opens")
    }

    fn put(database: &Database, value: u64) {
        let writing = database.begin_write().expect("it begins");
        writing.open_table(TABLE).expect("a table").insert(1, value).expect("it is put");
        writing.commit().expect("it commits");
    }

    fn value(database: &Database) -> u64 {
        let table = database.begin_read().expect("it begins").open_table(TABLE).expect("a table");
        table.get(1).expect("it reads").expect("a value").value()
    }

    #[test]
    fn a_handle_that_only_reads_leaves_the_file_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.redb");
        let handle = FileHandle::open(&path, true).expect("it opens");
        let database = open(&handle);
        put(&database, 7);
        assert!(handle.has_written());
        database.close().expect("it closes");
        let before = std::fs::read(&path).expect("it reads");

        let handle = FileHandle::open(&path, false).expect("it opens");
        let database = open(&handle);
        assert_eq!(value(&database), 7);
        let other = FileHandle::open(&path, false).expect("it opens");
        Database::builder().create_with_backend(other).expect_err("the file is locked");
        assert!(!handle.has_written());
        release(database);
        assert!(std::fs::read(&path).expect("it reads") == before, "not a byte was written");

        // The lock is free again, and a write reaches the file.
        let handle = FileHandle::open(&path, false).expect("it opens");
        let database = open(&handle);
        handle.start_writing().expect("it writes");
        put(&database, 8);
        // The process ends without closing, which the header of the file records.
        std::fs::copy(&path, folder.path().join("killed.redb")).expect("it is copied");
        database.close().expect("it closes");
        for (name, is_closed) in [("killed.redb", false), ("a.redb", true)] {
            let handle = FileHandle::open(&folder.path().join(name), false).expect("it opens");
            assert_eq!(handle.is_closed().expect("it reads"), is_closed, "{name}");
            let database = open(&handle);
            assert_eq!((value(&database), handle.has_written()), (8, !is_closed), "{name}");
            database.close().expect("it closes");
        }
    }

    #[test]
    fn held_writes_are_read_back() {
        let mut out = *b"0123456789";
        overlay(100, &mut out, 98, b"abcd");
        overlay(100, &mut out, 104, b"X");
        overlay(100, &mut out, 108, b"pqrs");
        overlay(100, &mut out, 110, b"no");
        assert_eq!(&out, b"cd23X567pq");
    }
}
