//! The queue of writes that move one ref.
//!
//! Each ref has at most one statement in progress. Later batches of the ref wait for it, so they
//! keep their order, and they never block each other on the ref's lock on the server. Waiting
//! batches are combined into one statement, with one transaction and one flush: batches that
//! continue each other on one ref form a chain, and batches of different refs form a group.
//!
//! A batch that arrives while nothing is in progress is sent at once. Otherwise it is sent when a
//! statement is answered, or after [`PATIENCE`], so that a slow statement (because of a lock, a
//! large batch or a distant server) does not delay other refs. Statements run on their own tasks,
//! so a caller that does not poll its answer does not delay others.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot::{Receiver, Sender, channel};
use tract_core::{Applied, Batch, RepoName, StoreErrorKind, StoreResult};

use crate::append::{Line, RepoStatements};
use crate::error::new;
use crate::group;
use crate::link::{Connector, REPOSITORIES};
use crate::portions;

const OP: &str = "apply";
/// How long a batch waits for statements of other refs before it is sent in parallel.
const PATIENCE: Duration = Duration::from_millis(2);
/// Maximum number of batches in one statement.
const BATCHES: usize = 64;
/// Maximum number of bytes in one statement, unless a single batch is larger.
const BYTES: usize = 1 << 20;

/// A waiting batch, or one in progress.
pub(crate) struct Write {
    pub(crate) batch: Batch,
    /// Its encoding for the fast path, if it has the usual shape.
    pub(crate) line: Option<Line>,
    pub(crate) deadline: Instant,
    answer: Sender<StoreResult<Applied>>,
}

impl Write {
    pub(crate) fn answer(self, answer: StoreResult<Applied>) {
        // The receiver may have been dropped.
        let _ = self.answer.send(answer);
    }

    fn bytes(&self) -> usize {
        self.line.as_ref().map_or(0, |line| line.bytes)
    }

    /// Returns whether it starts where another batch of the same ref ends.
    fn follows(&self, other: &Self) -> bool {
        match (&self.line, &other.line) {
            (Some(line), Some(other)) => line.follows(other),
            _ => false,
        }
    }
}

/// The batches sent with one statement.
pub(crate) enum Job {
    /// One batch.
    One(Box<Write>),
    /// Batches of different refs, in name order. All writers lock refs in this order.
    Group(Vec<Write>),
    /// Batches of one ref, each of which continues the one before it.
    Chain(Vec<Write>),
}

/// The waiting batches of one ref.
#[derive(Default)]
struct RefQueue {
    waiting: VecDeque<Write>,
    /// Whether a statement that moves the ref is in progress. The others wait for it, which keeps
    /// their order and leaves connections for other refs.
    moving: bool,
}

impl RefQueue {
    /// Returns the number of leading batches that continue each other and fit into one statement.
    fn chain(&self) -> usize {
        let (mut length, mut bytes, mut last) = (0, 0, None::<&Write>);
        for write in self.waiting.iter().take(BATCHES) {
            bytes += write.bytes();
            let fits = last.is_none_or(|last| write.follows(last) && bytes <= BYTES);
            if write.line.is_none() || !fits {
                break;
            }
            (length, last) = (length + 1, Some(write));
        }
        length
    }
}

#[derive(Default)]
struct State {
    /// Number of statements in progress.
    statements: usize,
    refs: HashMap<String, RefQueue>,
    /// The refs with waiting batches and no statement in progress, in order of arrival.
    ready: VecDeque<String>,
    /// Whether a task will send the ready batches after [`PATIENCE`].
    timed: bool,
}

impl State {
    fn push(&mut self, name: &str, write: Write) {
        let queue = self.refs.entry(name.to_owned()).or_default();
        queue.waiting.push_back(write);
        // A ref is in `ready` exactly once while it has waiting batches and no statement in
        // progress. A second entry would send two statements for it at the same time, and the
        // server would decide their order.
        if !queue.moving && queue.waiting.len() == 1 {
            self.ready.push_back(name.to_owned());
        }
    }

