//! The calls of a session, and the matching of results to them.

use std::collections::HashMap;

use super::place::{Places, Position};

/// Maximum number of calls with one id that are searched for an open one. Bounds the time for a
/// hostile file.
const MAX_CALLS_OF_ID: usize = 1000;

/// A call and its position.
#[derive(Debug)]
pub(super) struct SessionCall {
    pub(super) place: Position,
    /// The API message with the call.
    pub(super) message: Option<String>,
    pub(super) line: usize,
    pub(super) answered: bool,
}

/// The calls of each id, oldest first: some gateways reuse ids.
#[derive(Debug, Default)]
pub(super) struct Calls(HashMap<String, Vec<SessionCall>>);

impl Calls {
    pub(super) fn push(&mut self, id: &str, call: SessionCall) {
        self.0.entry(id.to_owned()).or_default().push(call);
    }

    /// Returns the call that a result at a position answers: the first open one of the nearest
    /// message on the path to that position, or else the last one.
    pub(super) fn answered_by(
        &mut self,
        id: &str,
        place: Option<Position>,
        places: &Places,
    ) -> Option<&mut SessionCall> {
        let calls = self.0.get_mut(id)?;
        let from = calls.len().saturating_sub(MAX_CALLS_OF_ID);
        let is_on_path = |call: &SessionCall| {
            place.is_some_and(|place| places.is_on_path(call.place, place.branch))
        };
        let recent = calls.get(from..).unwrap_or_default();
        let nearest = recent
            .iter()
            .rposition(|call| !call.answered && is_on_path(call))
            .map(|at| {
                let message = recent.get(at).and_then(|call| call.message.as_deref());
                let is_same = |call: &&SessionCall| {
                    !call.answered && message.is_some() && call.message.as_deref() == message
                };
                let before = recent.get(..at).unwrap_or_default().iter().rev();
                at - before.take_while(is_same).count()
            })
            .or_else(|| recent.iter().rposition(is_on_path));
        match nearest {
            Some(at) => calls.get_mut(from + at),
            None => calls.last_mut(),
        }
    }

    /// Returns the calls without a result, with their lines, in the order of the file.
    pub(super) fn unanswered(&self) -> Vec<(usize, &str)> {
        let calls = self.0.iter();
        let calls = calls.flat_map(|(id, calls)| calls.iter().map(move |call| (call, id.as_str())));
        let open = calls.filter(|(call, _)| !call.answered);
        let mut open: Vec<(usize, &str)> = open.map(|(call, id)| (call.line, id)).collect();
        open.sort_unstable();
        open
    }
}
