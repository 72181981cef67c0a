//! One turn at a time on a session.

use std::fmt;
use std::time::Duration;

use tract_core::{CancellationToken, CommitId};

use super::{Result, Session, SessionError};
use crate::queue::TurnHold;

/// Keeps other turns from working on a session, until this is dropped.
pub struct SessionHold {
    session: Session,
    /// Absent in a hold within another one.
    _hold: Option<TurnHold>,
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

impl Session {
    /// Waits until no other turn works on the session, and excludes others until the hold is
    /// dropped. A turn rolls the session back when a call fails, which would undo concurrent
    /// changes of another turn.
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
        if self.lent_by.is_some_and(|hold| self.queue.is_held_by(hold)) {
            return Ok(SessionHold { session: self.clone(), _hold: None });
        }
        let entered = self.queue.enter(by.into(), most, cancellation).await;
        let hold = entered.map_err(|by| SessionError::Held { by })?;
        let session = Self { lent_by: Some(hold.number()), ..self.clone() };
        Ok(SessionHold { session, _hold: Some(hold) })
    }

    /// Returns which turn works on the session.
    pub fn held_by(&self) -> Option<String> {
        self.queue.holder()
    }

    /// Returns the commit whose state it has, where a run of an agent left it there.
    pub fn position(&self) -> Option<CommitId> {
        self.lock().position
    }

    /// Sets the commit whose state it has.
    pub fn set_position(&self, position: CommitId) {
        self.lock().position = Some(position);
    }
}
