//! Lets one turn at a time work on a session.

use std::fmt;
use std::time::Duration;

use tract_core::{CancellationToken, CommitId};

use super::{Result, Session, SessionError};
use crate::queue::TurnHold;

/// Exclusive access of a turn to a session, until it is dropped.
pub struct SessionHold {
    session: Session,
    /// `None` for a hold within another one.
    _hold: Option<TurnHold>,
}

impl fmt::Debug for SessionHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionHold").field("session", &self.session).finish_non_exhaustive()
    }
}

impl SessionHold {
    /// Returns the handle of the turn that holds the session. A further [`hold`](Session::hold)
    /// through it does not wait for this one.
    pub fn session(&self) -> &Session {
        &self.session
    }
}

impl Session {
    /// Waits until no other turn works on the session, and keeps other turns out until the hold is
    /// dropped. A turn restores the session when a call fails, which would also undo concurrent
    /// changes of another turn.
    ///
    /// # Behavior
    /// - Waiting turns are admitted in order; one that stops waiting leaves the queue.
    /// - A handle that a hold has [lent](SessionHold::session), as to the calls of its turn, does
    ///   not wait for that hold, because a call is part of its turn.
    /// - Only turns take holds. A program that changes a session while a turn works on it does so
    ///   at its own risk.
    ///
    /// # Errors
    /// [`SessionError::Held`] with the holder, if the wait is longer than `most` or is cancelled.
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

    /// Returns the turn that works on the session.
    pub fn held_by(&self) -> Option<String> {
        self.queue.holder()
    }

    /// Returns the commit whose state the session has, if a run of an agent set it.
    pub fn position(&self) -> Option<CommitId> {
        self.lock().position
    }

    /// Sets the commit whose state the session has.
    pub fn set_position(&self, position: CommitId) {
        self.lock().position = Some(position);
    }
}
