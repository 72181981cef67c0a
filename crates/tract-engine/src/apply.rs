//! Streams: one line after another, each done whole or not at all.

mod asked;
mod line;
mod received;

use std::collections::HashMap;
use std::sync::Arc;

use tract_compile::CompileError;
use tract_core::step::Step;
use tract_core::{
    Applied, Blob, BlobId, CommitId, LogNote, RefName, Store, StoreError, StoreErrorKind, Toolset,
    ToolsetId,
};

pub use self::line::{LineError, StreamLine, number_lines, read_lines};
use crate::chosen::Chosen;
use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::overlay::Overlay;
use crate::repo::Repo;
use crate::write::tell;

/// How [`apply_stream`] goes about it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApplyOptions {
    /// Goes on after a refused line.
    pub keep_going: bool,
    /// All lines in one durable write, or none of them. All are held in memory.
    pub atomic: bool,
    /// Lines in one durable write; 1 by default.
    pub batch: usize,
    /// Takes approvals, policies, pending operations, decisions and claims of effects too: all refs
    /// that are not [history](RefName::is_history). Off by default, since a stream may come from
    /// elsewhere.
    pub trust: bool,
    /// The branch that the stream begins on; the one that `HEAD` names when absent.
    pub branch: Option<RefName>,
    /// Shared by all ref moves of the stream; made up when absent.
    pub operation: Option<Operation>,
}

impl Default for ApplyOptions {
    fn default() -> Self {
        Self {
            keep_going: false,
            atomic: false,
            batch: 1,
            trust: false,
            branch: None,
            operation: None,
        }
    }
}

impl ApplyOptions {
    /// Starts from the defaults: line by line, until one is refused.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether to go on after a refused line.
    #[must_use]
    pub fn keep_going(mut self, keep_going: bool) -> Self {
        self.keep_going = keep_going;
        self
    }

    /// Sets whether all lines are one durable write.
    #[must_use]
    pub fn atomic(mut self, atomic: bool) -> Self {
        self.atomic = atomic;
        self
    }

    /// Sets how many lines are one durable write.
    #[must_use]
    pub fn batch(mut self, lines: usize) -> Self {
        self.batch = lines.max(1);
        self
    }

    /// Sets whether approvals, policies and decisions are taken from the stream.
    #[must_use]
    pub fn trust(mut self, trust: bool) -> Self {
        self.trust = trust;
        self
    }

    /// Sets the branch that the stream begins on.
    #[must_use]
    pub fn branch(mut self, branch: RefName) -> Self {
        self.branch = Some(branch);
        self
    }

    /// Sets what all ref moves of the stream share.
    #[must_use]
    pub fn operation(mut self, operation: impl Into<Operation>) -> Self {
        self.operation = Some(operation.into());
        self
    }
}

/// What became of one line.
#[derive(Debug)]
#[non_exhaustive]
pub struct ApplyEvent {
    /// The line's number, from 1.
    pub line: usize,
    /// The line's mark.
    pub mark: Option<String>,
    /// The commit that it made or brought, where it is one; or why it was refused.
    pub result: Result<Option<CommitId>, LineError>,
}

/// What became of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApplyReport {
    /// Lines that were done.
    pub done: usize,
    /// Lines that were refused.
    pub refused: usize,
    /// The branch that the stream ended on.
    pub branch: Option<RefName>,
    /// Approvals, policies and decisions that were taken, since the options said so.
    pub trusted: usize,
    /// Blobs that lines brought and nothing links to; they were not kept.
    pub unlinked_blobs: usize,
}

