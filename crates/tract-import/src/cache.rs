//! What was read of files, so that files that did not change need not be read again.
//!
//! The cache holds no message: of each file its identity, the branches that its conversations made,
//! and what the import reported. It is derived data. An entry counts only while the file is the same
//! and every branch still has what was read of it; else the file is read.

mod stamp;
mod stored;

use std::collections::{HashMap, HashSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tract_core::Blob;

pub(crate) use self::stamp::Stamp;
pub(crate) use self::stored::{PlacedBranch, StoredFile, StoredSession, name_of};
use crate::callers::FileCallers;
use crate::source::SessionFile;

/// The layout of the file. Another one is not read.
const FORMAT: u32 = 3;
/// Bytes of the file at most. Beyond that, the entries that were read longest ago are left out.
const MAX_BYTES: usize = 32 << 20;
/// Bytes of an entry at most: a recording with many anomalies is read again.
const MAX_ENTRY_BYTES: usize = 64 << 10;
/// A file that was written to within this time before it was read may have changed since without
/// another stamp: file systems keep times in steps.
const SETTLING: Duration = Duration::from_secs(2);

/// The first line of the file: what must hold for the rest to be read.
#[derive(Serialize, Deserialize)]
struct Header {
    format: u32,
    /// The build that read the files.
    reader: String,
    /// The hash of all that follows.
    sum: String,
}

/// What earlier imports into one repository read, for [`import_cached`](crate::import_cached).
///
/// It makes an import faster and changes nothing else: branches, reports and errors are those of
/// [`import`](crate::import()). One cache belongs to one repository of one store.
#[derive(Debug)]
pub struct ImportCache {
    reader: String,
    files: HashMap<PathBuf, StoredFile>,
    /// The file that made each branch; none where several did, which are all read each time.
    owners: HashMap<String, Option<PathBuf>>,
    is_changed: bool,
    unchanged: usize,
}

impl ImportCache {
    /// Makes an empty one. `reader` names the build that reads: entries of another one are not used.
    pub fn new(reader: impl Into<String>) -> Self {
        Self {
            reader: reader.into(),
            files: HashMap::new(),
            owners: HashMap::new(),
            is_changed: false,
            unchanged: 0,
        }
    }

    /// Reads the file of a cache. It is empty where there is none, or where it is damaged, too large,
    /// or of another build.
    pub fn open(path: &Path, reader: impl Into<String>) -> Self {
        let mut cache = Self::new(reader);
        let is_sound = std::fs::metadata(path).is_ok_and(|file| file.len() <= MAX_BYTES as u64);
        if let Some(files) = is_sound.then(|| read(path, &cache.reader)).flatten() {
            for (path, file) in files {
                cache.insert(path, file);
            }
            cache.is_changed = false;
        }
        cache
    }

    /// Writes the cache to a file, all of it or nothing, where anything changed since it was opened.
    /// The file is readable for its owner alone.
    ///
    /// # Errors
    /// When the file cannot be written; the one before it is left as it was.
    pub fn save(&mut self, path: &Path) -> io::Result<()> {
        if !self.is_changed {
            return Ok(());
        }
        let mut files: Vec<(&PathBuf, &StoredFile)> = self.files.iter().collect();
        files.sort_by_key(|(path, file)| (std::cmp::Reverse(file.read_at), *path));
        let mut body = Vec::new();
        for (path, file) in files {
            let Ok(line) = serde_json::to_vec(&(path, file)) else { continue };
            if line.len() > MAX_ENTRY_BYTES {
                continue;
            }
            // The header and the end of a line are well below this.
            if body.len() + line.len() + (1 << 10) > MAX_BYTES {
                break;
            }
            body.extend(line);
            body.push(b'\n');
        }
        let sum = sum_of(&body);
        let header = Header { format: FORMAT, reader: self.reader.clone(), sum };
        let mut bytes = serde_json::to_vec(&header).map_err(io::Error::from)?;
        bytes.push(b'\n');
        bytes.extend(body);
        replace(path, &bytes)?;
        self.is_changed = false;
        Ok(())
    }

    /// Returns how many files the last import did not read, as they had not changed.
    pub fn unchanged_files(&self) -> usize {
        self.unchanged
    }

    pub(crate) fn begin(&mut self) {
        self.unchanged = 0;
    }

    pub(crate) fn count_unchanged(&mut self) {
        self.unchanged += 1;
    }

    /// Returns what was read of a file, where it is the same as it was then.
    pub(crate) fn find(&self, file: &SessionFile, redact: bool) -> Option<&StoredFile> {
        if !file.channels().is_empty() {
            return None;
        }
        let key = key(file)?;
        let stored = self.files.get(&key)?;
        let is_same = stored.source == file.source().as_str()
            && stored.redact == redact
            // A clock that went backwards proves nothing about the order of two times.
            && stored.read_at <= micros(SystemTime::now())?
            && Stamp::of(file.path())? == stored.stamp;
        is_same.then_some(stored)
    }

    /// Remembers what was read of a file; what was known of it before counts no more.
    pub(crate) fn remember(&mut self, file: &SessionFile, read: Option<StoredFile>) {
        let Some(key) = key(file) else { return };
        self.remove(&key);
        if let Some(read) = read {
            self.insert(key, read);
        }
    }

    fn remove(&mut self, key: &Path) {
        let Some(file) = self.files.remove(key) else { return };
        self.is_changed = true;
        for name in file.branches() {
            if self.owners.get(name).is_some_and(|owner| owner.as_deref() == Some(key)) {
                self.owners.remove(name);
            }
        }
    }

    fn insert(&mut self, key: PathBuf, file: StoredFile) {
        let others: HashSet<Option<PathBuf>> =
            file.branches().filter_map(|name| self.owners.get(name).cloned()).collect();
        let is_shared = !others.is_empty();
        for other in others.into_iter().flatten() {
            self.remove(&other);
        }
        let owner = (!is_shared).then(|| key.clone());
        self.owners.extend(file.branches().map(|name| (name.to_owned(), owner.clone())));
        if !is_shared {
            self.files.insert(key, file);
            self.is_changed = true;
        }
    }
}

/// The file of a cache entry: one that is read as a whole, from one file.
fn key(file: &SessionFile) -> Option<PathBuf> {
    if file.url().is_some() {
        return None;
    }
    if !file.source().reader().is_whole {
        return None;
    }
    let path = std::path::absolute(file.path()).ok()?;
    path.to_str().is_some().then_some(path)
}

fn micros(time: SystemTime) -> Option<u64> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_micros()).ok()
}

