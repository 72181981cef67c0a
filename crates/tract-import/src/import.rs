//! Imports files: each is read by the reader of its tool, and one writer stores all of them.

mod reading;
mod steps;
mod unchanged;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use tract_engine::Repo;
use tract_secrets::Scanner;

pub(crate) use self::steps::{FileReader, ReadError};
use self::steps::{Step, Steps, Work};
use self::unchanged::unchanged;
use crate::cache::{ImportCache, StoredFile, StoredSession};
use crate::report::SessionReport;
use crate::source::SessionFile;
use crate::writer::{PlacedSession, TreeWriter};

/// Options of an import of files.
#[derive(Clone, Copy, Debug)]
pub struct RecordingOptions {
    /// Whether secrets are replaced by marks; default: true.
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
/// - A file with a line for each message is read line by line: memory holds one line, the ids of
///   the messages, the messages of one durable write, and up to 8 MiB waiting for it. A document is
///   read as a whole. Files are read on a separate thread while others are written.
/// - Commits contain only data from the file, so importing again writes nothing, and a file that
///   has grown continues its branches, wherever it was cut.
/// - A branch that has other commits is left alone; the conversation gets a branch next to it.
/// - For a file that cannot be read, the error is reported and the other files are imported. `each`
///   is called once for every conversation of a file, or once with the error.
/// - Secrets are replaced by marks if `options` require it; reports count them and never quote
///   them.
///
/// # Errors
/// When the store fails, other writers kept moving the branches, or no thread can be started.
pub async fn import(
    repo: &Repo,
    files: &[SessionFile],
    options: &RecordingOptions,
    each: impl FnMut(&Path, Result<SessionReport, io::Error>),
) -> crate::Result<()> {
    run(repo, files, options, None, each).await
}

/// Imports files as [`import()`] does, but skips files whose result is cached.
///
/// # Behavior
/// - A file is skipped if it has the size, times and identity of the cached one, was last written
///   more than two seconds before it was read, and all its branches still contain the commits read
///   from it. Branches, reports and their order are those of [`import()`].
/// - Results of reading are added to the cache; [`ImportCache::save`] writes it to a file.
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
    let (agents, sessions): (Vec<_>, Vec<_>) =
        files.iter().cloned().partition(|file| file.is_agent());
    let files: Vec<SessionFile> = sessions.into_iter().chain(agents).collect();
    let unchanged = match &mut cache {
        Some(cache) => unchanged(repo, cache, &files, options.redact).await?,
        None => HashMap::new(),
    };
    let mut run = ImportRun {
        writer: TreeWriter::new(repo, scanner)?,
        written: SessionReport::default(),
        waiting: VecDeque::new(),
        done: VecDeque::new(),
        number: 0,
        files: BTreeMap::new(),
    };
    let file_count = files.len();
    let work = Work { files, unchanged, remembers: cache.is_some(), scanner };
    let mut steps = Steps::start(work).map_err(crate::Error::Thread)?;
    while let Some(part) = steps.next() {
        for step in part {
            run.take(step, &mut cache, &mut each).await?;
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
    /// It was read from this file, and its branches are not placed yet.
    Read { number: usize, path: PathBuf },
    /// The file is unchanged.
    Unchanged { path: PathBuf, report: Box<SessionReport> },
}

/// A file that was read, until all its conversations are placed.
struct OpenFile {
    /// The placed conversations; `None` if one of them must be read again next time.
    sessions: Option<Vec<StoredSession>>,
    /// The file and its cache entry, once it was read to its end.
    read: Option<(SessionFile, Option<Box<StoredFile>>)>,
}

impl OpenFile {
    const fn new() -> Self {
        Self { sessions: Some(Vec::new()), read: None }
    }
}

/// A running import.
struct ImportRun<'a> {
    writer: TreeWriter<'a>,
    /// The writer's counts for the conversation that is being read.
    written: SessionReport,
    /// Conversations that are not reported yet, in the order of the files.
    waiting: VecDeque<WaitingReport>,
    /// Placed conversations that are not reported yet, in the same order.
    done: VecDeque<PlacedSession>,
    /// The number of the file that is being read.
    number: usize,
    /// Files with conversations that are not placed yet, by number.
    files: BTreeMap<usize, OpenFile>,
}

impl ImportRun<'_> {
    /// Processes the reader's next step.
    async fn take(
        &mut self,
        step: Step,
        cache: &mut Option<&mut ImportCache>,
        each: &mut impl FnMut(&Path, Result<SessionReport, io::Error>),
    ) -> crate::Result<()> {
        match step {
            Step::Event(event) => self.writer.add(event, &mut self.written).await?,
            Step::End { path, branch, documents, mut report } => {
                report.absorb(std::mem::take(&mut self.written));
                let number = self.number;
                self.files.entry(number).or_insert_with(OpenFile::new);
                self.waiting.push_back(WaitingReport::Read { number, path });
                self.done.extend(self.writer.end(branch, documents, *report).await?);
            }
            Step::File { file, stored } => {
                let open = self.files.entry(self.number).or_insert_with(OpenFile::new);
                open.read = Some((file, stored));
                self.number += 1;
            }
            Step::Unchanged { path, reports } => {
                cache.iter_mut().for_each(|cache| cache.count_unchanged());
                self.waiting.extend(reports.into_iter().map(|report| WaitingReport::Unchanged {
                    path: path.clone(),
                    report: Box::new(report),
                }));
                self.number += 1;
            }
            Step::Unread { path, error } => {
                self.writer.forget();
                self.written = SessionReport::default();
                self.files.remove(&self.number);
                self.number += 1;
                each(&path, Err(error));
            }
            Step::Broken(error) => return Err(error.into()),
        }
        Ok(())
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
                        match (&mut open.sessions, placed.stored) {
                            (Some(sessions), Some(session)) => sessions.push(session),
                            (sessions, _) => *sessions = None,
                        }
                    }
                    each(&path, Ok(placed.report));
                }
            }
        }
        // Files before the first waiting conversation are complete, so their cache entries can be
        // stored. The last file is still being read.
        let first = match self.waiting.front() {
            Some(WaitingReport::Read { number, .. }) => *number,
            Some(WaitingReport::Unchanged { .. }) | None => self.number,
        };
        let open = self.files.split_off(&first);
        for OpenFile { sessions, read } in std::mem::replace(&mut self.files, open).into_values() {
            let (Some(cache), Some((file, stored))) = (cache.as_deref_mut(), read) else {
                continue;
            };
            let stored = stored.zip(sessions);
            cache.remember(&file, stored.map(|(file, sessions)| StoredFile { sessions, ..*file }));
        }
    }
}
