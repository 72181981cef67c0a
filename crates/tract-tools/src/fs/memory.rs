//! A filesystem in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::undo::{self, Change, Mark, Shared, StoredFile};
use super::{Entry, FILE_LIMIT, Filesystem, FsError, FsPath};
use crate::snapshot::{BoxError, SavedState, Snapshot};

/// Default limit in bytes on all files and paths together.
const TOTAL_LIMIT: u64 = 256 << 20;
/// Bytes counted for each file in addition to its path and content.
const ENTRY_BYTES: u64 = 64;

/// Files by path. A directory exists while it contains a file.
type Files = BTreeMap<FsPath, Arc<[u8]>>;

#[derive(Default)]
struct Memory {
    files: Files,
    bytes: u64,
}

impl Memory {
    fn set(&mut self, path: &FsPath, content: Option<Arc<[u8]>>) {
        self.bytes = self.bytes_with(path, content.as_ref().map(|bytes| bytes.len() as u64));
        match content {
            Some(bytes) => self.files.insert(path.clone(), bytes),
            None => self.files.remove(path),
        };
    }

    /// Returns the total size in bytes with a file of this size, or without the file.
    fn bytes_with(&self, path: &FsPath, size: Option<u64>) -> u64 {
        let cost = |size: u64| size + path.as_str().len() as u64 + ENTRY_BYTES;
        let before = self.files.get(path).map_or(0, |bytes| cost(bytes.len() as u64));
        self.bytes.saturating_sub(before).saturating_add(size.map_or(0, cost))
    }

    fn stored(&self, path: &FsPath) -> Option<StoredFile> {
        self.files.get(path).map(|bytes| StoredFile::new(Arc::clone(bytes), 0))
    }

    /// Returns the file at the path of a parent directory, if any.
    fn file_above(&self, path: &FsPath) -> Option<FsPath> {
        let mut parents = std::iter::successors(path.parent(), FsPath::parent);
        parents.find(|parent| self.files.contains_key(parent))
    }
}

/// A filesystem in memory. Taking a snapshot copies nothing.
///
/// # Behavior
/// - Directories are not stored: a directory exists while it contains a file.
/// - A file has at most 16 MiB, and all files together at most 256 MiB, unless other limits are
///   set.
/// - [`restore`](Snapshot::restore) reverts the changes made through this view. Files that others
///   have changed since are left alone.
pub struct MemoryFs {
    memory: Arc<Mutex<Memory>>,
    log: Shared,
    owner: u64,
    /// Maximum size of a file in bytes; 16 MiB by default.
    pub limit: u64,
    /// Maximum size of all files together in bytes, including their paths and 64 bytes per file;
    /// 256 MiB by default.
    pub total_limit: u64,
}

impl Default for MemoryFs {
    fn default() -> Self {
        let log = Shared::default();
        let owner = undo::lock(&log).next_id();
        let (limit, total_limit) = (FILE_LIMIT, TOTAL_LIMIT);
        Self { memory: Arc::default(), log, owner, limit, total_limit }
    }
}

impl fmt::Debug for MemoryFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryFs").field("files", &self.memory().files.len()).finish()
    }
}

impl MemoryFs {
    /// Creates an empty filesystem.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a filesystem from paths and texts.
    ///
    /// # Errors
    /// [`FsError`] if a path is invalid, or below a path that is a file, or the size limit is
    /// exceeded.
    pub fn of<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, FsError> {
        let made = Self::new();
        for (path, text) in files {
            made.write(&FsPath::parse(path)?, text.as_bytes())?;
        }
        Ok(made)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Each change is complete before anything can panic, so the data stays consistent.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_directory(files: &Files, path: &FsPath) -> bool {
    path.is_root() || below(files, path).next().is_some()
}

/// Iterates over all files in a directory, at any depth.
fn below<'a>(
    files: &'a Files,
    directory: &FsPath,
) -> impl Iterator<Item = (&'a FsPath, &'a Arc<[u8]>)> + use<'a> {
    // Starts at `a/`, not at `a`: paths sort by bytes, so `a-b` comes between `a` and `a/b`.
    let start = directory.join("");
    let all = files.range(start.clone()..);
    all.take_while(move |(path, _)| path.as_str().starts_with(start.as_str()))
}

impl Filesystem for MemoryFs {
    fn read(&self, path: &FsPath) -> Result<Vec<u8>, FsError> {
        let memory = self.memory();
        match memory.files.get(path) {
            Some(bytes) => Ok(bytes.to_vec()),
            None if is_directory(&memory.files, path) => {
                Err(FsError::IsDirectory { path: path.to_string() })
            }
            None => Err(FsError::NotFound { path: path.to_string() }),
        }
    }

