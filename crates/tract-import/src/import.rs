//! From files to conversations: each file by the reader of its tool, all through one writer.

mod reading;
mod unchanged;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use tract_engine::{Error, Repo};
use tract_secrets::Scanner;

use self::unchanged::unchanged;
use crate::cache::{ImportCache, ReadFile, StoredFile};
use crate::callers::Callers;
use crate::facts::Facts;
use crate::recording::Recording;
use crate::report::SessionReport;
use crate::source::SessionFile;
use crate::writer::{PlacedSession, TreeWriter};

/// A reader of a format that has a line for each thing it says.
pub(crate) trait LineReader {
    /// What is read so far.
    fn recording(&mut self) -> &mut Recording;

    /// Takes a line.
    ///
    /// # Errors
    /// When it is no JSON of the format.
    fn line(&mut self, number: usize, bytes: &[u8]) -> Result<(), serde_json::Error>;

    /// Ends the file.
    fn finish(&mut self) -> Facts;
}

/// Why a file was not read.
pub(crate) enum ReadError {
    File(io::Error),
    Engine(Error),
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

/// How files are imported.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RecordingOptions {
    /// Whether secrets are replaced by marks; on unless told otherwise.
    pub redact: bool,
}

impl Default for RecordingOptions {
    fn default() -> Self {
        Self { redact: true }
    }
}

/// Imports files of agent tools, each conversation with its branches.
///
/// # Behavior
/// - A file with a line for each message is read line by line; memory holds one line, the ids of the
///   messages, and the messages of one durable write. A document is read as a whole.
/// - What a commit says is in the file alone, so importing again writes nothing, and a file that has
///   grown continues its branches, wherever it was cut.
/// - A branch that has other commits is left alone; the conversation gets a branch next to it.
/// - A file that cannot be read is reported in its place; the others are imported. `each` is called
///   once for every conversation of a file, or once with the reason.
/// - Secrets are replaced by marks, as `options` says; reports count them and never quote them.
///
/// # Errors
/// When the store fails, or other writers kept moving the branches.
pub async fn import(
    repo: &Repo,
    files: &[SessionFile],
    options: &RecordingOptions,
    each: impl FnMut(&Path, Result<SessionReport, io::Error>),
) -> crate::Result<()> {
    run(repo, files, options, None, each).await
}

/// Imports files as [`import()`] does, without reading again what a cache knows of.
///
/// # Behavior
/// - A file is not read where it is the one that the cache has, by its size, its times and its
///   identity, was written to no later than two seconds before it was read, and all its branches
///   still have what was read of it. Branches, reports and their order are those of [`import()`].
/// - What is read is added to the cache; [`ImportCache::save`] writes it to a file.
///
/// # Errors
/// As [`import()`].
pub async fn import_cached(
    repo: &Repo,
    files: &[SessionFile],
    options: &RecordingOptions,
    cache: &mut ImportCache,
    each: impl FnMut(&Path, Result<SessionReport, io::Error>),
) -> crate::Result<()> {
    run(repo, files, options, Some(cache), each).await
}

async fn run(
    repo: &Repo,
    files: &[SessionFile],
    options: &RecordingOptions,
    mut cache: Option<&mut ImportCache>,
    mut each: impl FnMut(&Path, Result<SessionReport, io::Error>),
) -> crate::Result<()> {
    let scanner = options.redact.then(Scanner::builtin);
    // A subagent's document names the call in its session, so sessions come first.
    let (agents, sessions): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.is_agent());
    let files: Vec<&SessionFile> = sessions.into_iter().chain(agents).collect();
    let mut known = match &mut cache {
        Some(cache) => unchanged(repo, cache, &files, options.redact).await?,
        None => HashMap::new(),
    };
    let mut run = ImportRun {
        writer: TreeWriter::new(repo, scanner)?,
        callers: Callers::default(),
        waiting: VecDeque::new(),
        done: VecDeque::new(),
        number: 0,
        files: BTreeMap::new(),
    };
    let file_count = files.len();
    for (number, file) in files.into_iter().enumerate() {
        run.number = number;
        if let Some(known) = known.remove(&number)
            && run.leave(file, known)
        {
            cache.iter_mut().for_each(|cache| cache.count_unchanged());
            run.report(&mut cache, &mut each);
            continue;
        }
        let read = cache.is_some().then(|| ReadFile::begin(file)).flatten();
        match run.file(file).await {
            Ok(()) => {
                let callers = run.callers.end_file();
                let mut stored = read.and_then(|read| read.end(file, options.redact));
                if let Some(stored) = &mut stored {
                    stored.callers = callers;
                }
                run.files.insert(number, OpenFile { file: file.clone(), stored });
            }
            Err(ReadError::File(error)) => {
                run.writer.forget();
                run.callers.end_file();
                each(file.path(), Err(error));
            }
            Err(ReadError::Engine(error)) => return Err(error.into()),
        }
        run.report(&mut cache, &mut each);
    }
    let done = run.writer.finish().await?;
    run.done.extend(done);
    run.report(&mut cache, &mut each);
    tracing::debug!(
        target: "tract::import",
        unchanged = cache.as_ref().map_or(0, |cache| cache.unchanged_files()),
        files = file_count,
        "imported files"
    );
    Ok(())
}

