//! Watches files for changes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime};

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tract::import::{self, SessionFile, SessionFilter, Source};

/// Quiet time after an event before changes are handled.
const QUIET: Duration = Duration::from_millis(200);
/// Maximum delay of the handling during a stream of events.
const PATIENCE: Duration = Duration::from_millis(600);
/// Interval at which files are checked without an event: events may be lost, and some file systems
/// do not send any.
const INTERVAL: Duration = Duration::from_secs(1);
/// A file that was written within this time may change again without a difference in size or time,
/// as file systems round times. It is read once more later.
const SETTLING: Duration = Duration::from_secs(2);

/// An event that wakes the loop.
#[derive(Debug)]
pub(super) enum Wakeup {
    /// Something may have changed.
    Changed,
    /// The user interrupted it.
    Stop,
}

/// Watches files and folders. If that fails, they are only polled.
pub(super) struct Watch {
    _watcher: Option<RecommendedWatcher>,
}

impl Watch {
    /// Starts to watch. The error is the reason why some or all of the paths are not watched.
    pub(super) fn start(
        paths: &[PathBuf],
        wake: Sender<Wakeup>,
    ) -> (Self, Result<(), notify::Error>) {
        let handler = move |event: notify::Result<notify::Event>| {
            // Reads cause events, too, and the import itself reads.
            let is_read = event.as_ref().is_ok_and(|event| match event.kind {
                EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
                EventKind::Access(_) => true,
                _ => false,
            });
            if !is_read {
                // The receiver may have ended already.
                let _ = wake.send(Wakeup::Changed);
            }
        };
        let mut watcher = match notify::recommended_watcher(handler) {
            Ok(watcher) => watcher,
            Err(error) => return (Self { _watcher: None }, Err(error)),
        };
        let mut watched = Ok(());
        for path in paths {
            let done = match path.parent() {
                _ if path.is_dir() => watcher.watch(path, RecursiveMode::Recursive),
                // A replaced file is a new file under the same name, which only the folder reports.
                Some(folder) if folder.as_os_str().is_empty() => {
                    watcher.watch(Path::new("."), RecursiveMode::NonRecursive)
                }
                Some(folder) => watcher.watch(folder, RecursiveMode::NonRecursive),
                None => watcher.watch(path, RecursiveMode::NonRecursive),
            };
            watched = watched.and(done);
        }
        (Self { _watcher: Some(watcher) }, watched)
    }
}