    fn write(&self, path: &FsPath, bytes: &[u8]) -> Result<(), FsError> {
        let found = bytes.len() as u64;
        path.check_size(found, self.limit)?;
        // All methods lock the log before the files. In another order two views could deadlock.
        let mut log = undo::lock(&self.log);
        let mut memory = self.memory();
        if is_directory(&memory.files, path) {
            return Err(FsError::IsDirectory { path: path.to_string() });
        }
        if let Some(file) = memory.file_above(path) {
            return Err(FsError::NotADirectory { path: file.to_string() });
        }
        let total = memory.bytes_with(path, Some(found));
        // Above the limit, a write is still accepted if it frees space.
        if total > self.total_limit && total > memory.bytes {
            let (path, limit) = (path.to_string(), self.total_limit);
            return Err(FsError::Full { path, limit, found: total });
        }
        let bytes: Arc<[u8]> = bytes.into();
        if log.has_marks(self.owner) {
            let before = memory.stored(path);
            let after = Some(StoredFile::new(Arc::clone(&bytes), 0).mark);
            log.add(self.owner, Change::File { path: path.clone(), before, after });
        }
        memory.set(path, Some(bytes));
        Ok(())
    }

    fn remove(&self, path: &FsPath) -> Result<(), FsError> {
        let mut log = undo::lock(&self.log);
        let mut memory = self.memory();
        if memory.files.contains_key(path) {
            if log.has_marks(self.owner) {
                let before = memory.stored(path);
                log.add(self.owner, Change::File { path: path.clone(), before, after: None });
            }
            memory.set(path, None);
            return Ok(());
        }
        Err(if is_directory(&memory.files, path) {
            FsError::IsDirectory { path: path.to_string() }
        } else {
            FsError::NotFound { path: path.to_string() }
        })
    }

    fn entry(&self, path: &FsPath) -> Result<Option<Entry>, FsError> {
        let memory = self.memory();
        let entry =
            |is_directory, size_bytes| Entry { path: path.to_string(), is_directory, size_bytes };
        Ok(match memory.files.get(path) {
            Some(bytes) => Some(entry(false, bytes.len() as u64)),
            None => is_directory(&memory.files, path).then(|| entry(true, 0)),
        })
    }

    fn list(&self, directory: &FsPath) -> Result<Vec<Entry>, FsError> {
        let memory = self.memory();
        let files = &memory.files;
        if files.contains_key(directory) {
            return Err(FsError::NotADirectory { path: directory.to_string() });
        }
        if !is_directory(files, directory) {
            return Err(FsError::NotFound { path: directory.to_string() });
        }
        let depth = directory.steps().count();
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        for (path, bytes) in below(files, directory) {
            let Some(name) = path.steps().nth(depth) else { continue };
            let is_directory = path.steps().count() > depth + 1;
            let size_bytes = if is_directory { 0 } else { bytes.len() as u64 };
            let shown = directory.join(name).to_string();
            let entry = Entry { path: shown, is_directory, size_bytes };
            entries.entry(name.to_owned()).or_insert(entry);
        }
        Ok(entries.into_values().collect())
    }

    fn max_file_bytes(&self) -> u64 {
        self.limit
    }

    fn view(&self) -> Option<Arc<dyn Filesystem>> {
        let owner = undo::lock(&self.log).next_id();
        let (memory, log) = (Arc::clone(&self.memory), Arc::clone(&self.log));
        let (limit, total_limit) = (self.limit, self.total_limit);
        Some(Arc::new(Self { memory, log, owner, limit, total_limit }))
    }
}

impl Snapshot for MemoryFs {
    fn name(&self) -> &str {
        "files in memory"
    }

    fn snapshot(&self) -> Result<SavedState, BoxError> {
        Ok(SavedState::new(Mark::set(&self.log, self.owner)))
    }

    fn restore(&self, saved: SavedState) -> Result<(), BoxError> {
        let mark: Mark = saved.take()?;
        mark.check(&self.log)?;
        let mut log = undo::lock(&self.log);
        let mut memory = self.memory();
        for change in log.take_since(&mark) {
            let Change::File { path, before, after } = change else { continue };
            let fits = before.is_none()
                || !is_directory(&memory.files, &path) && memory.file_above(&path).is_none();
            if fits && undo::holds(memory.stored(&path).as_ref(), after) {
                memory.set(&path, before.map(|file| file.bytes));
            }
        }
        drop((memory, log));
        Ok(())
    }
}
