//! The import cache: the results of reading files, so that unchanged files are not read again.
//!
//! The cache contains no messages. For each file it stores its identity, the branches of its
//! conversations, and the import's report. It is derived data: an entry is valid only while the
//! file is unchanged and every branch still contains its commits; otherwise the file is read.

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

/// The version of the file's layout. Other versions are ignored.
const FORMAT: u32 = 3;
/// Maximum file size in bytes. Beyond it, the entries that were read longest ago are dropped.
const MAX_BYTES: usize = 32 << 20;
/// Maximum entry size in bytes. A recording with many anomalies is read every time.
const MAX_ENTRY_BYTES: usize = 64 << 10;
/// Minimum age of a file's last modification when it is read. File systems round times, so a file
/// modified within this time may change again without a new stamp.
const SETTLING: Duration = Duration::from_secs(2);

/// The first line of the file, which is checked before the other lines are used.
#[derive(Serialize, Deserialize)]
struct Header {
    format: u32,
    /// The build that read the files.
    reader: String,
    /// The hash of all lines after it.
    sum: String,
}

/// A cache of the results of earlier imports into one repository, for
/// [`import_cached`](crate::import_cached).
///
/// It only makes an import faster: branches, reports and errors are those of
/// [`import`](crate::import()). A cache belongs to one repository of one store.
#[derive(Debug)]
pub struct ImportCache {
    reader: String,
    files: HashMap<PathBuf, StoredFile>,
    /// The file of each branch; `None` if several files share a branch, which are then all read
    /// every time.
    owners: HashMap<String, Option<PathBuf>>,
    is_changed: bool,
    unchanged: usize,
}

impl ImportCache {
    /// Creates an empty cache. `reader` names the build that reads: entries of other builds are
    /// ignored.
    pub fn new(reader: impl Into<String>) -> Self {
        Self {
            reader: reader.into(),
            files: HashMap::new(),
            owners: HashMap::new(),
            is_changed: false,
            unchanged: 0,
        }
    }

    /// Reads a cache file. The cache is empty if the file is missing, damaged, too large, or from
    /// another build.
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

    /// Writes the cache to a file, all or nothing, if it changed since it was opened. Only the
    /// owner can read the file.
    ///
    /// # Errors
    /// When the file cannot be written. The previous file is then unchanged.
    pub fn save(&mut self, path: &Path) -> io::Result<()> {
        if !self.is_changed {
            return Ok(());
        }
        let mut files: Vec<(&PathBuf, &StoredFile)> = self.files.iter().collect();
        // Newest first, so that the limit leaves out those that were not read for longest.
        files.sort_by_key(|(path, file)| (std::cmp::Reverse(file.read_at), *path));
        let mut body = Vec::new();
        for (path, file) in files {
            let Ok(line) = serde_json::to_vec(&(path, file)) else { continue };
            if line.len() > MAX_ENTRY_BYTES {
                continue;
            }
            // The header and line ends are well below this.
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

    /// Returns the number of unchanged files that the last import skipped.
    pub fn unchanged_files(&self) -> usize {
        self.unchanged
    }

    pub(crate) fn begin(&mut self) {
        self.unchanged = 0;
    }

    pub(crate) fn count_unchanged(&mut self) {
        self.unchanged += 1;
    }

    /// Returns the entry of a file, if the file is unchanged.
    pub(crate) fn find(&self, file: &SessionFile, redact: bool) -> Option<&StoredFile> {
        if !file.channels().is_empty() {
            return None;
        }
        let key = key(file)?;
        let stored = self.files.get(&key)?;
        let is_same = stored.source == file.source().as_str()
            && stored.redact == redact
            // If the clock went backwards, the order of the two times is meaningless.
            && stored.read_at <= micros(SystemTime::now())?
            && Stamp::of(file.path())? == stored.stamp;
        is_same.then_some(stored)
    }

    /// Stores the result of reading a file, replacing an earlier one.
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

/// Returns the cache key of a file; `None` unless it is a single file that is read as a whole.
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

/// The state of a file before it is read, for remembering the result.
pub(crate) struct ReadFile {
    stamp: Stamp,
    read_at: u64,
}

impl ReadFile {
    /// Takes the state of a file; `None` if the result must not be remembered.
    pub(crate) fn begin(file: &SessionFile) -> Option<Self> {
        key(file)?;
        let now = SystemTime::now();
        let stamp = Stamp::of(file.path())?;
        stamp.is_settled(now.checked_sub(SETTLING)?).then_some(())?;
        Some(Self { stamp, read_at: micros(now)? })
    }

    /// Creates the entry after reading; `None` if the file changed while it was read.
    pub(crate) fn end(self, file: &SessionFile, redact: bool) -> Option<StoredFile> {
        // If the file changed while it was read, the result may match neither of its versions.
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

/// Replaces a file atomically.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // Not flushed: a cache that a loss of power damages does not match its sum, and is made again.
    let written = options
        .open(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        // Remove the incomplete temporary file.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}