/// Runs a stream of lines; `events` is told what became of each, in order, once that is durable.
///
/// # Behavior
/// - The stream begins on the branch that the options or `HEAD` name; a `checkout` goes on with
///   another one, and moves `HEAD` there.
/// - A mark names a commit for the lines after it.
/// - A refused line changes nothing and ends the run; lines before it stand. With `keep_going` the
///   lines after it are tried. With `atomic` a refused line takes all others with it.
/// - A line with a record brings that very commit, or is refused; it moves no branch. Lines that
///   say where refs point make or forward them, and never move a ref back or aside.
/// - When another handle or process moves a ref meanwhile, the lines of the write are carried out
///   again on what is there now. Lines whose refs kept moving for as long as
///   [`RepoOptions::retry_for`](crate::RepoOptions::retry_for) says are refused.
/// - A ref that is not [history](RefName::is_history) is refused unless the options trust the
///   stream. This says nothing of other lines, so they are carried out all the same; with `atomic`
///   it takes them with it.
///
/// # Errors
/// When the store fails. What `events` was told is durable.
pub async fn apply_stream(
    repo: &Repo,
    lines: impl IntoIterator<Item = StreamLine>,
    options: &ApplyOptions,
    mut events: impl FnMut(ApplyEvent),
) -> Result<ApplyReport> {
    let mut stream = Stream::new(repo, options).await?;
    let mut lines = lines.into_iter();
    let most = if options.atomic { usize::MAX } else { options.batch.max(1) };
    let mut report = ApplyReport::default();
    loop {
        let group: Vec<StreamLine> = lines.by_ref().take(most).collect();
        if group.is_empty() {
            break;
        }
        let outcome = stream.group(group, options).await?;
        let stop = outcome.iter().any(|event| ends_the_run(&event.result, options));
        for event in outcome {
            match event.result {
                Ok(_) => report.done += 1,
                Err(_) => report.refused += 1,
            }
            events(event);
        }
        if stop {
            break;
        }
    }
    report.branch = Some(stream.state.branch);
    report.trusted = stream.state.trusted;
    report.unlinked_blobs = stream.blobs.len();
    Ok(report)
}

/// Where a stream stands: what a refused line or a lost race takes back.
#[derive(Clone)]
struct State {
    branch: RefName,
    /// Approvals, policies and decisions that were taken.
    trusted: usize,
}

struct Stream {
    overlay: Arc<Overlay>,
    /// The repository as it is with what is held back.
    repo: Repo,
    operation: Operation,
    /// Whether refs that are not history are taken.
    trust: bool,
    state: State,
    marks: HashMap<String, CommitId>,
    /// What marks of the group under way were before.
    unmarked: Vec<(String, Option<CommitId>)>,
    /// Blobs that lines brought and that nothing stored links to yet.
    blobs: HashMap<BlobId, Blob>,
    /// Those of them that the group under way links to.
    linked: Vec<BlobId>,
    /// Lists of tools among the blobs, by the toolset that they are.
    lists: HashMap<ToolsetId, (BlobId, Toolset)>,
    /// What the summaries of the group under way are of.
    chosen: Chosen,
    /// The place in the group of the line that is being carried out.
    place: usize,
}

impl Stream {
    async fn new(repo: &Repo, options: &ApplyOptions) -> Result<Self> {
        let operation = match options.operation.as_ref().or(repo.operation()) {
            Some(operation) => operation.clone(),
            None => Operation::begin()?,
        };
        let branch = match &options.branch {
            Some(branch) => branch.clone(),
            None => repo.current_branch().await?,
        };
        let overlay = Arc::new(Overlay::new(Arc::clone(repo.store())));
        let store: Arc<dyn Store> = overlay.clone();
        Ok(Self {
            repo: repo.over(store).within(operation.held_back()),
            overlay,
            operation,
            state: State { branch, trusted: 0 },
            trust: options.trust,
            marks: HashMap::new(),
            unmarked: Vec::new(),
            blobs: HashMap::new(),
            linked: Vec::new(),
            lists: HashMap::new(),
            chosen: Chosen::default(),
            place: 0,
        })
    }

    /// Carries out lines as one durable write, and says what became of each.
    async fn group(
        &mut self,
        group: Vec<StreamLine>,
        options: &ApplyOptions,
    ) -> Result<Vec<ApplyEvent>> {
        // A line that is no step is refused once; the others may have to be tried again.
        let mut unread: Vec<Option<LineError>> = Vec::with_capacity(group.len());
        let mut steps: Vec<(usize, Option<Step>)> = Vec::with_capacity(group.len());
        for StreamLine { line, step } in group {
            let (step, error) = match step {
                Ok(step) => (Some(step), None),
                Err(error) => (None, Some(error)),
            };
            steps.push((line, step));
            unread.push(error);
        }
        let before = self.state.clone();
        let mut races = self.repo.races();
        loop {
            let mut events = Vec::with_capacity(steps.len());
            let mut refused = false;
            for (place, (line, step)) in steps.iter().enumerate() {
                self.place = place;
                let (mark, result) = match step {
                    Some(step) => (step.mark.clone(), self.step(step).await?),
                    // The error itself is put in once the group is done.
                    None => (None, Ok(None)),
                };
                let unread = unread.get(place).is_some_and(Option::is_some);
                refused |= unread || result.is_err();
                let ends = unread && !options.keep_going || ends_the_run(&result, options);
                events.push(ApplyEvent { line: *line, mark, result });
                if ends || options.atomic && refused {
                    break;
                }
            }
            let (applied, written) = match options.atomic && refused {
                true => {
                    self.take_back(&before);
                    (Applied::Done, None)
                }
                false => self.overlay.flush(self.repo.name(), self.note(), &self.operation).await?,
            };
            match applied {
                Applied::Done | Applied::Already => {
                    if let Some(written) = written {
                        tell(&self.repo, written).await;
                    }
                    self.settle();
                    for (event, error) in events.iter_mut().zip(&mut unread) {
                        if let Some(error) = error.take() {
                            event.result = Err(error);
                        }
                    }
                    if options.atomic && refused {
                        events.retain(|event| event.result.is_err());
                    }
                    return Ok(events);
                }
                Applied::Conflict(_) => {
                    self.take_back(&before);
                    if let Err(over) = races.lose().await {
                        return outrun(over, &steps, &mut unread, options);
                    }
                }
            }
        }
    }