/// A conversation that is not reported yet.
enum WaitingReport {
    /// It was read from this file, and its branches are not placed.
    Read { number: usize, path: PathBuf },
    /// Nothing changed.
    Unchanged { path: PathBuf, report: Box<SessionReport> },
}

/// A file that was read, until all its conversations are placed.
struct OpenFile {
    file: SessionFile,
    stored: Option<StoredFile>,
}

/// An import at work.
pub(crate) struct ImportRun<'a> {
    writer: TreeWriter<'a>,
    callers: Callers,
    /// What is not reported, in the order of the files.
    waiting: VecDeque<WaitingReport>,
    /// What was placed and is not reported, in the same order.
    done: VecDeque<PlacedSession>,
    /// The number of the file that is read.
    number: usize,
    /// The files that were read, by their numbers.
    files: BTreeMap<usize, OpenFile>,
}

impl ImportRun<'_> {
    /// Passes over a file that did not change; returns whether that is possible, given the files
    /// before it.
    fn leave(&mut self, file: &SessionFile, known: StoredFile) -> bool {
        let is_same = known
            .callers
            .asked
            .iter()
            .all(|(agent, caller)| self.callers.get(agent) == caller.as_ref());
        // A file before it that has the same branch may have changed what belongs to it.
        if !is_same || known.branches().any(|name| self.writer.has_branch(name)) {
            return false;
        }
        let reports: Option<Vec<SessionReport>> =
            known.sessions.iter().map(|session| session.report()).collect();
        let Some(reports) = reports else { return false };
        for (agent, caller) in known.callers.offered {
            self.callers.add(agent, caller);
        }
        self.waiting.extend(reports.into_iter().map(|report| WaitingReport::Unchanged {
            path: file.path().to_owned(),
            report: Box::new(report),
        }));
        true
    }

    fn report(
        &mut self,
        cache: &mut Option<&mut ImportCache>,
        each: &mut impl FnMut(&Path, Result<SessionReport, io::Error>),
    ) {
        while let Some(next) = self.waiting.pop_front() {
            match next {
                WaitingReport::Unchanged { path, report } => each(&path, Ok(*report)),
                WaitingReport::Read { number, path } => {
                    let Some(placed) = self.done.pop_front() else {
                        self.waiting.push_front(WaitingReport::Read { number, path });
                        break;
                    };
                    if let Some(open) = self.files.get_mut(&number) {
                        match (&mut open.stored, placed.stored) {
                            (Some(file), Some(session)) => file.sessions.push(session),
                            (stored, _) => *stored = None,
                        }
                    }
                    each(&path, Ok(placed.report));
                }
            }
        }
        let Some(cache) = cache else { return };
        // What waits is of files that are still to be placed, in order.
        let first = match self.waiting.front() {
            Some(WaitingReport::Read { number, .. }) => *number,
            Some(WaitingReport::Unchanged { .. }) | None => usize::MAX,
        };
        let open = self.files.split_off(&first);
        for OpenFile { file, stored } in std::mem::replace(&mut self.files, open).into_values() {
            cache.remember(&file, stored);
        }
    }
}
