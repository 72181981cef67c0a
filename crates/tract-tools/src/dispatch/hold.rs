//! Lets one turn at a time work on state that several turns share.
//!
//! Each state has a queue, which is found by the identity of the state. A turn enters all of its
//! queues before its first call and leaves them after its last one. Without this, restoring a
//! snapshot after a failed call would also undo changes of other turns.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::turn::{RunningTurn, Turn};
use crate::queue::{TurnHold, TurnQueue};
use crate::session::SessionHold;
use crate::snapshot::Snapshot;

/// The queues of all states that turns work on or wait for, by identity. Global, because
/// independent dispatchers may share a state.
static QUEUES: Mutex<BTreeMap<usize, Weak<TurnQueue>>> = Mutex::new(BTreeMap::new());

fn queues() -> MutexGuard<'static, BTreeMap<usize, Weak<TurnQueue>>> {
    // Each change is a single map operation, so the map stays consistent after a panic.
    QUEUES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The queue of a state. It is removed from `QUEUES` with its last handle.
struct StateQueue {
    identity: usize,
    queue: Option<Arc<TurnQueue>>,
}

impl StateQueue {
    fn of(identity: usize) -> Self {
        let mut queues = queues();
        let queue = queues.get(&identity).and_then(Weak::upgrade).unwrap_or_else(|| {
            let queue = Arc::default();
            queues.insert(identity, Arc::downgrade(&queue));
            queue
        });
        Self { identity, queue: Some(queue) }
    }
}

impl Drop for StateQueue {
    fn drop(&mut self) {
        let mut queues = queues();
        // Both steps under one lock: no other turn can look the queue up between them.
        self.queue = None;
        if queues.get(&self.identity).is_some_and(|queue| queue.strong_count() == 0) {
            queues.remove(&self.identity);
        }
    }
}

/// The states that a turn and the turns around it hold: identity and number of the hold. Passed to
/// the calls of the turn, so that a turn within a call does not wait for its own outer turn.
#[derive(Clone, Default)]
struct HeldStates(Vec<(usize, u64)>);

/// Exclusive access of a turn to its shared state, until it is dropped.
pub(super) struct StateHolds {
    session: Option<SessionHold>,
    /// Tuple fields drop in order: the hold before its queue.
    states: Vec<(TurnHold, StateQueue)>,
}

/// Another turn that held a state for longer than this one could wait.
pub(super) struct StateHolder {
    pub(super) by: String,
    pub(super) name: String,
}

/// Returns the states that are restored when a call of the turn fails, with their names. A
/// [`Session`] is not among them: it has its own queue, which agent runs use too.
///
/// [`Session`]: crate::Session
fn shared_states(turn: &Turn) -> BTreeMap<usize, &str> {
    let session = turn.session.as_deref().filter(|_| turn.own_session().is_none());
    let session = session.map(|session| session as &dyn Snapshot);
    let resources = turn.resources.as_deref().filter(|resources| resources.take_turns());
    let resources = resources.map(|resources| resources as &dyn Snapshot);
    let own = turn.state.iter().map(|state| &**state);
    let all = session.into_iter().chain(resources).chain(own);
    // Sorted by identity, so all turns enter queues in the same order. A state that is listed twice
    // is entered once; a second time would wait for the first.
    all.map(|state| (state.identity(), state.name())).collect()
}

impl Turn {
    /// Returns how long the turn may wait for other turns.
    fn patience(&self) -> Option<Duration> {
        [self.context.remaining(), self.wait_for_others].into_iter().flatten().min()
    }

    /// Waits for the session and all other restorable state, while the turn may wait and until it
    /// is cancelled. All turns acquire states in the same order, so that no two wait for each
    /// other.
    pub(super) async fn hold(&self) -> Result<StateHolds, StateHolder> {
        let by = format!("a turn of {:?}", &*self.evaluation);
        let token = self.context.cancellation();
        let mut holds = StateHolds { session: None, states: Vec::new() };
        // The session comes first in every turn, then the states by identity. This is one fixed
        // order, so two turns cannot wait for each other.
        if let Some(session) = self.own_session() {
            let hold = session.hold(by.clone(), self.patience(), token).await;
            holds.session = Some(hold.map_err(|_| {
                let by = session.held_by().unwrap_or_else(|| "another turn".to_owned());
                StateHolder { by, name: "session".to_owned() }
            })?);
        }
        let around = self.context.optional_resource::<HeldStates>();
        for (identity, name) in shared_states(self) {
            let state = StateQueue::of(identity);
            let Some(queue) = &state.queue else { continue };
            // The number of the hold is compared as well. The outer turn may have ended while this
            // one continued, and another turn may hold the state now.
            let is_held =
                |(held, hold): &(usize, u64)| *held == identity && queue.is_held_by(*hold);
            if around.is_some_and(|around| around.0.iter().any(is_held)) {
                continue;
            }
            let entered = queue.enter(by.clone(), self.patience(), token).await;
            let hold = entered.map_err(|by| StateHolder { by, name: name.to_owned() })?;
            holds.states.push((hold, state));
        }
        Ok(holds)
    }

    /// Returns this turn as its calls see it, with its holds passed on to them.
    pub(super) fn running(&self, holds: Option<&StateHolds>) -> RunningTurn {
        let mut turn = self.clone();
        let mut lent_session = self.own_session().cloned();
        if let Some(hold) = holds.and_then(|holds| holds.session.as_ref()) {
            lent_session = Some(hold.session().clone());
        }
        if let Some(holds) = holds.filter(|holds| !holds.states.is_empty()) {
            let around = self.context.optional_resource::<HeldStates>().cloned();
            let mut held = around.unwrap_or_default();
            held.0.extend(holds.states.iter().map(|(hold, state)| (state.identity, hold.number())));
            turn.context = turn.context.with_resource(held);
        }
        RunningTurn { turn, lent_session, files: Arc::default() }
    }
}
