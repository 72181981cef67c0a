//! Batches that come while others are under way: they wait for each other, and go together, as one
//! statement, one transaction and one flush.
//!
//! What comes while nothing is under way goes at once. What comes meanwhile goes when that is answered,
//! or when it has waited for long enough, so that nothing that is slow holds others up: a lock, a large
//! batch, a server far away.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot::{Receiver, Sender, channel};
use tract_core::{RepoName, StoreError, StoreErrorKind, StoreResult};

use crate::append::{self, Line};
use crate::apply::Answer;
use crate::error::{Failed, damaged, new};
use crate::link::{Link, Place, Scope};

const OP: &str = "apply";
/// How long a batch waits for what is under way before it goes beside it.
const PATIENCE: Duration = Duration::from_millis(2);
/// How many batches go into one statement at most.
const BATCHES: usize = 64;
/// How many bytes go into one statement at most, a single larger batch apart.
const BYTES: usize = 1 << 20;

/// What became of a batch that went the short way.
pub(crate) enum Sent {
    /// It is written.
    Written,
    /// It is not as it should be: what the long way said in the same statement.
    Answered(Answer),
    /// Nothing of it is written, and it was not said why: it is to go the long way.
    LeftOut,
}

type Outcome = Result<Sent, Failed>;

/// A batch that waits.
struct Waiting {
    line: Line,
    answer: Sender<Outcome>,
}

#[derive(Default)]
struct State {
    /// How many statements are under way.
    statements: usize,
    /// The refs that they move: of each, one batch at a time is under way.
    moving: HashSet<String>,
    waiting: VecDeque<Waiting>,
}

impl State {
    /// Takes what may go together now, the first that came first: one batch of each ref, and one that
    /// continues each commit, for the second begins a segment, which the long way makes. Returns them
    /// in the order of names, in which everybody locks refs.
    fn take(&mut self) -> Vec<Waiting> {
        let (mut group, mut bytes): (Vec<Waiting>, usize) = (Vec::new(), 0);
        let mut parents = HashSet::new();
        let mut index = 0;
        while let Some(next) = self.waiting.get(index)
            && group.len() < BATCHES
        {
            let fits = group.is_empty() || bytes + next.line.bytes() <= BYTES;
            if fits
                && !parents.contains(next.line.parent())
                && self.moving.insert(next.line.name().to_owned())
            {
                bytes += next.line.bytes();
                parents.insert(next.line.parent().clone());
                group.extend(self.waiting.remove(index));
            } else {
                index += 1;
            }
        }
        group.sort_by(|one, other| one.line.name().cmp(other.line.name()));
        group
    }
}

/// Who writes to a repository the short way, and who waits to.
#[derive(Default)]
pub(crate) struct Writers(Mutex<State>);

impl Writers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way to a repository, as those who write to it hold it.
#[derive(Clone)]
struct Way {
    link: Arc<Link>,
    repo: RepoName,
    place: Arc<Place>,
}

impl Way {
    /// Sends what waits, as far as it goes together. One connection is left to readers.
    fn send(&self, mut state: MutexGuard<'_, State>) {
        let most = self.link.options.pool_size.saturating_sub(1).max(1);
        let group = if state.statements < most { state.take() } else { Vec::new() };
        if !group.is_empty() {
            state.statements += 1;
            drop(state);
            let names = group.iter().map(|waiting| waiting.line.name().to_owned()).collect();
            let slot = Slot { way: self.clone(), names };
            self.link.runtime.spawn(together(slot, group));
        }
    }
}

/// A place among the statements that are under way; what waits goes when it is dropped.
struct Slot {
    way: Way,
    names: Vec<String>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.way.place.writers.state();
        state.statements -= 1;
        for name in &self.names {
            state.moving.remove(name);
        }
        // Beside others what waits is patient: so what goes together stays together.
        if state.statements == 0 {
            self.way.send(state);
        }
    }
}

/// Writes a batch the short way: at once, or together with others.
pub(crate) async fn write(
    link: &Arc<Link>,
    repo: &RepoName,
    place: Arc<Place>,
    line: Line,
) -> Outcome {
    let way = Way { link: Arc::clone(link), repo: repo.clone(), place };
    if let Some(slot) = begin(&way, line.name()) {
        return alone(&slot.way, &line).await;
    }
    let mut answer = queue(&way, line);
    loop {
        match tokio::time::timeout(PATIENCE, &mut answer).await {
            Ok(Ok(outcome)) => return outcome,
            Ok(Err(_)) => {
                let message = "the statement that it was part of was given up";
                return Err(Failed::Lost(new(StoreErrorKind::Unavailable, OP, message)));
            }
            Err(_) => way.send(way.place.writers.state()),
        }
    }
}

/// Takes the place of a batch that goes at once, where nothing is under way.
fn begin(way: &Way, name: &str) -> Option<Slot> {
    let mut state = way.place.writers.state();
    if state.statements > 0 {
        return None;
    }
    state.statements = 1;
    state.moving.insert(name.to_owned());
    Some(Slot { way: way.clone(), names: vec![name.to_owned()] })
}

