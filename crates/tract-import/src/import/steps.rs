//! Reads files on a separate thread. Their contents go to the writer in parts, and the amount that
//! waits is bounded, so that reading and writing overlap and memory stays flat.
//!
//! The channel itself is unbounded, since it would count parts and not bytes. Instead the reader
//! reserves the bytes of a part in `Backlog` before it sends the part, and the writer releases them
//! when it asks for the next one. A part is accepted whenever nothing waits, so that one larger
//! than the limit cannot block forever. Dropping `Steps` closes the backlog, which wakes and ends
//! the reader.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use tract_core::JsonText;
use tract_engine::Error;
use tract_secrets::Scanner;

use crate::cache::{ReadFile, StoredFile};
use crate::callers::Callers;
use crate::redact::redact_event;
use crate::report::SessionReport;
use crate::source::SessionFile;
use crate::tree::TreeEvent;

/// Size of a part in bytes of content, unless a single message is larger.
const PART_BYTES: usize = 256 << 10;
/// Maximum number of steps in a part.
const PART_STEPS: usize = 256;
/// Maximum number of bytes of content that wait for the writer, unless a single message is larger.
/// Enough to keep reading while a group of commits becomes durable.
const WAITING_BYTES: usize = 8 << 20;

/// A step of the reader, in the order of the files.
pub(super) enum Step {
    /// The next event of the conversation.
    Event(TreeEvent),
    /// The conversation ends.
    End { path: PathBuf, branch: String, documents: Vec<JsonText>, report: Box<SessionReport> },
    /// The file ends; `stored` is its cache entry.
    File { file: SessionFile, stored: Option<Box<StoredFile>> },
    /// The file is unchanged and has these conversations.
    Unchanged { path: PathBuf, reports: Vec<SessionReport> },
    /// The file cannot be read, or not to its end.
    Unread { path: PathBuf, error: io::Error },
    /// The import fails.
    Broken(Error),
}

/// The reason why a file was not read.
pub(crate) enum ReadError {
    File(io::Error),
    Engine(Error),
    /// The writer is gone.
    Stopped,
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

/// The files to read.
pub(super) struct Work {
    /// The files; sessions come before their subagents.
    pub(super) files: Vec<SessionFile>,
    /// The cache entries of unchanged files, by file number.
    pub(super) unchanged: HashMap<usize, StoredFile>,
    /// Whether to create cache entries.
    pub(super) remembers: bool,
    pub(super) scanner: Option<&'static Scanner>,
}

/// Steps that are sent together, and their approximate size in memory.
struct Part {
    steps: Vec<Step>,
    bytes: usize,
}

/// The number of bytes that wait for the writer. Bounding the channel instead would bound the
/// number of parts, which may have any size.
#[derive(Default)]
struct Backlog {
    state: Mutex<BacklogState>,
    changed: Condvar,
}

#[derive(Default)]
struct BacklogState {
    bytes: usize,
    is_closed: bool,
}

impl Backlog {
    /// Waits for space and reserves it. Returns whether the writer is still there.
    fn add(&self, bytes: usize) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |state: &mut BacklogState| {
            // While nothing waits, a part of any size is accepted: the writer never asks for less.
            let is_over = state.bytes.saturating_add(bytes) > WAITING_BYTES;
            !state.is_closed && state.bytes > 0 && is_over
        };
        let waited = self.changed.wait_while(state, is_full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.bytes = state.bytes.saturating_add(bytes);
        !state.is_closed
    }

    fn remove(&self, bytes: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.bytes = state.bytes.saturating_sub(bytes);
        self.changed.notify_one();
    }

    fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.changed.notify_one();
    }
}

/// The steps of a running reader. Dropping this ends the reader.
pub(super) struct Steps {
    parts: Receiver<Part>,
    backlog: Arc<Backlog>,
    /// The size of the part that was returned last.
    bytes: usize,
    reader: Option<JoinHandle<()>>,
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.backlog.close();
    }
}

impl Steps {
    /// Starts reading.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    pub(super) fn start(work: Work) -> io::Result<Self> {
        let (sender, parts) = mpsc::channel();
        let backlog = Arc::new(Backlog::default());
        let reader = FileReader::new(sender, Arc::clone(&backlog), &work);
        let read = move || reader.read_all(work);
        let reader = std::thread::Builder::new().name("tract-import".to_owned()).spawn(read)?;
        Ok(Self { parts, backlog, bytes: 0, reader: Some(reader) })
    }

    /// Waits for the next steps; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Vec<Step>> {
        self.backlog.remove(std::mem::take(&mut self.bytes));
        if let Ok(Part { steps, bytes }) = self.parts.recv() {
            self.bytes = bytes;
            return Some(steps);
        }
        // A panic of the reader continues on this thread.
        self.reader.take()?.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        None
    }
}

/// Reads files one by one.
pub(crate) struct FileReader {
    sender: Sender<Part>,
    backlog: Arc<Backlog>,
    part: Vec<Step>,
    bytes: usize,
    /// The scanner for secrets; `None` to keep secrets.
    scanner: Option<&'static Scanner>,
    /// The secrets of the current conversation.
    redacted: SessionReport,
    pub(crate) callers: Callers,
    /// The name suffixes of its branches.
    suffixes: Vec<String>,
    /// The names of all branches read so far, before conflicts with other branches are resolved.
    names: HashSet<String>,
}