/// Waits until something may have changed and a quiet moment has passed, or until the next poll.
/// Returns whether to continue.
pub(super) fn wait(wakeups: &Receiver<Wakeup>, last_scan: Duration) -> bool {
    // Scanning many files takes long. The interval grows with it, so that scans take at most 5 % of
    // the time.
    let interval = INTERVAL.max(last_scan.saturating_mul(20));
    match wakeups.recv_timeout(interval) {
        Ok(Wakeup::Changed) => {}
        Err(RecvTimeoutError::Timeout) => return true,
        Ok(Wakeup::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
    }
    let first = Instant::now();
    loop {
        let left = PATIENCE.saturating_sub(first.elapsed()).min(QUIET);
        match wakeups.recv_timeout(left) {
            Ok(Wakeup::Changed) if !left.is_zero() => {}
            Ok(Wakeup::Changed) | Err(RecvTimeoutError::Timeout) => return true,
            Ok(Wakeup::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

/// Metadata that shows a write to a file without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp(Vec<StampEntry>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct StampEntry {
    name: OsString,
    len: u64,
    modified: Option<SystemTime>,
    /// The file id and the time of the last status change, if the system has them.
    identity: (u64, i64, i64),
}

impl StampEntry {
    fn of(name: OsString, file: &Metadata) -> Self {
        Self { name, len: file.len(), modified: file.modified().ok(), identity: identity(file) }
    }
}

#[cfg(unix)]
fn identity(file: &Metadata) -> (u64, i64, i64) {
    use std::os::unix::fs::MetadataExt as _;
    (file.ino(), file.ctime(), file.ctime_nsec())
}

#[cfg(not(unix))]
fn identity(_file: &Metadata) -> (u64, i64, i64) {
    (0, 0, 0)
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        let file = fs::metadata(path)?;
        let mut entries = vec![StampEntry::of(OsString::new(), &file)];
        if file.is_dir() {
            // A conversation with a file per event.
            for folder in [path.to_owned(), path.join("events")] {
                let Ok(listed) = fs::read_dir(folder) else { continue };
                for entry in listed {
                    let entry = entry?;
                    entries.push(StampEntry::of(entry.file_name(), &entry.metadata()?));
                }
            }
            entries.sort_by(|a, b| a.name.cmp(&b.name));
        } else {
            // A database has its latest writes in a separate file next to it.
            let mut log = path.as_os_str().to_owned();
            log.push("-wal");
            if let Ok(file) = fs::metadata(&log) {
                entries.push(StampEntry::of(log, &file));
            }
        }
        Ok(Self(entries))
    }

    /// Returns whether the file was quiet for some time, by its own times.
    fn is_old(&self) -> bool {
        let now = SystemTime::now();
        let is_old = |entry: &StampEntry| {
            let age = entry.modified.and_then(|modified| now.duration_since(modified).ok());
            age.is_some_and(|age| age >= SETTLING)
        };
        self.0.iter().all(is_old)
    }
}

/// The state of a file when it was imported.
struct Known {
    stamp: Stamp,
    seen: Instant,
    /// Whether every later change gives another stamp.
    is_settled: bool,
}

/// A file to import.
pub(super) struct ChangedFile {
    pub(super) file: SessionFile,
    /// Whether the file seems to be complete, so that its errors are permanent.
    pub(super) is_settled: bool,
    stamp: Stamp,
}

/// The files of agent tools, with their state when they were imported.
pub(super) struct Files {
    roots: Vec<(Source, PathBuf)>,
    filter: SessionFilter,
    known: BTreeMap<PathBuf, Known>,
    /// The session of each file, as far as it was read.
    sessions: BTreeMap<PathBuf, Option<String>>,
}

impl Files {
    pub(super) fn new(roots: Vec<(Source, PathBuf)>, filter: SessionFilter) -> Self {
        Self { roots, filter, known: BTreeMap::new(), sessions: BTreeMap::new() }
    }

    /// Returns the files that changed since they were imported.
    ///
    /// # Errors
    /// If a folder cannot be listed, with its path.
    pub(super) fn changed(&self) -> Result<Vec<ChangedFile>, (PathBuf, io::Error)> {
        let mut changed = Vec::new();
        for file in self.listed()? {
            // Skips a file that was removed after it was listed.
            let Ok(stamp) = Stamp::of(file.path()) else { continue };
            let (is_same, is_settled) = match self.known.get(file.path()) {
                Some(known) if known.stamp == stamp => {
                    (known.is_settled, known.seen.elapsed() >= SETTLING)
                }
                _ => (false, stamp.is_old()),
            };
            if !is_same && (is_settled || self.is_new(file.path(), &stamp)) {
                changed.push(ChangedFile { file, is_settled, stamp });
            }
        }
        Ok(changed)
    }

    fn is_new(&self, path: &Path, stamp: &Stamp) -> bool {
        self.known.get(path).is_none_or(|known| known.stamp != *stamp)
    }

    /// Lists every file once.
    fn listed(&self) -> Result<Vec<SessionFile>, (PathBuf, io::Error)> {
        let mut paths = BTreeSet::new();
        let mut files = Vec::new();
        for (source, root) in &self.roots {
            let found =
                import::session_files(*source, std::slice::from_ref(root), &SessionFilter::new());
            match found {
                Ok(found) => {
                    files.extend(found.into_iter().filter(|f| paths.insert(f.path().to_owned())));
                }
                // The folder was removed, or is being replaced.
                Err((_, error))
                    if error.kind() == io::ErrorKind::NotFound && !self.known.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    /// Returns the changed files that pass the filter, and remembers the others.
    pub(super) fn choose(&mut self, changed: Vec<ChangedFile>) -> Vec<ChangedFile> {
        let mut chosen = Vec::with_capacity(changed.len());
        for changed in changed {
            match self.is_meant(&changed.file) {
                true => chosen.push(changed),
                false => self.remember(&changed),
            }
        }
        chosen
    }

    /// Returns whether a file passes the filter. An unreadable one does, so that the import reports
    /// it.
    fn is_meant(&self, file: &SessionFile) -> bool {
        let path = [file.path().to_owned()];
        let found = import::session_files(file.source(), &path, &self.filter);
        found.map_or(true, |found| !found.is_empty())
    }

    /// Remembers a file with its stamp from before it was read. A write during the read changes the
    /// stamp, so that the file is read again.
    pub(super) fn remember(&mut self, changed: &ChangedFile) {
        let known = Known {
            stamp: changed.stamp.clone(),
            seen: Instant::now(),
            is_settled: changed.is_settled,
        };
        self.known.insert(changed.file.path().to_owned(), known);
    }

    /// Returns the unchanged sessions that started the subagents of changed files. The import of a
    /// subagent needs its call, which is only in its session.
    pub(super) fn callers(&mut self, changed: &[ChangedFile]) -> Vec<SessionFile> {
        let mut agents = Vec::new();
        for ChangedFile { file, .. } in changed {
            self.sessions.remove(file.path());
            if file.is_agent() {
                agents.extend(self.session_of(file));
            }
        }
        if agents.is_empty() {
            return Vec::new();
        }
        let is_changed: BTreeSet<&Path> =
            changed.iter().map(|changed| changed.file.path()).collect();
        let mut callers = self.listed().unwrap_or_default();
        callers.retain(|file| {
            let is_session = file.source() == Source::ClaudeCode && !file.is_agent();
            let is_other = is_session && !is_changed.contains(file.path());
            let is_named = |id: &String| file.path().file_stem() == Some(id.as_ref());
            is_other
                && (agents.iter().any(is_named)
                    || self.session_of(file).is_some_and(|id| agents.contains(&id)))
                && self.is_meant(file)
        });
        callers
    }

    /// Returns the session of a file, which is read once.
    fn session_of(&mut self, file: &SessionFile) -> Option<String> {
        if let Some(known) = self.sessions.get(file.path()) {
            return known.clone();
        }
        let session = file.session_id().unwrap_or_default();
        self.sessions.insert(file.path().to_owned(), session.clone());
        session
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn watching_what_is_not_there_is_an_error_and_files_are_looked_at_without_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (wake, wakeups) = mpsc::channel();
        let missing = folder.path().join("missing/inner/file");
        let (_watch, watched) = Watch::start(&[missing], wake.clone());
        assert!(watched.is_err());
        assert!(wait(&wakeups, Duration::ZERO), "it is time to look");
        wake.send(Wakeup::Stop).expect("it is heard");
        assert!(!wait(&wakeups, Duration::ZERO));
    }

    #[test]
    fn a_file_is_changed_until_it_is_remembered_and_once_more_when_it_settled() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.traj");
        fs::write(&path, "one").expect("it is written");
        let roots = vec![(Source::SweAgent, folder.path().to_owned())];
        let mut files = Files::new(roots, SessionFilter::new());
        let changed = files.changed().expect("it is listed");
        assert_eq!(changed.len(), 1);
        assert!(!changed[0].is_settled, "it was written just now");
        files.remember(&changed[0]);
        assert!(files.changed().expect("it is listed").is_empty());
        // The same size: only the time differs.
        fs::write(&path, "two").expect("it is written");
        let long_ago = SystemTime::now() - Duration::from_secs(60);
        let file = fs::File::options().write(true).open(&path).expect("it opens");
        file.set_modified(long_ago).expect("a time");
        let changed = files.changed().expect("it is listed");
        assert!(changed.len() == 1 && changed[0].is_settled);
        files.remember(&changed[0]);
        assert!(files.changed().expect("it is listed").is_empty());
        // A file that was written just before it was read is read again later.
        if let Some(known) = files.known.get_mut(&path) {
            known.is_settled = false;
            known.seen = Instant::now().checked_sub(SETTLING).expect("a while ago");
        }
        let changed = files.changed().expect("it is listed");
        assert!(changed.len() == 1 && changed[0].is_settled);
        fs::remove_dir_all(folder.path()).expect("it is removed");
        assert!(files.changed().expect("a folder that is gone has no files").is_empty());
    }
}
