//! Streams: one line after another, each done whole or not at all.

mod asked;
mod atomic;
mod group;
mod line;
mod received;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tract_compile::CompileError;
use tract_core::step::StreamOp;
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
    /// All lines, or none of them: refs move in one write at the end. Objects of a long stream are
    /// written ahead of it.
    pub atomic: bool,
    /// Lines in one durable write. When absent, lines that arrive together share one, and a line
    /// that arrives alone waits for no other.
    pub batch: Option<usize>,
    /// Takes approvals, policies, pending operations, decisions and claims of effects too: all refs
    /// that are not [history](RefName::is_history). Off by default, since a stream may come from
    /// elsewhere.
    pub trust: bool,
    /// Bytes of an atomic stream that memory holds before its objects are written ahead; 8 MiB when
    /// absent.
    pub hold_bytes: Option<usize>,
    /// The branch that the stream starts on; that of `HEAD` when absent.
    pub branch: Option<RefName>,
    /// The operation of all ref moves of the stream; a new one when absent.
    pub operation: Option<Operation>,
    /// What keeps the objects of the stream until refs lead to them; when absent, one that ends with
    /// the stream.
    pub(crate) lease: Option<Lease>,
}

impl ApplyOptions {
    /// Starts from the defaults: lines as they arrive, until one is refused.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether to continue after a refused line.
    #[must_use]
    pub fn keep_going(mut self, keep_going: bool) -> Self {
        self.keep_going = keep_going;
        self
    }

    /// Sets whether all lines are applied, or none.
    #[must_use]
    pub fn atomic(mut self, atomic: bool) -> Self {
        self.atomic = atomic;
        self
    }

    /// Sets how many lines are one durable write, whether they arrive together or not; at least 1.
    #[must_use]
    pub fn batch(mut self, lines: usize) -> Self {
        self.batch = Some(lines.max(1));
        self
    }

    /// Sets whether approvals, policies and decisions in the stream are applied.
    #[must_use]
    pub fn trust(mut self, trust: bool) -> Self {
        self.trust = trust;
        self
    }

    /// Sets how many bytes of an atomic stream memory holds before its objects are written ahead.
    #[must_use]
    pub fn hold_bytes(mut self, bytes: usize) -> Self {
        self.hold_bytes = Some(bytes);
        self
    }

    /// Sets the branch that the stream starts on.
    #[must_use]
    pub fn branch(mut self, branch: RefName) -> Self {
        self.branch = Some(branch);
        self
    }

    /// Sets the operation of all ref moves of the stream.
    #[must_use]
    pub fn operation(mut self, operation: impl Into<Operation>) -> Self {
        self.operation = Some(operation.into());
        self
    }

    /// Sets what keeps the objects of the stream, which is not ended with it.
    pub(crate) fn lease(mut self, lease: Lease) -> Self {
        self.lease = Some(lease);
        self
    }
}

/// The outcome of one line.
#[derive(Debug)]
pub struct ApplyEvent {
    /// The line's number, from 1.
    pub line: usize,
    /// The line's mark.
    pub mark: Option<String>,
    /// The commit that it made, if any; or why it was refused.
    pub result: Result<Option<CommitId>, LineError>,
}

/// The outcome of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyReport {
    /// Lines that were applied.
    pub done: usize,
    /// Lines that were refused.
    pub refused: usize,
    /// The branch that the stream ended on.
    pub branch: Option<RefName>,
    /// Approvals, policies and decisions that were applied, as the options allow.
    pub trusted: usize,
    /// Objects that were damaged or missing, and were replaced by those of the stream.
    pub restored: usize,
    /// What was erased where a trusted stream comes from and now is here.
    pub erased: CarriedErasures,
    /// Blobs in the stream that nothing links to; they were not stored.
    pub unlinked_blobs: usize,
}

/// Runs the steps of a stream on a branch: all of them, or none. Gives the commit that each made
/// or brought; or the number of the first refused step, from 1, and why.
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
    let options = ApplyOptions::new().atomic(true).branch(branch.clone());
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

