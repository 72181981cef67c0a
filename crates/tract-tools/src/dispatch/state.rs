//! What is put back when a call fails.

use std::sync::Arc;

use super::turn::Turn;
use crate::event::Event;
use crate::panics::guarded;
use crate::snapshot::{SavedState, Snapshot};

/// All state of a turn, taken down.
pub(super) struct TurnSnapshot(Vec<(Part, SavedState)>);

#[derive(Clone, Copy)]
enum Part {
    Session,
    Resources,
    Files,
    Own(usize),
}

fn part(turn: &Turn, part: Part) -> Option<&dyn Snapshot> {
    Some(match part {
        Part::Session => turn.session.as_deref()?,
        Part::Resources => turn.resources.as_deref()?,
        Part::Files => &*turn.files,
        Part::Own(place) => &**turn.state.get(place)?,
    })
}

/// Snapshots the state that calls of a turn may change.
pub(super) fn snapshot(turn: &Turn) -> Result<TurnSnapshot, String> {
    let own = (0..turn.state.len()).map(Part::Own);
    let mut before = Vec::new();
    for which in [Part::Session, Part::Resources, Part::Files].into_iter().chain(own) {
        let Some(state) = part(turn, which) else { continue };
        match guarded(|| state.snapshot()) {
            Ok(saved) => before.push((which, saved)),
            Err(error) => return Err(format!("no snapshot of {}: {error}", state.name())),
        }
    }
    Ok(TurnSnapshot(before))
}

/// Restores a snapshot: each part, also when others fail.
pub(super) fn restore(turn: &Turn, before: TurnSnapshot) -> Result<(), String> {
    let mut failed = Vec::new();
    for (which, saved) in before.0.into_iter().rev() {
        let Some(state) = part(turn, which) else { continue };
        if let Err(error) = guarded(|| state.restore(saved)) {
            failed.push(format!("{} was not put back: {error}", state.name()));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

/// Tells the session.
pub(super) fn publish(turn: &Turn, event: &Event) -> Result<(), String> {
    let Some(session) = turn.session.as_ref().map(Arc::as_ref) else { return Ok(()) };
    guarded(|| session.publish(event)).map_err(|error| format!("event {}: {error}", event.kind()))
}
