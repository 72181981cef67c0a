//! Checks that the answers to concurrent calls on refs are linearizable.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tract_core::{RefName, RefTarget};

/// A call on a ref, with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A read of this value.
    Read(Option<RefTarget>),
    /// A compare-and-set of the ref, with its outcome.
    Move {
        /// The expected value of the ref.
        expect: Option<RefTarget>,
        /// Its new value.
        to: Option<RefTarget>,
        /// Whether it was done; `None` if it is unknown, as after a lost connection.
        done: Option<bool>,
    },
}

/// A call on a ref, with its start and end on a shared clock.
#[derive(Clone, Debug)]
pub struct Call {
    /// The ref.
    pub name: RefName,
    /// The start of the call.
    pub called: u64,
    /// The end of the call.
    pub returned: u64,
    /// The call with its answer.
    pub action: Action,
}

/// Records the calls of many threads.
///
/// ```
/// use tract_core::RefName;
/// use tract_testkit::linear::{Action, CallRecorder, check};
/// let recorder = CallRecorder::default();
/// let name = RefName::branch("main")?;
/// recorder.record(&name, || (Action::Read(None), ()));
/// check(&recorder.calls()).expect("a branch that was never made is not there");
/// # Ok::<(), tract_core::BadName>(())
/// ```
#[derive(Debug, Default)]
pub struct CallRecorder {
    clock: AtomicU64,
    calls: Mutex<Vec<Call>>,
}

impl CallRecorder {
    /// Makes a call and records it.
    pub fn record<T>(&self, name: &RefName, call: impl FnOnce() -> (Action, T)) -> T {
        let called = self.clock.fetch_add(1, Ordering::SeqCst);
        let (action, answer) = call();
        let returned = self.clock.fetch_add(1, Ordering::SeqCst);
        let call = Call { name: name.clone(), called, returned, action };
        self.calls.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(call);
        answer
    }

    /// Returns the recorded calls.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

/// The calls on a ref are not linearizable.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{name}: at most {explained} of {} calls can have happened in some order", calls.len())]
pub struct NotLinear {
    /// The ref.
    pub name: RefName,
    /// The number of calls in the longest valid order.
    pub explained: usize,
    /// All its calls.
    pub calls: Vec<Call>,
}

/// Checks that the calls on each ref have an order that respects real time and explains every
/// answer. Refs do not exist at first.
///
/// # Errors
/// [`NotLinear`] naming a ref without such an order.
pub fn check(calls: &[Call]) -> Result<(), NotLinear> {
    let mut by_name: BTreeMap<&RefName, Vec<&Call>> = BTreeMap::new();
    for call in calls {
        by_name.entry(&call.name).or_default().push(call);
    }
    for (name, mut calls) in by_name {
        calls.sort_by_key(|call| call.called);
        let placed = vec![false; calls.len()];
        let explained = Search { calls: &calls, placed, seen: HashSet::new() }.run();
        if explained < calls.len() {
            let calls = calls.into_iter().cloned().collect();
            return Err(NotLinear { name: name.clone(), explained, calls });
        }
    }
    Ok(())
}

/// A search over orders: the calls placed so far, and the resulting value of the ref.
struct Search<'a> {
    calls: &'a [&'a Call],
    placed: Vec<bool>,
    /// Visited states: the first unplaced call, the placed calls after it, and the value. Paths to
    /// the same state have the same continuations, so each state is searched once. Without this the
    /// search takes exponential time.
    seen: HashSet<(usize, Vec<usize>, Option<RefTarget>)>,
}

