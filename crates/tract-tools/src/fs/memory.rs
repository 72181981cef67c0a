//! A filesystem that is nowhere but here.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::undo::{self, Change, Mark, Shared, StoredFile};
use super::{Entry, FILE_LIMIT, Filesystem, FsError, FsPath};
use crate::snapshot::{BoxError, SavedState, Snapshot};

/// Bytes of all files and paths together, where nothing else is said.
const TOTAL_LIMIT: u64 = 256 << 20;
/// Bytes that a file counts besides its path and content.
const ENTRY_BYTES: u64 = 64;

/// Files by path; directories are there as long as something is in them.
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

    /// Returns how many bytes there are with a file of this size, or without it.
    fn bytes_with(&self, path: &FsPath, size: Option<u64>) -> u64 {
        let cost = |size: u64| size + path.as_str().len() as u64 + ENTRY_BYTES;
        let before = self.files.get(path).map_or(0, |bytes| cost(bytes.len() as u64));
        self.bytes.saturating_sub(before).saturating_add(size.map_or(0, cost))
    }

    fn stored(&self, path: &FsPath) -> Option<StoredFile> {
        self.files.get(path).map(|bytes| StoredFile::new(Arc::clone(bytes), 0))
    }

    /// Returns the file that is where a directory of a path would be.
    fn file_above(&self, path: &FsPath) -> Option<FsPath> {
        let mut parents = std::iter::successors(path.parent(), FsPath::parent);
        parents.find(|parent| self.files.contains_key(parent))
    }
}

/// A filesystem in memory. A snapshot copies nothing.
///
/// # Behavior
/// - Directories are not kept: one exists while a file is in it.
/// - A file has at most 16 MiB, and all of them together 256 MiB, unless other limits are set.
/// - [`restore`](Snapshot::restore) undoes what was changed through this view and still is there;
///   what others have changed since is left alone.
pub struct MemoryFs {
    memory: Arc<Mutex<Memory>>,
    log: Shared,
    owner: u64,
    limit: u64,
    total_limit: u64,
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
    /// Makes an empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes one of paths and texts.
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

    /// Sets how many bytes a file may have; 16 MiB by default.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// Sets how many bytes all files may have together, their paths and some 64 bytes for each
    /// included; 256 MiB by default.
    #[must_use]
    pub fn total_limit(mut self, bytes: u64) -> Self {
        self.total_limit = bytes;
        self
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Each change is one step, so a panic leaves it usable.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_directory(files: &Files, path: &FsPath) -> bool {
    path.is_root() || below(files, path).next().is_some()
}

/// Everything in a directory, at any depth.
fn below<'a>(
    files: &'a Files,
    directory: &FsPath,
) -> impl Iterator<Item = (&'a FsPath, &'a Arc<[u8]>)> + use<'a> {
    // Between `a` and `a/b` there may be `a-b`: names sort by bytes, and `/` is not the first.
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
        let mut log = undo::lock(&self.log);
        let mut memory = self.memory();
        if is_directory(&memory.files, path) {
            return Err(FsError::IsDirectory { path: path.to_string() });
        }
        if let Some(file) = memory.file_above(path) {
            return Err(FsError::NotADirectory { path: file.to_string() });
        }
        let total = memory.bytes_with(path, Some(found));
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
