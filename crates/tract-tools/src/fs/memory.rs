//! A filesystem that is nowhere but here.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Entry, Filesystem, FsError, FsPath};
use crate::snapshot::{BoxError, Saved, Snapshot};

/// Files by path; directories are there as long as something is in them.
type Files = BTreeMap<FsPath, Arc<[u8]>>;

/// A filesystem in memory. A snapshot copies nothing.
///
/// Directories are not kept: one exists while a file is in it.
#[derive(Default)]
pub struct MemoryFs(Mutex<Arc<Files>>);

impl fmt::Debug for MemoryFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryFs").field("files", &self.files().len()).finish()
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
    /// [`FsError`] when a path is none, or one is in another that is a file.
    pub fn of<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, FsError> {
        let made = Self::new();
        for (path, text) in files {
            made.write(&FsPath::parse(path)?, text.as_bytes())?;
        }
        Ok(made)
    }

    fn files(&self) -> MutexGuard<'_, Arc<Files>> {
        // Each change is one step, so a panic leaves it usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    let directory = directory.clone();
    // Between `a` and `a/b` there may be `a-b`: names sort by bytes, and `/` is not the first.
    let first = directory.join("");
    let start = if directory.is_root() { directory.clone() } else { first };
    files
        .range(start..)
        .take_while({
            let prefix = match directory.is_root() {
                true => String::new(),
                false => format!("{directory}/"),
            };
            move |(path, _)| path.as_str().starts_with(&prefix)
        })
        .filter(move |(path, _)| **path != directory)
}

impl Filesystem for MemoryFs {
    fn read(&self, path: &FsPath) -> Result<Vec<u8>, FsError> {
        let files = self.files();
        match files.get(path) {
            Some(bytes) => Ok(bytes.to_vec()),
            None if is_directory(&files, path) => {
                Err(FsError::IsDirectory { path: path.to_string() })
            }
            None => Err(FsError::NotFound { path: path.to_string() }),
        }
    }

    fn write(&self, path: &FsPath, bytes: &[u8]) -> Result<(), FsError> {
        let mut files = self.files();
        if is_directory(&files, path) {
            return Err(FsError::IsDirectory { path: path.to_string() });
        }
        let parents = std::iter::successors(path.parent(), FsPath::parent);
        if let Some(file) = parents.into_iter().find(|parent| files.contains_key(parent)) {
            return Err(FsError::NotADirectory { path: file.to_string() });
        }
        Arc::make_mut(&mut files).insert(path.clone(), bytes.into());
        Ok(())
    }

    fn remove(&self, path: &FsPath) -> Result<(), FsError> {
        let mut files = self.files();
        if Arc::make_mut(&mut files).remove(path).is_some() {
            return Ok(());
        }
        Err(match is_directory(&files, path) {
            true => FsError::IsDirectory { path: path.to_string() },
            false => FsError::NotFound { path: path.to_string() },
        })
    }

    fn entry(&self, path: &FsPath) -> Result<Option<Entry>, FsError> {
        let files = self.files();
        let entry =
            |is_directory, size_bytes| Entry { path: path.to_string(), is_directory, size_bytes };
        Ok(match files.get(path) {
            Some(bytes) => Some(entry(false, bytes.len() as u64)),
            None => is_directory(&files, path).then(|| entry(true, 0)),
        })
    }

    fn list(&self, directory: &FsPath) -> Result<Vec<Entry>, FsError> {
        let files = self.files();
        if files.contains_key(directory) {
            return Err(FsError::NotADirectory { path: directory.to_string() });
        }
        if !is_directory(&files, directory) {
            return Err(FsError::NotFound { path: directory.to_string() });
        }
        let depth = directory.steps().count();
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        for (path, bytes) in below(&files, directory) {
            let Some(name) = path.steps().nth(depth) else { continue };
            let is_directory = path.steps().count() > depth + 1;
            let size_bytes = if is_directory { 0 } else { bytes.len() as u64 };
            let shown = directory.join(name).to_string();
            let entry = Entry { path: shown, is_directory, size_bytes };
            entries.entry(name.to_owned()).or_insert(entry);
        }
        Ok(entries.into_values().collect())
    }
}

impl Snapshot for MemoryFs {
    fn name(&self) -> &str {
        "files in memory"
    }

    fn snapshot(&self) -> Result<Saved, BoxError> {
        Ok(Saved::new(Arc::clone(&self.files())))
    }

    fn restore(&self, saved: Saved) -> Result<(), BoxError> {
        *self.files() = saved.take()?;
        Ok(())
    }
}
