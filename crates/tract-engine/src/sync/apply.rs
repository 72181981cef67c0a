//! Streams of operations: applies lines one after another, each of them completely or not at all.

mod asked;
mod atomic;
mod group;
mod line;
mod received;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tract_compile::CompileError;
use tract_core::stream::StreamOp;
use tract_core::{
    Applied, Blob, BlobId, CommitId, LogNote, RefName, Store, StoreError, StoreErrorKind, Toolset,
    ToolsetId,
};

pub(crate) use self::line::MAX_LINE_BYTES;
pub use self::line::{StreamLine, read_lines};
pub(crate) use self::received::{given_tools, toolset_of_list};
use crate::repo::Repo;
use crate::repo::batch::tell;
use crate::repo::erasure::Erasure;
pub(crate) use crate::repo::error::LineError;
use crate::repo::error::{Error, Result};
use crate::repo::operation::Operation;
use crate::upkeep::erase::{CarriedErasures, arrive};
use crate::upkeep::restore::{is_corrupt, settle};
use crate::write::chosen::PlannedTargets;
use crate::write::lease::Lease;
use crate::write::overlay::Overlay;

/// Options of [`apply_stream`].
#[derive(Clone, Debug, Default)]
pub struct ApplyOptions {
    /// Continue after a refused line.
    pub keep_going: bool,
    /// Apply all lines or none: refs move in one write at the end. The objects of a long stream are
    /// stored before that.
    pub atomic: bool,
    /// Number of lines in one durable write. If absent, lines that arrive together share a write,
    /// and a line that arrives alone does not wait for others. 0 is the same as 1.
    pub batch: Option<usize>,
    /// Also apply approvals, policies, pending operations, decisions and claims of effects, that
    /// is, all refs that are not [history](RefName::is_history). Off by default, since a stream may
    /// come from an untrusted source.
    pub trust: bool,
    /// Number of bytes of an atomic stream that are kept in memory before its objects are stored
    /// ahead of the refs; 8 MiB if absent.
    pub hold_bytes: Option<usize>,
    /// The initial branch; the one that `HEAD` names if absent.
    pub branch: Option<RefName>,
    /// The operation of all ref moves of the stream; a new one if absent.
    pub operation: Option<Operation>,
}

/// The outcome of one line.
#[derive(Debug)]
pub struct ApplyEvent {
    /// The line's number, from 1.
    pub line: usize,
    /// The mark that the line defines.
    pub mark: Option<String>,
    /// The commit that it made, if any, or the reason for refusing it.
    pub result: Result<Option<CommitId>, LineError>,
}

/// The outcome of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyReport {
    /// Number of applied lines.
    pub done: usize,
    /// Number of refused lines.
    pub refused: usize,
    /// The branch at the end of the stream.
    pub branch: Option<RefName>,
    /// Number of applied approvals, policies and decisions.
    pub trusted: usize,
    /// Number of damaged or missing objects that were replaced by those of the stream.
    pub restored: usize,
    /// Erasures that arrived with a trusted stream.
    pub erased: CarriedErasures,
    /// Number of blobs in the stream that nothing links to; they were not stored.
    pub unlinked_blobs: usize,
}

/// Applies the operations of a stream to a branch: all of them, or none. Returns the commit of each
/// operation, or the number of the first refused operation, from 1, and the reason.
///
/// # Errors
/// When the store fails.
pub async fn apply_all(
    repo: &Repo,
    branch: &RefName,
    steps: &[StreamOp],
) -> Result<Result<Vec<Option<CommitId>>, (usize, LineError)>> {
    let lines =
        steps.iter().enumerate().map(|(at, step)| StreamLine::new(at + 1, Ok(step.clone())));
    let options =
        ApplyOptions { atomic: true, branch: Some(branch.clone()), ..ApplyOptions::default() };
    let mut made = Vec::with_capacity(steps.len());
    let mut refused = None;
    apply_stream(repo, lines, &options, |event| match event.result {
        Ok(commit) => made.push(commit),
        Err(error) => {
            refused.get_or_insert((event.line, error));
        }
    })
    .await?;
    Ok(refused.map_or(Ok(made), Err))
}