impl FileReader {
    fn new(sender: Sender<Part>, backlog: Arc<Backlog>, work: &Work) -> Self {
        Self {
            sender,
            backlog,
            part: Vec::new(),
            bytes: 0,
            scanner: work.scanner,
            redacted: SessionReport::default(),
            callers: Callers::default(),
            suffixes: Vec::new(),
            names: HashSet::new(),
        }
    }

    fn read_all(mut self, work: Work) {
        let Work { files, mut unchanged, remembers, scanner } = work;
        for (number, file) in files.into_iter().enumerate() {
            let known = unchanged.remove(&number).and_then(|known| self.leave(&file, known));
            let done = match known {
                Some(step) => self.send(step),
                None => self.read_one(file, remembers, scanner.is_some()),
            };
            if done.is_err() {
                return;
            }
        }
        // If the writer is gone, nothing is left to do.
        let _ = self.flush();
    }

    fn read_one(
        &mut self,
        file: SessionFile,
        remembers: bool,
        redact: bool,
    ) -> Result<(), ReadError> {
        let remembers = remembers && file.channels().is_empty();
        let read = remembers.then(|| ReadFile::begin(&file)).flatten();
        let done = self.read_file(&file);
        let callers = self.callers.end_file();
        let step = match done {
            Ok(()) => {
                let mut stored = read.and_then(|read| read.end(&file, redact)).map(Box::new);
                if let Some(stored) = &mut stored {
                    stored.callers = callers;
                }
                Step::File { file, stored }
            }
            Err(ReadError::File(error)) => {
                self.redacted = SessionReport::default();
                self.suffixes.clear();
                Step::Unread { path: file.path().to_owned(), error }
            }
            Err(ReadError::Engine(error)) => Step::Broken(error),
            Err(ReadError::Stopped) => return Err(ReadError::Stopped),
        };
        self.send(step)
    }

    /// Skips an unchanged file; `None` if the files before it require reading it.
    fn leave(&mut self, file: &SessionFile, known: StoredFile) -> Option<Step> {
        let mut calls = known.callers.calls.iter();
        let is_same = calls.all(|(agent, caller)| self.callers.get(agent) == caller.as_ref());
        // An earlier file with the same branch may have changed its document.
        if !is_same || known.branches().any(|name| self.names.contains(name)) {
            return None;
        }
        let reports = known.sessions.iter().map(|session| session.report());
        let reports = reports.collect::<Option<_>>()?;
        for (agent, caller) in known.callers.offered {
            self.callers.add(agent, caller);
        }
        Some(Step::Unchanged { path: file.path().to_owned(), reports })
    }

    /// Sends the next event of the current conversation.
    pub(crate) fn say(&mut self, mut event: TreeEvent) -> Result<(), ReadError> {
        if let Some(scanner) = self.scanner {
            redact_event(&mut event, scanner, &mut self.redacted);
        }
        match &event {
            TreeEvent::Branch { suffix, .. } => self.suffixes.push(suffix.clone()),
            TreeEvent::Resumed { branch, suffix } if *branch > 0 => {
                if let Some(own) = self.suffixes.get_mut(*branch) {
                    suffix.clone_into(own);
                }
            }
            _ => {}
        }
        self.bytes += event.size();
        self.send(Step::Event(event))
    }

    /// Ends the current conversation.
    ///
    /// `branch` is its name, `documents` the documents of its branches.
    pub(crate) fn end_conversation(
        &mut self,
        path: &Path,
        branch: String,
        documents: Vec<JsonText>,
        mut report: SessionReport,
    ) -> Result<(), ReadError> {
        report.absorb(std::mem::take(&mut self.redacted));
        let suffixes = self.suffixes.drain(..);
        self.names.extend(suffixes.map(|suffix| format!("{branch}{suffix}")));
        let (path, report) = (path.to_owned(), Box::new(report));
        self.send(Step::End { path, branch, documents, report })
    }

    fn send(&mut self, step: Step) -> Result<(), ReadError> {
        self.part.push(step);
        if self.bytes >= PART_BYTES || self.part.len() >= PART_STEPS {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> Result<(), ReadError> {
        let bytes = std::mem::take(&mut self.bytes);
        let steps = std::mem::take(&mut self.part);
        if !self.backlog.add(bytes) {
            return Err(ReadError::Stopped);
        }
        self.sender.send(Part { steps, bytes }).map_err(|_| ReadError::Stopped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_waits_for_the_writer_and_ends_with_it() {
        let backlog = Arc::new(Backlog::default());
        assert!(backlog.add(3 * WAITING_BYTES), "one that is larger than all may go alone");
        let (sender, answers) = mpsc::channel();
        let reader = Arc::clone(&backlog);
        let thread = std::thread::spawn(move || {
            for bytes in [1, WAITING_BYTES] {
                sender.send(reader.add(bytes)).expect("the test listens");
            }
        });
        answers.try_recv().expect_err("there is no room");
        backlog.remove(3 * WAITING_BYTES);
        assert_eq!(answers.recv(), Ok(true));
        answers.try_recv().expect_err("there is no room for both");
        backlog.close();
        assert_eq!(answers.recv(), Ok(false), "the writer has gone");
        thread.join().expect("it ends");
    }
}