/// Runs a stream of lines; `events` gets the outcome of each, in order, once that is durable.
///
/// # Behavior
/// - The stream begins on the branch that the options or `HEAD` name; a `checkout` switches to
///   another one, and moves `HEAD` there.
/// - A mark names a commit for the lines after it.
/// - A refused line changes nothing and ends the run; lines before it stay. With `keep_going` the
///   lines after it are tried. With `atomic` a refused line takes all others with it.
/// - Lines that arrive together are one durable write, and each is answered once that is done; the
///   next line is asked for only then. A refused line takes no other with it. With `batch` a write
///   waits until it has that many lines, or the stream ends.
/// - A line with a record brings that very commit, or is refused; it moves no branch. Lines that
///   say where refs point make or forward them, and never move a ref back or aside.
/// - Where such a commit is stored, and it or something that it links to and lines bring is damaged or
///   missing, that is replaced.
/// - When another handle or process moves a ref meanwhile, the lines of the write are carried out
///   again on what is there now, fewer of them each time. Lines whose refs kept moving for as long
///   as [`RepoOptions::retry_for`](crate::RepoOptions::retry_for) says are refused.
/// - With `atomic`, memory holds some megabytes of a stream, as `hold_bytes` says, and the ids. The objects of a longer
///   one are written ahead of the write that moves the refs: no ref leads to them until then, nor
///   ever, when a line is refused or the process ends. Such a stream is carried out once, and is
///   refused when a ref that it moves was moved meanwhile.
/// - A ref that is not [history](RefName::is_history) is refused unless the options trust the
///   stream. This says nothing of other lines, so they are carried out all the same; with `atomic`
///   it takes them with it.
///
/// # Errors
/// When the store fails. The outcomes that `events` got are durable.
pub async fn apply_stream(
    repo: &Repo,
    lines: impl IntoIterator<Item = StreamLine>,
    options: &ApplyOptions,
    mut events: impl FnMut(ApplyEvent),
) -> Result<ApplyReport> {
    let mut stream = Stream::new(repo, options).await?;
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
    if options.lease.is_none() {
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

/// The state of a stream that a refused line or a lost race restores.
#[derive(Clone)]
struct State {
    branch: RefName,
    /// Approvals, policies and decisions that were taken.
    trusted: usize,
    /// Erasures among them, which arrive once the stream is done.
    erased: Vec<Erasure>,
}

struct Stream {
    overlay: Arc<Overlay>,
    /// The repository as it is with what is held back.
    repo: Repo,
    /// The repository itself, for writes that are not held back.
    stored: Repo,
    operation: Operation,
    /// Keeps what was written ahead of the refs.
    lease: Lease,
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
    chosen: PlannedTargets,
    /// The place in the group of the line that is being carried out.
    place: usize,
    /// How many objects that were damaged or missing were replaced.
    restored: usize,
    /// The commit that a line brought last, where it was not stored.
    brought: Option<CommitId>,
    /// Whether such a commit was lost, and stored again in another place.
    is_moved: bool,
}

impl Stream {
    async fn new(repo: &Repo, options: &ApplyOptions) -> Result<Self> {
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
            lease: options.lease.clone().map_or_else(|| Lease::new(repo, true), Ok)?,
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

    /// Carries out one line. The outer error ends the stream, the inner one refuses the line. A
    /// line that is given away is not copied.
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
            // What the line would have linked to may be linked to by another.
            self.linked.truncate(linked);
        }
        self.answer(mark, done)
    }

    /// Tells a line that is refused from a store that fails, and notes what a mark names.
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

    /// Writes what is held back; a group that is durable is settled.
    async fn flush(&mut self) -> Result<Applied> {
        let name = self.repo.name();
        let (note, lease) = (self.note(), &self.lease);
        let mut flushed = self.overlay.flush(name, note.clone(), &self.operation, lease).await;
        if let Err(error) = &flushed
            && is_corrupt(error)
        {
            // What the lines bring is stored already, and damaged.
            let restored = self.overlay.restore_held(name).await?;
            self.restored += restored;
            if restored > 0 {
                flushed = self.overlay.flush(name, note, &self.operation, lease).await;
            }
        }
        let (applied, written) = flushed?;
        if !matches!(applied, Applied::Conflict(_)) {
            if let Some(written) = written {
                tell(&self.repo, written).await;
            }
            self.settle();
        }
        Ok(applied)
    }

    /// Forgets how to take the group back: it is durable.
    fn settle(&mut self) {
        self.chosen = PlannedTargets::default();
        self.unmarked.clear();
        for id in self.linked.drain(..) {
            self.blobs.remove(&id);
        }
    }

    /// Takes the group back: it is not stored.
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
    use StoreErrorKind::{Erased, Invalid, Missing, TooLarge};
    matches!(error.kind, Missing { .. } | Erased { .. } | TooLarge | Invalid)
}