/// Applies a stream of lines. `events` receives the outcome of each line, in order, once it is
/// durable.
///
/// # Behavior
/// - The stream starts on the branch that the options or `HEAD` name. A `checkout` switches to
///   another branch, and moves `HEAD` there.
/// - A mark names a commit for later lines.
/// - A refused line changes nothing and ends the run; the lines before it stay. With `keep_going`,
///   later lines are still applied. With `atomic`, a refused line reverts all others.
/// - Lines that arrive together share one durable write and are answered once it is done; only then
///   is the next line read. A refused line does not affect the others. With `batch`, a write waits
///   for that many lines or the end of the stream.
/// - A line with a record stores exactly that commit, or is refused; it moves no branch. Lines for
///   refs create them or move them forward, never backward or to an unrelated commit.
/// - If such a commit is already stored, damaged or missing objects among it and its links are
///   replaced by those of the stream.
/// - If another handle or process moves a ref in the meantime, the lines of the write are applied
///   again to the new state, fewer of them each time. Lines whose refs keep moving for longer than
///   [`RepoOptions::retry_for`](crate::RepoOptions::retry_for) are refused.
/// - With `atomic`, up to `hold_bytes` of a stream and the ids are kept in memory. The objects of a
///   longer stream are stored before the write that moves the refs; no ref leads to them until
///   then, and never if a line is refused or the process ends. Such a stream is applied only once,
///   and is refused if a ref that it moves was moved by others.
/// - A ref that is not [history](RefName::is_history) is refused unless the stream is trusted.
///   Other lines are still applied, except with `atomic`, which reverts all lines.
///
/// # Errors
/// When the store fails. Outcomes that were passed to `events` are durable.
pub async fn apply_stream(
    repo: &Repo,
    lines: impl IntoIterator<Item = StreamLine>,
    options: &ApplyOptions,
    events: impl FnMut(ApplyEvent),
) -> Result<ApplyReport> {
    apply_stream_with(repo, lines, options, None, events).await
}

/// Applies a stream of lines under a lease that keeps its objects until refs lead to them. If
/// absent, under a new one, which is released at the end of the stream.
pub(crate) async fn apply_stream_with(
    repo: &Repo,
    lines: impl IntoIterator<Item = StreamLine>,
    options: &ApplyOptions,
    lease: Option<Lease>,
    mut events: impl FnMut(ApplyEvent),
) -> Result<ApplyReport> {
    let is_own_lease = lease.is_none();
    let mut stream = Stream::new(repo, options, lease).await?;
    let mut lines = lines.into_iter();
    let mut report = ApplyReport::default();
    let mut answer = |event: ApplyEvent| {
        match event.result {
            Ok(_) => report.done += 1,
            Err(_) => report.refused += 1,
        }
        events(event);
    };
    let ran = stream.run(&mut lines, options, &mut answer).await;
    if is_own_lease {
        // Also after an error: nothing of the stream will need the objects that no ref leads to.
        stream.lease.release().await;
    }
    settle(repo, stream.restored > 0 || stream.is_moved).await;
    ran?;
    report.restored = stream.restored;
    report.branch = Some(stream.state.branch);
    report.trusted = stream.state.trusted;
    let erased = std::mem::take(&mut stream.state.erased);
    report.erased = arrive(repo, None, erased).await?;
    report.unlinked_blobs = stream.blobs.len();
    Ok(report)
}

/// The state that is restored after a refused line or a lost race.
#[derive(Clone)]
struct State {
    branch: RefName,
    /// Number of applied approvals, policies and decisions.
    trusted: usize,
    /// The erasures among them, which are applied at the end of the stream.
    erased: Vec<Erasure>,
}

struct Stream {
    overlay: Arc<Overlay>,
    /// The repository including the pending writes.
    repo: Repo,
    /// The repository itself, for writes that are not delayed.
    stored: Repo,
    operation: Operation,
    /// Keeps objects that were stored before the refs.
    lease: Lease,
    /// Whether refs that are not history are applied.
    trust: bool,
    state: State,
    marks: HashMap<String, CommitId>,
    /// The previous values of the marks of the current group.
    unmarked: Vec<(String, Option<CommitId>)>,
    /// Blobs of lines that no stored object links to yet.
    blobs: HashMap<BlobId, Blob>,
    /// Those of them that the current group links to.
    linked: Vec<BlobId>,
    /// Blobs that are lists of tools, by the id of the toolset.
    lists: HashMap<ToolsetId, (BlobId, Toolset)>,
    /// The messages that the summaries of the current group cover.
    chosen: PlannedTargets,
    /// The index in the group of the current line.
    place: usize,
    /// Number of damaged or missing objects that were replaced.
    restored: usize,
    /// The commit of the last line, if it was not stored before.
    brought: Option<CommitId>,
    /// Whether such a commit had been lost, and was stored again at another location.
    is_moved: bool,
}

impl Stream {
    async fn new(repo: &Repo, options: &ApplyOptions, lease: Option<Lease>) -> Result<Self> {
        let operation = repo.operation_or_new(options.operation.as_ref())?;
        let branch = match &options.branch {
            Some(branch) => branch.clone(),
            None => repo.current_branch().await?,
        };
        let overlay = Arc::new(Overlay::new(Arc::clone(repo.store())));
        let store: Arc<dyn Store> = overlay.clone();
        Ok(Self {
            repo: repo.over(store).within(operation.held_back()),
            stored: repo.within(operation.clone()),
            lease: lease.map_or_else(|| Lease::new(repo, true), Ok)?,
            overlay,
            operation,
            state: State { branch, trusted: 0, erased: Vec::new() },
            trust: options.trust,
            marks: HashMap::new(),
            unmarked: Vec::new(),
            blobs: HashMap::new(),
            linked: Vec::new(),
            lists: HashMap::new(),
            chosen: PlannedTargets::default(),
            place: 0,
            restored: 0,
            brought: None,
            is_moved: false,
        })
    }

