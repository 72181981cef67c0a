//! One turn at a time on the state that several turns share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::turn::Turn;
use crate::queue::{TurnHold, TurnQueue};
use crate::session::SessionHold;
use crate::snapshot::Snapshot;

/// The queues of the states that turns work on or wait for, by identity. Dispatchers that know
/// nothing of each other meet here.
static QUEUES: Mutex<BTreeMap<usize, Weak<TurnQueue>>> = Mutex::new(BTreeMap::new());

fn queues() -> MutexGuard<'static, BTreeMap<usize, Weak<TurnQueue>>> {
    // Each change is one step, so a panic leaves it usable.
    QUEUES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The queue of a state, which is forgotten with its last handle.
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
        // Under the lock: another turn may have just found the queue.
        self.queue = None;
        if queues.get(&self.identity).is_some_and(|queue| queue.strong_count() == 0) {
            queues.remove(&self.identity);
        }
    }
}

/// The states that a turn and those around it work on: identity and number of the hold. Lent to the
/// calls of the turn, so that a turn within a call does not wait for the one that it is part of.
#[derive(Clone, Default)]
struct HeldStates(Vec<(usize, u64)>);

/// Keeps other turns from the state of one turn, until this is dropped.
pub(super) struct StateHolds {
    session: Option<SessionHold>,
    /// A hold is dropped before its queue.
    states: Vec<(TurnHold, StateQueue)>,
}

/// Another turn that kept a state until this one stopped waiting.
pub(super) struct StateHolder {
    pub(super) by: String,
    pub(super) name: String,
}

/// The states that are put back when a call of the turn fails, with their names. A [`Session`]
/// has a queue of its own, which runs of agents use too.
///
/// [`Session`]: crate::Session
fn shared_states(turn: &Turn) -> BTreeMap<usize, &str> {
    let session = turn.session.as_deref().filter(|_| turn.lent_session.is_none());
    let session = session.map(|session| session as &dyn Snapshot);
    let resources = turn.resources.as_deref().filter(|resources| resources.take_turns());
    let resources = resources.map(|resources| resources as &dyn Snapshot);
    let own = turn.state.iter().map(|state| &**state);
    let all = session.into_iter().chain(resources).chain(own);
    all.map(|state| (state.identity(), state.name())).collect()
}

impl Turn {
    /// How long the turn waits for another one.
    fn patience(&self) -> Option<Duration> {
        [self.context.remaining(), self.patience].into_iter().flatten().min()
    }

    /// Waits for the session and all other state that is put back when a call fails, as long as
    /// the turn may wait and until it is cancelled. All turns take them in the same order, so that
    /// no two wait for each other.
    pub(super) async fn hold(&self) -> Result<StateHolds, StateHolder> {
        let by = format!("a turn of {:?}", &*self.evaluation);
        let token = self.context.cancellation();
        let mut holds = StateHolds { session: None, states: Vec::new() };
        if let Some(session) = &self.lent_session {
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

    /// Returns this turn, lending what it holds to its calls.
    pub(super) fn within(&self, holds: &StateHolds) -> Self {
        let mut turn = self.clone();
        if let Some(hold) = &holds.session {
            turn.lent_session = Some(hold.session().clone());
        }
        if !holds.states.is_empty() {
            let around = self.context.optional_resource::<HeldStates>().cloned();
            let mut held = around.unwrap_or_default();
            held.0.extend(holds.states.iter().map(|(hold, state)| (state.identity, hold.number())));
            turn.context = turn.context.with_resource(held);
        }
        turn
    }
}
