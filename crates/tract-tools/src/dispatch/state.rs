//! Snapshots and restores the state of a turn.

use std::sync::Arc;

use super::turn::{RunningTurn, Turn};
use crate::event::Event;
use crate::panics::guarded;
use crate::snapshot::{SavedState, Snapshot};

/// Snapshots of all state of a turn.
pub(super) struct TurnSnapshot(Vec<(Arc<dyn Snapshot>, SavedState)>);

/// Returns all state that the calls of a turn may change.
fn states(turn: &RunningTurn) -> impl Iterator<Item = Arc<dyn Snapshot>> {
    let session = turn.session.clone().map(|session| session as Arc<dyn Snapshot>);
    let resources = turn.resources.clone().map(|resources| resources as Arc<dyn Snapshot>);
    let files: Arc<dyn Snapshot> = turn.files.clone();
    session.into_iter().chain(resources).chain([files]).chain(turn.state.iter().cloned())
}

/// Takes a snapshot of all state that the calls of a turn may change.
pub(super) fn snapshot(turn: &RunningTurn) -> Result<TurnSnapshot, String> {
    let save = |state: Arc<dyn Snapshot>| match guarded(|| state.snapshot()) {
        Ok(saved) => Ok((state, saved)),
        Err(error) => Err(format!("no snapshot of {}: {error}", state.name())),
    };
    states(turn).map(save).collect::<Result<_, _>>().map(TurnSnapshot)
}

/// Restores a snapshot, in reverse order. All parts are restored, even if some fail.
pub(super) fn restore(before: TurnSnapshot) -> Result<(), String> {
    let mut failed = Vec::new();
    for (state, saved) in before.0.into_iter().rev() {
        // The other states are restored all the same.
        if let Err(error) = guarded(|| state.restore(saved)) {
            failed.push(format!("{} was not put back: {error}", state.name()));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

/// Publishes an event to the session, if there is one.
pub(super) fn publish(turn: &Turn, event: &Event) -> Result<(), String> {
    let Some(session) = &turn.session else { return Ok(()) };
    guarded(|| session.publish(event)).map_err(|error| format!("event {}: {error}", event.kind()))
}