    async fn run(
        &mut self,
        lines: &mut impl Iterator<Item = StreamLine>,
        options: &ApplyOptions,
        answer: &mut impl FnMut(ApplyEvent),
    ) -> Result<()> {
        if options.atomic {
            let held_bytes = options.hold_bytes.unwrap_or(atomic::HELD_BYTES);
            return self.all_or_none(lines, held_bytes, answer).await;
        }
        let mut group = VecDeque::new();
        loop {
            group::fill(&mut group, lines, options);
            if group.is_empty() {
                return Ok(());
            }
            let outcome = self.group(&mut group, options).await?;
            let stop = outcome.iter().any(|event| ends_the_run(&event.result, options));
            outcome.into_iter().for_each(&mut *answer);
            if stop {
                return Ok(());
            }
        }
    }

    fn note(&self) -> LogNote {
        self.repo.log_note(self.operation.id(), "apply")
    }

    /// Applies one line. The outer error ends the stream, the inner one refuses the line. An owned
    /// line is not copied.
    async fn step(
        &mut self,
        step: Cow<'_, StreamOp>,
    ) -> Result<Result<Option<CommitId>, LineError>> {
        let (mark, linked) = (step.mark.clone(), self.linked.len());
        let repo = self.repo.clone();
        let done = match &step.recorded {
            Some(_) => self.received(step).await.map(Some),
            None if step.op.adds_message() => self.added(&repo, step).await.map(Some),
            None => self.carry_out(&step).await,
        };
        if done.is_err() {
            // The refused line must not consume blobs that a later line may link to.
            self.linked.truncate(linked);
        }
        self.answer(mark, done)
    }

    /// Distinguishes a refused line from a failed store, and defines the line's mark.
    fn answer(
        &mut self,
        mark: Option<String>,
        done: Result<Option<CommitId>, LineError>,
    ) -> Result<Result<Option<CommitId>, LineError>> {
        match done {
            Ok(commit) => {
                if let (Some(mark), Some(commit)) = (mark, commit) {
                    let was = self.marks.insert(mark.clone(), commit);
                    self.unmarked.push((mark, was));
                }
                Ok(Ok(commit))
            }
            Err(LineError::Engine(
                Error::Store(error) | Error::Compile(CompileError::Store(error)),
            )) if !speaks_of_the_line(&error) => Err(Error::Store(error)),
            Err(refused) => Ok(Err(refused)),
        }
    }

    /// Writes the pending lines. If they are durable, they cannot be rolled back any longer.
    async fn flush(&mut self) -> Result<Applied> {
        let name = self.repo.name();
        let (note, lease) = (self.note(), &self.lease);
        let mut flushed = self.overlay.flush(name, note.clone(), &self.operation, lease).await;
        if let Err(error) = &flushed
            && is_corrupt(error)
        {
            // Objects of the lines are already stored, but damaged.
            let restored = self.overlay.restore_held(name).await?;
            self.restored += restored;
            if restored > 0 {
                flushed = self.overlay.flush(name, note, &self.operation, lease).await;
            }
        }
        let (applied, written) = flushed?;
        if applied.is_stored() {
            if let Some(written) = written {
                tell(&self.repo, written).await;
            }
            self.settle();
        }
        Ok(applied)
    }

    /// Drops the state for rolling back the group, which is durable.
    fn settle(&mut self) {
        self.chosen = PlannedTargets::default();
        self.unmarked.clear();
        for id in self.linked.drain(..) {
            self.blobs.remove(&id);
        }
    }

    /// Rolls back the group, which was not stored.
    fn roll_back(&mut self, before: &State) {
        self.overlay.clear();
        self.chosen.roll_back();
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

/// Returns whether the result of a line prevents the following lines from being applied.
fn ends_the_run<T>(result: &Result<T, LineError>, options: &ApplyOptions) -> bool {
    match result {
        Ok(_) => false,
        Err(LineError::NeedsTrust { .. }) => options.atomic,
        Err(_) => !options.keep_going,
    }
}

/// Returns whether an error of the store is caused by the line rather than by the store.
fn speaks_of_the_line(error: &StoreError) -> bool {
    use StoreErrorKind::{Erased, Invalid, Missing, TooLarge};
    matches!(error.kind, Missing { .. } | Erased { .. } | TooLarge | Invalid)
}
