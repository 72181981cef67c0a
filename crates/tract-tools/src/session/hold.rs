//! One turn at a time on a session.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tract_core::{CancellationToken, CommitId};
use tract_hooks::wait::within;

use super::{Result, Session, SessionError};
use crate::dispatch::{Limits, Permit};

/// Which turn works on a session. Shared by all of its handles.
pub(super) struct Turns {
    one: Arc<Limits>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many holds there were.
    count: u64,
    /// The hold that there is, by number, and who has it.
    current: Option<(u64, String)>,
    position: Option<CommitId>,
}

impl Default for Turns {
    fn default() -> Self {
        Self { one: Arc::new(Limits::new(1)), state: Mutex::default() }
    }
}

impl Turns {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_current(&self, hold: u64) -> bool {
        self.state().current.as_ref().is_some_and(|(current, _)| *current == hold)
    }
}

/// Keeps other turns from working on a session, until this is dropped.
pub struct SessionHold {
    session: Session,
    /// Absent in a hold within another one.
    permit: Option<Permit>,
}

impl fmt::Debug for SessionHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionHold").field("session", &self.session).finish_non_exhaustive()
    }
}

impl SessionHold {
    /// Returns the handle of the turn that has the session: with it a further
    /// [`hold`](Session::hold) does not wait for this one.
    pub fn session(&self) -> &Session {
        &self.session
    }
}

impl Drop for SessionHold {
    fn drop(&mut self) {
        if self.permit.is_some() {
            self.session.turns.state().current = None;
        }
    }
}

impl Session {
    /// Waits until no other turn works on the session, and keeps others from it until the hold is
    /// dropped. A turn puts the session back when a call fails, and would undo what another one did
    /// meanwhile.
    ///
    /// # Behavior
    /// - Turns that wait come in order; one that stops waiting is passed over.
    /// - A handle that a hold has [lent](SessionHold::session), as to the calls of its turn, does
    ///   not wait for that hold: what a call does is part of its turn.
    /// - Only turns take holds: a program that changes a session while a turn works on it does so at
    ///   its own risk.
    ///
    /// # Errors
    /// [`SessionError::Held`], which says who has it, after the time that it may wait at most, and
    /// when it is cancelled.
    pub async fn hold(
        &self,
        by: impl Into<String>,
        most: Option<Duration>,
        cancellation: &CancellationToken,
    ) -> Result<SessionHold> {
        if self.lent_by.is_some_and(|hold| self.turns.is_current(hold)) {
            return Ok(SessionHold { session: self.clone(), permit: None });
        }
        let mut asked = pin!(self.turns.one.permit(""));
        let mut cancelled = pin!(cancellation.cancelled());
        let permit = within(
            most,
            poll_fn(|task| match asked.as_mut().poll(task) {
                Poll::Ready(permit) => Poll::Ready(Some(permit)),
                Poll::Pending => cancelled.as_mut().poll(task).map(|()| None),
            }),
        )
        .await;
        let Some(permit) = permit.flatten() else {
            let by = self.held_by().unwrap_or_else(|| "another turn".to_owned());
            return Err(SessionError::Held { by });
        };
        let mut state = self.turns.state();
        state.count += 1;
        let hold = state.count;
        state.current = Some((hold, by.into()));
        drop(state);
        let session = Self { lent_by: Some(hold), ..self.clone() };
        Ok(SessionHold { session, permit: Some(permit) })
    }

    /// Returns which turn works on the session.
    pub fn held_by(&self) -> Option<String> {
        self.turns.state().current.as_ref().map(|(_, by)| by.clone())
    }

    /// Returns the commit whose state it has, where a run of an agent left it there.
    pub fn position(&self) -> Option<CommitId> {
        self.turns.state().position
    }

    /// Sets the commit whose state it has.
    pub fn set_position(&self, position: CommitId) {
        self.turns.state().position = Some(position);
    }
}