    fn note(&self) -> LogNote {
        LogNote {
            operation: self.operation.id(),
            what: "apply".to_owned(),
            who: self.repo.who().to_owned(),
            why: None,
            undoes: None,
            at: self.repo.now_us(),
        }
    }

    /// Carries out one line. The outer error ends the stream, the inner one refuses the line.
    async fn step(&mut self, step: &Step) -> Result<Result<Option<CommitId>, LineError>> {
        let done = match &step.recorded {
            Some(commit) => self.received(step, commit).await.map(|()| Some(commit.id())),
            None => self.asked(step).await,
        };
        match done {
            Ok(commit) => {
                if let (Some(mark), Some(commit)) = (&step.mark, commit) {
                    let was = self.marks.insert(mark.clone(), commit);
                    self.unmarked.push((mark.clone(), was));
                }
                Ok(Ok(commit))
            }
            Err(LineError::Engine(
                Error::Store(error) | Error::Compile(CompileError::Store(error)),
            )) if !speaks_of_the_line(&error) => Err(Error::Store(error)),
            Err(refused) => Ok(Err(refused)),
        }
    }

    /// Forgets how to take the group back: it is durable.
    fn settle(&mut self) {
        self.chosen = Chosen::default();
        self.unmarked.clear();
        for id in self.linked.drain(..) {
            self.blobs.remove(&id);
        }
    }

    /// Takes the group back: it is not stored.
    fn take_back(&mut self, before: &State) {
        self.overlay.clear();
        self.chosen.take_back();
        self.state = before.clone();
        self.linked.clear();
        for (mark, was) in self.unmarked.drain(..).rev() {
            match was {
                Some(was) => _ = self.marks.insert(mark, was),
                None => _ = self.marks.remove(&mark),
            }
        }
    }
}

/// Refuses the lines of a group whose refs kept moving: the first, or all where the stream
/// continues after a refused line.
fn outrun(
    over: Error,
    steps: &[(usize, Option<Step>)],
    unread: &mut [Option<LineError>],
    options: &ApplyOptions,
) -> Result<Vec<ApplyEvent>> {
    let Error::KeptMoving { attempts } = over else { return Err(over) };
    let most = if options.keep_going && !options.atomic { steps.len() } else { 1 };
    let event = |((line, step), unread): (&(usize, Option<Step>), &mut Option<LineError>)| {
        let error = unread.take().unwrap_or(LineError::Engine(Error::KeptMoving { attempts }));
        let mark = step.as_ref().and_then(|step| step.mark.clone());
        ApplyEvent { line: *line, mark, result: Err(error) }
    };
    Ok(steps.iter().zip(unread).take(most).map(event).collect())
}

/// Whether the lines after a line are left out, given what became of it.
fn ends_the_run<T>(result: &Result<T, LineError>, options: &ApplyOptions) -> bool {
    match result {
        Ok(_) => false,
        Err(LineError::NeedsTrust { .. }) => options.atomic,
        Err(_) => !options.keep_going,
    }
}

/// Whether a store's error is about what the line asks for, not about the store.
fn speaks_of_the_line(error: &StoreError) -> bool {
    use StoreErrorKind::{Invalid, Missing, TooLarge};
    matches!(error.kind, Missing { .. } | TooLarge | Invalid)
}