    /// Answers the batches of a ref whose deadline has passed. Returns whether any still wait.
    fn expire(&mut self, name: &str) -> bool {
        let Some(queue) = self.refs.get_mut(name) else { return false };
        let now = Instant::now();
        while let Some(write) = queue.waiting.pop_front() {
            if write.deadline > now {
                queue.waiting.push_front(write);
                return true;
            }
            // It was never sent, so nothing was written: `Busy` and not `Unknown`.
            let message = format!("earlier writes of {name} took all the time that a write has");
            write.answer(Err(new(StoreErrorKind::Busy, OP, message)));
        }
        if !queue.moving {
            self.refs.remove(name);
        }
        false
    }

    /// Takes the next job, first come, first served; `None` if nothing is ready. Without `grouped`,
    /// each batch is a job of its own.
    fn take(&mut self, grouped: bool) -> Option<(Job, Vec<String>)> {
        let first = loop {
            let name = self.ready.pop_front()?;
            if self.expire(&name) {
                break name;
            }
        };
        let chain = self.refs.get(&first).map_or(0, RefQueue::chain);
        let queue = self.refs.get_mut(&first)?;
        queue.moving = true;
        if chain == 0 || !grouped {
            return Some((Job::One(Box::new(queue.waiting.pop_front()?)), vec![first]));
        }
        // Form a chain if it combines more batches than a group of different refs would.
        if chain > self.ready.len() + 1 {
            let chain = queue.waiting.drain(..chain).collect();
            return Some((Job::Chain(chain), vec![first]));
        }
        let write = queue.waiting.pop_front()?;
        let mut bytes = write.bytes();
        // A group has at most one batch for each parent commit. A second child starts a new
        // segment, which only `apply` creates.
        let mut parents: HashSet<_> = write.line.iter().map(|line| line.parent.0.clone()).collect();
        let mut group = vec![(first, write)];
        let mut left = VecDeque::new();
        while group.len() < BATCHES
            && let Some(name) = self.ready.pop_front()
        {
            if !self.expire(&name) {
                continue;
            }
            let Some(queue) = self.refs.get_mut(&name) else { continue };
            let line = queue.waiting.front().and_then(|write| write.line.as_ref());
            let fits = line.is_some_and(|line| {
                bytes + line.bytes <= BYTES && parents.insert(line.parent.0.clone())
            });
            match fits.then(|| queue.waiting.pop_front()).flatten() {
                Some(write) => {
                    bytes += write.bytes();
                    queue.moving = true;
                    group.push((name, write));
                }
                None => left.push_back(name),
            }
        }
        left.append(&mut self.ready);
        self.ready = left;
        // All writers lock refs in this order, so two groups cannot deadlock.
        group.sort_by(|one, other| one.0.cmp(&other.0));
        let (names, mut group): (Vec<_>, Vec<_>) = group.into_iter().unzip();
        match group.len() {
            1 => Some((Job::One(Box::new(group.pop()?)), names)),
            _ => Some((Job::Group(group), names)),
        }
    }

    /// Marks the statements of these refs as answered.
    fn settle(&mut self, names: &[String]) {
        for name in names {
            if let Some(queue) = self.refs.get_mut(name) {
                queue.moving = false;
                if queue.waiting.is_empty() {
                    _ = self.refs.remove(name)
                } else {
                    // Append it to the end, so that one busy ref does not starve the others.
                    self.ready.push_back(name.clone())
                }
            }
        }
    }
}

/// The write queues of a repository.
#[derive(Default)]
pub(crate) struct Writers {
    state: Mutex<State>,
    /// The statements of its fast path, known after the first write.
    place: Mutex<Option<Arc<RepoStatements>>>,
}

impl Writers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn place(&self) -> Option<Arc<RepoStatements>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_place(&self, place: Option<RepoStatements>) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place.map(Arc::new);
    }

    /// Returns whether there are neither statements in progress nor waiting batches.
    pub(crate) fn are_idle(&self) -> bool {
        let state = self.state();
        state.statements == 0 && state.refs.is_empty()
    }
}

/// The write queues of the repositories that a handle has written to.
#[derive(Default)]
pub(crate) struct RepoQueues(Mutex<HashMap<RepoName, Arc<Writers>>>);

impl RepoQueues {
    /// Returns the write queues of a repository.
    pub(crate) fn writers(&self, repo: &RepoName) -> Arc<Writers> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writers) = known.get(repo) {
            return Arc::clone(writers);
        }
        if known.len() >= REPOSITORIES {
            // Keep queues that a caller holds: it may be about to write there, and with two queues
            // for one repository, writes of one ref could be reordered.
            known.retain(|_, writers| Arc::strong_count(writers) > 1 || !writers.are_idle());
        }
        Arc::clone(known.entry(repo.clone()).or_default())
    }
}