fn queue(way: &Way, line: Line) -> Receiver<Outcome> {
    let (answer, receiver) = channel();
    let mut state = way.place.writers.state();
    state.waiting.push_back(Waiting { line, answer });
    if state.statements == 0 || state.waiting.len() >= BATCHES {
        way.send(state);
    }
    receiver
}

async fn alone(way: &Way, line: &Line) -> Outcome {
    let Way { link, repo, place } = way;
    let args = line.alone(link, repo, place.number);
    let rows = link.once(OP, &Scope::Own, &place.alone, &args).await?;
    let read = || -> StoreResult<Sent> {
        let row = rows.first().ok_or_else(unanswered)?;
        Ok(append::answer(row)?.map_or(Sent::Written, Sent::Answered))
    };
    read().map_err(Failed::Final)
}

fn unanswered() -> StoreError {
    damaged(OP, "expected one answer to a write, found none")
}

/// Writes a group, and tells each what became of it.
async fn together(slot: Slot, mut group: Vec<Waiting>) {
    if let [_] = group.as_slice()
        && let Some(Waiting { line, answer }) = group.pop()
    {
        // Whoever asked may have gone.
        let _ = answer.send(alone(&slot.way, &line).await);
        return;
    }
    let outcome = written(&slot.way, &group).await;
    for (waiting, n) in group.into_iter().zip(1..) {
        let outcome = match &outcome {
            Ok(written) if written.contains(&n) => Ok(Sent::Written),
            Ok(_) => Ok(Sent::LeftOut),
            // One of them may be to blame; by itself each is told what is its own.
            Err(Failed::Final(error)) if error.kind != StoreErrorKind::Engine => Ok(Sent::LeftOut),
            Err(failed) => Err(failed.told()),
        };
        let _ = waiting.answer.send(outcome);
    }
}

/// Writes a group; gives the numbers, from 1, of those that are written.
async fn written(way: &Way, group: &[Waiting]) -> Result<Vec<i32>, Failed> {
    let Way { link, repo, place } = way;
    let lines: Vec<&Line> = group.iter().map(|waiting| &waiting.line).collect();
    let args = append::group(link, repo, place.number, &lines);
    let rows = link.once(OP, &Scope::Own, &place.group, &args).await?;
    let row = rows.first().ok_or_else(|| Failed::Final(unanswered()))?;
    append::written(row).map_err(Failed::Final)
}

#[cfg(test)]
mod tests {
    use tract_core::CommitId;
    use tract_testkit::fixtures::{advance, batch, push};

    use super::*;

    fn root() -> CommitId {
        push(&mut batch("root"), None, "it begins").id()
    }

    /// Queues a batch that puts a commit with a text on a parent, and moves a branch.
    fn queue(state: &mut State, branch: &str, parent: CommitId, text: &str) {
        let mut writing = batch("commit");
        let next = push(&mut writing, Some(parent), text).id();
        writing.refs.push(advance(branch, Some(parent), next));
        let line = Line::of(&RepoName::default(), &writing).expect("the usual shape");
        let (answer, _) = channel();
        state.waiting.push_back(Waiting { line, answer });
    }

    fn names(group: &[Waiting]) -> Vec<&str> {
        group.iter().map(|waiting| waiting.line.name()).collect()
    }

    #[test]
    fn of_a_ref_and_of_a_commit_one_batch_goes_at_a_time() {
        let mut state = State::default();
        let shared = root();
        queue(&mut state, "a", shared, "x");
        queue(&mut state, "a", root(), "x");
        queue(&mut state, "b", shared, "y");
        queue(&mut state, "d", root(), "x");
        queue(&mut state, "c", root(), "x");
        assert_eq!(names(&state.take()), ["heads/a", "heads/c", "heads/d"]);
        // The first of `a` is under way still.
        assert_eq!(names(&state.take()), ["heads/b"]);
        assert_eq!(names(&state.take()), [""; 0]);
        state.moving.remove("heads/a");
        assert_eq!(names(&state.take()), ["heads/a"]);
        assert!(state.waiting.is_empty());
    }

    #[test]
    fn a_group_ends_at_so_many_batches_or_bytes() {
        let mut state = State::default();
        for n in 0..=BATCHES {
            queue(&mut state, &format!("b{n}"), root(), "x");
        }
        assert_eq!([state.take().len(), state.take().len()], [BATCHES, 1]);
        let large = "x".repeat(BYTES / 2);
        for n in 0..3 {
            queue(&mut state, &format!("l{n}"), root(), &large);
        }
        queue(&mut state, "s", root(), "x");
        assert_eq!(names(&state.take()), ["heads/l0", "heads/s"]);
        queue(&mut state, "m", root(), &"x".repeat(BYTES * 2));
        assert_eq!(names(&state.take()), ["heads/l1"]);
        assert_eq!(names(&state.take()), ["heads/l2"]);
        assert_eq!(names(&state.take()), ["heads/m"], "a larger one goes by itself");
    }
}