impl Search<'_> {
    /// Returns the number of calls in the longest order.
    fn run(mut self) -> usize {
        let mut best = 0;
        // Each step is a placed call with the value of the ref before it.
        let mut path: Vec<(usize, Option<RefTarget>)> = Vec::new();
        let mut value = None;
        let mut next = 0;
        loop {
            best = best.max(path.len());
            if path.len() == self.calls.len() {
                return best;
            }
            match self.step(next, &value) {
                Some((place, after)) => {
                    self.placed[place] = true;
                    path.push((place, std::mem::replace(&mut value, after)));
                    // The same calls in another order that leaves the same value have the same
                    // continuations. Without this check the search is exponential.
                    if self.seen.insert(self.mark(&value)) {
                        next = 0;
                        continue;
                    }
                    next = self.undo(&mut path, &mut value).unwrap_or(0);
                }
                None => match self.undo(&mut path, &mut value) {
                    Some(place) => next = place,
                    None => return best,
                },
            }
        }
    }

    fn undo(
        &mut self,
        path: &mut Vec<(usize, Option<RefTarget>)>,
        value: &mut Option<RefTarget>,
    ) -> Option<usize> {
        let (place, before) = path.pop()?;
        self.placed[place] = false;
        *value = before;
        Some(place + 1)
    }

    /// Finds the next possible call from a position on: every call that ended before it began is
    /// placed, and its answer matches.
    fn step(&self, from: usize, value: &Option<RefTarget>) -> Option<(usize, Option<RefTarget>)> {
        let open = || self.calls.iter().enumerate().filter(|(place, _)| !self.placed[*place]);
        // A call without an answer may take effect at any later time.
        let ends = |call: &Call| match call.action {
            Action::Move { done: None, .. } => u64::MAX,
            _ => call.returned,
        };
        let first_end = open().map(|(_, call)| ends(call)).min()?;
        open()
            .filter(|(place, call)| *place >= from && call.called <= first_end)
            .find_map(|(place, call)| Some((place, after(&call.action, value)?)))
    }

    fn mark(&self, value: &Option<RefTarget>) -> (usize, Vec<usize>, Option<RefTarget>) {
        let first = self.placed.iter().position(|placed| !placed).unwrap_or(self.placed.len());
        let beyond = self.placed.iter().enumerate().skip(first).filter(|(_, placed)| **placed);
        (first, beyond.map(|(place, _)| place).collect(), value.clone())
    }
}

/// Returns the value of a ref after a call; `None` if the call would have returned another answer.
fn after(action: &Action, value: &Option<RefTarget>) -> Option<Option<RefTarget>> {
    match action {
        Action::Read(read) => (read == value).then(|| value.clone()),
        Action::Move { expect, to, done } => {
            // An edit succeeds if the ref already has the new value.
            let fits = expect == value || to == value;
            match done {
                Some(true) => fits.then(|| to.clone()),
                Some(false) => (!fits).then(|| value.clone()),
                None if fits => Some(to.clone()),
                None => Some(value.clone()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tract_core::CommitId;

    use super::*;

    fn value(n: u8) -> Option<RefTarget> {
        (n > 0).then(|| RefTarget::Commit(CommitId::from_bytes([n; 32])))
    }

    fn moved(at: (u64, u64), from: u8, to: u8, done: Option<bool>) -> Call {
        let action = Action::Move { expect: value(from), to: value(to), done };
        Call { name: name(), called: at.0, returned: at.1, action }
    }

    fn read(at: (u64, u64), n: u8) -> Call {
        Call { name: name(), called: at.0, returned: at.1, action: Action::Read(value(n)) }
    }

    fn name() -> RefName {
        RefName::branch("main").expect("a name")
    }

    #[test]
    fn a_possible_order_passes() {
        let histories = [
            vec![moved((0, 1), 0, 1, Some(true)), read((2, 3), 1)],
            // Two concurrent edits, of which one wins; a concurrent reader may see either value.
            vec![
                moved((0, 9), 0, 1, Some(true)),
                moved((1, 8), 0, 2, Some(false)),
                read((2, 3), 0),
                read((4, 5), 1),
            ],
            // A lost answer: the write took effect, late.
            vec![moved((0, 1), 0, 1, None), read((2, 3), 0), read((4, 5), 1)],
            // Or it never took effect.
            vec![moved((0, 1), 0, 1, None), moved((2, 3), 0, 2, Some(true)), read((4, 5), 2)],
        ];
        for history in histories {
            check(&history).unwrap_or_else(|error| panic!("{error}: {history:?}"));
        }
    }

    #[test]
    fn an_impossible_order_is_named() {
        let histories = [
            // A lost update: both edits succeeded.
            vec![moved((0, 5), 0, 1, Some(true)), moved((1, 6), 0, 2, Some(true))],
            // A stale read.
            vec![moved((0, 1), 0, 1, Some(true)), read((2, 3), 0)],
            // Two readers that see a move in different orders.
            vec![moved((0, 9), 0, 1, Some(true)), read((1, 2), 1), read((3, 4), 0)],
            // A conflict without a cause.
            vec![moved((0, 1), 0, 1, Some(false))],
            // A value that was never written.
            vec![read((0, 1), 7)],
        ];
        for history in histories {
            let error = check(&history).expect_err("it cannot have happened");
            assert!(error.explained < history.len(), "{error}");
        }
    }
}