/// A repository with its queues, as its writers use it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) link: Arc<Connector>,
    pub(crate) repo: RepoName,
    pub(crate) writers: Arc<Writers>,
}

/// The condition for sending ready batches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dispatch {
    /// Only if no statement is in progress, or a whole group is ready.
    Patiently,
    Now,
}

impl Target {
    /// Sends ready batches. One connection is left to readers.
    fn send(&self, mut state: MutexGuard<'_, State>, mut how: Dispatch) {
        let most = self.link.options.pool_size.saturating_sub(1).max(1);
        let grouped = self.writers.place().is_some();
        while state.statements < most && !state.ready.is_empty() {
            let waits = state.statements > 0 && state.ready.len() < BATCHES;
            if waits && how == Dispatch::Patiently {
                break;
            }
            how = Dispatch::Patiently;
            let Some((job, names)) = state.take(grouped) else { break };
            state.statements += 1;
            // The slot goes with the task. If the runtime drops the task, the slot's destructor
            // still releases the refs.
            let slot = Slot { target: self.clone(), names, is_statement: true };
            // `spawn` does not poll the task, so the state's lock is not held while it runs.
            self.link.runtime.spawn(group::run(slot, job));
        }
        if !state.ready.is_empty() && state.statements < most && !state.timed {
            state.timed = true;
            let target = self.clone();
            self.link.runtime.spawn(async move {
                tokio::time::sleep(PATIENCE).await;
                let mut state = target.writers.state();
                state.timed = false;
                target.send(state, Dispatch::Now);
            });
        }
    }
}

/// The permit of a statement in progress, with the refs that it moves. Dropping it releases them,
/// also after a panic, and sends the next batches. Without that, the refs would stay blocked.
pub(crate) struct Slot {
    pub(crate) target: Target,
    names: Vec<String>,
    is_statement: bool,
}

impl Slot {
    /// Splits off one ref, whose batch is written alone.
    pub(crate) fn split(&mut self, name: &str) -> Self {
        self.names.retain(|known| known != name);
        // Not counted as a statement: the slot of the group is. The ref only has to stay blocked
        // until its batch is answered.
        Self { target: self.target.clone(), names: vec![name.to_owned()], is_statement: false }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.target.writers.state();
        state.statements -= usize::from(self.is_statement);
        state.settle(&self.names);
        self.target.send(state, Dispatch::Patiently);
    }
}

/// Queues a batch that moves one ref. It is written whether or not the answer is awaited.
pub(crate) fn submit(
    link: &Arc<Connector>,
    queues: &RepoQueues,
    repo: &RepoName,
    batch: Batch,
) -> Receiver<StoreResult<Applied>> {
    let (answer, receiver) = channel();
    let name = batch.refs.first().map(|edit| edit.name.as_str().to_owned()).unwrap_or_default();
    let line = if portions::is_large(&batch) { None } else { Line::of(repo, &batch) };
    let deadline = Instant::now() + portions::write_limit(link, &batch);
    let writers = queues.writers(repo);
    let target = Target { link: Arc::clone(link), repo: repo.clone(), writers };
    let mut state = target.writers.state();
    state.push(&name, Write { batch, line, deadline, answer });
    target.send(state, Dispatch::Patiently);
    receiver
}

#[cfg(test)]
mod tests {
    use tract_core::CommitId;
    use tract_testkit::fixtures::{advance, batch, push};

    use super::*;

    fn root() -> CommitId {
        push(&mut batch("root"), None, "it begins").id()
    }

    /// Queues a batch that stores a commit with a text on a parent, and moves a branch.
    fn queue(state: &mut State, branch: &str, parent: CommitId, text: &str) -> CommitId {
        let mut batch = batch("commit");
        let next = push(&mut batch, Some(parent), text).id();
        batch.refs.push(advance(branch, Some(parent), next));
        let line = Line::of(&RepoName::default(), &batch);
        assert!(line.is_some(), "the usual shape");
        let deadline = Instant::now() + Duration::from_secs(60);
        state
            .push(&format!("heads/{branch}"), Write { batch, line, deadline, answer: channel().0 });
        next
    }

