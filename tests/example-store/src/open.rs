//! Opening: what lies at the path decides.

use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

use tract_core::store::ThreadedStore;
use tract_core::{StoreError, StoreErrorKind, StoreResult};
use tract_kv::KvStore;

use crate::journal::{JournalEngine, MAGIC, NAME};

/// A store in one journal.
pub type JournalStore = KvStore<JournalEngine>;

/// Opens a store, or makes one where there is none.
///
/// # Errors
/// `NotAStore` for a file that is not a journal, `Busy` while another process has it open, `Corrupt`
/// for a damaged one, and the errors of the operating system.
pub fn open(path: &Path) -> StoreResult<ThreadedStore<JournalStore>> {
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let message = "the file is open elsewhere, one process at a time";
            return Err(StoreError::new(StoreErrorKind::Busy, NAME, "open", message));
        }
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    let mut start = Vec::new();
    Read::by_ref(&mut file).take(MAGIC.len() as u64).read_to_end(&mut start)?;
    if MAGIC.starts_with(&start) {
        // New, or killed while it was made.
        if start.len() < MAGIC.len() {
            create(&mut file, path)?;
        }
        return KvStore::open(JournalEngine::replay(file)?);
    }
    let message = format!("expected a journal, found another file: {}", path.display());
    Err(StoreError::new(StoreErrorKind::NotAStore, NAME, "open", message))
}

/// Begins a journal, and makes its name as durable as what will be in it.
fn create(file: &mut File, path: &Path) -> StoreResult<()> {
    file.set_len(0)?;
    std::io::Seek::rewind(file)?;
    file.write_all(MAGIC)?;
    file.sync_all()?;
    if let Some(folder) = path.parent().filter(|folder| folder.is_dir()) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}