/// A file as it is before it is read: what it takes to remember it.
pub(crate) struct ReadFile {
    stamp: Stamp,
    read_at: u64,
}

impl ReadFile {
    /// Begins with a file; `None` where nothing is to be remembered of it.
    pub(crate) fn begin(file: &SessionFile) -> Option<Self> {
        key(file)?;
        let now = SystemTime::now();
        let stamp = Stamp::of(file.path())?;
        stamp.is_settled(now.checked_sub(SETTLING)?).then_some(())?;
        Some(Self { stamp, read_at: micros(now)? })
    }

    /// Ends with a file that was read; `None` where it changed meanwhile.
    pub(crate) fn end(self, file: &SessionFile, redact: bool) -> Option<StoredFile> {
        let is_same = Stamp::of(file.path())? == self.stamp;
        is_same.then(|| StoredFile {
            source: file.source().as_str().to_owned(),
            redact,
            stamp: self.stamp,
            read_at: self.read_at,
            sessions: Vec::new(),
            callers: FileCallers::default(),
        })
    }
}

fn sum_of(body: &[u8]) -> String {
    Blob::seal(body.to_vec()).id().to_string()
}

fn read(path: &Path, reader: &str) -> Option<Vec<(PathBuf, StoredFile)>> {
    let bytes = std::fs::read(path).ok()?;
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (header, body) = bytes.split_at_checked(end)?;
    let body = body.get(1..)?;
    let header: Header = serde_json::from_slice(header).ok()?;
    if header.format != FORMAT || header.reader != reader || header.sum != sum_of(body) {
        return None;
    }
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).ok()).collect()
}

/// Puts a file in the place of another one.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options
        .open(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        // What is left of it is of no use.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}