    /// Takes a job. Returns its kind and the names of its refs, one for each batch.
    fn take(state: &mut State) -> (&'static str, Vec<String>) {
        let name = |write: &Write| write.batch.refs[0].name.as_str().to_owned();
        match state.take(true) {
            None => ("none", Vec::new()),
            Some((Job::One(write), _)) => ("one", vec![name(&write)]),
            Some((Job::Group(writes), _)) => ("group", writes.iter().map(name).collect()),
            Some((Job::Chain(writes), _)) => ("chain", writes.iter().map(name).collect()),
        }
    }

    #[test]
    fn of_a_ref_and_of_a_commit_one_batch_goes_at_a_time() {
        let mut state = State::default();
        let shared = root();
        queue(&mut state, "a", shared, "x");
        queue(&mut state, "a", root(), "y");
        queue(&mut state, "b", shared, "y");
        let other = push(&mut batch("other"), None, "it begins elsewhere").id();
        queue(&mut state, "d", other, "x");
        let names = |names: &[&str]| names.iter().map(|name| format!("heads/{name}")).collect();
        assert_eq!(take(&mut state), ("group", names(&["a", "d"])));
        // The first batch of `a` is still in progress.
        assert_eq!(take(&mut state), ("one", names(&["b"])));
        assert_eq!(take(&mut state).0, "none");
        state.settle(&["heads/a".to_owned()]);
        assert_eq!(take(&mut state), ("one", names(&["a"])));
        state.settle(&["a", "b", "d"].map(|name| format!("heads/{name}")));
        assert!(state.refs.is_empty() && state.ready.is_empty());
    }

    #[test]
    fn batches_that_continue_each_other_on_a_ref_go_as_one_chain() {
        let mut state = State::default();
        let mut head = root();
        for n in 0..3 {
            head = queue(&mut state, "a", head, &format!("{n}"));
        }
        queue(&mut state, "a", root(), "not on top of it");
        assert_eq!(take(&mut state), ("chain", vec!["heads/a".to_owned(); 3]));
        assert_eq!(take(&mut state).0, "none");
        state.settle(&["heads/a".to_owned()]);
        assert_eq!(take(&mut state).0, "one");
    }

    #[test]
    fn a_statement_ends_at_so_many_batches_or_bytes() {
        let mut state = State::default();
        for n in 0..=BATCHES {
            let parent = push(&mut batch("root"), None, &format!("{n}")).id();
            queue(&mut state, &format!("b{n}"), parent, "x");
        }
        assert_eq!([take(&mut state).1.len(), take(&mut state).1.len()], [BATCHES, 1]);
        let mut head = root();
        for n in 0..=BATCHES {
            head = queue(&mut state, "c", head, &format!("{n}"));
        }
        assert_eq!(take(&mut state).1.len(), BATCHES);
        let mut head = root();
        let large = "x".repeat(BYTES / 2);
        for n in 0..3 {
            head = queue(&mut state, "l", head, &format!("{n}{large}"));
        }
        assert_eq!(take(&mut state), ("one", vec!["heads/l".to_owned()]));
    }

    #[test]
    fn a_write_that_waited_too_long_is_answered_and_not_sent() {
        let mut state = State::default();
        let mut batch = batch("commit");
        let next = push(&mut batch, None, "late").id();
        batch.refs.push(advance("a", None, next));
        let (answer, mut receiver) = channel();
        let deadline = Instant::now();
        state.push("heads/a", Write { batch, line: None, deadline, answer });
        assert_eq!(take(&mut state).0, "none");
        let error = receiver.try_recv().expect("it is answered").expect_err("it was too late");
        assert_eq!(error.kind, StoreErrorKind::Busy);
        assert!(state.refs.is_empty());
    }

    #[test]
    fn the_cache_of_repositories_is_bounded() {
        let queues = RepoQueues::default();
        let held = queues.writers(&RepoName::new("held").expect("a name"));
        for n in 0..3 * REPOSITORIES {
            queues.writers(&RepoName::new(format!("repo-{n}")).expect("a name"));
        }
        let known = queues.0.lock().expect("no panic").len();
        assert!(known <= REPOSITORIES + 1, "{known}");
        let again = queues.writers(&RepoName::new("held").expect("a name"));
        assert!(Arc::ptr_eq(&held, &again), "its queue is in use");
    }
}
