//! Queues of turns: one turn at a time works on state that it may restore.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tract_core::CancellationToken;

use crate::cancel::unless_cancelled;
use crate::dispatch::{DispatchLimits, Permit};

/// Number of the next hold. Unique over all queues, so that a number identifies one hold.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Admits one turn at a time, in the order of arrival.
pub(crate) struct TurnQueue {
    one: Arc<DispatchLimits>,
    /// Number and name of the current holder.
    holder: Mutex<Option<(u64, String)>>,
}

impl Default for TurnQueue {
    fn default() -> Self {
        Self { one: Arc::new(DispatchLimits::new(1)), holder: Mutex::default() }
    }
}

impl TurnQueue {
    fn lock(&self) -> MutexGuard<'_, Option<(u64, String)>> {
        // The value is replaced as a whole, so it stays consistent after a panic.
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current holder.
    pub(crate) fn holder(&self) -> Option<String> {
        self.lock().as_ref().map(|(_, by)| by.clone())
    }

    /// Returns whether the current hold has this number.
    pub(crate) fn is_held_by(&self, number: u64) -> bool {
        self.lock().as_ref().is_some_and(|(current, _)| *current == number)
    }

    /// Waits for its turn. If the wait times out or is cancelled, leaves the queue and returns the
    /// holder as the error.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        by: String,
        most: Option<Duration>,
        cancellation: &CancellationToken,
    ) -> Result<TurnHold, String> {
        let permit = unless_cancelled(most, cancellation, self.one.permit("")).await;
        let Some(permit) = permit.flatten() else {
            return Err(self.holder().unwrap_or_else(|| "another turn".to_owned()));
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        *self.lock() = Some((number, by));
        Ok(TurnHold { queue: Arc::clone(self), number, _permit: permit })
    }
}

/// Keeps other turns out until it is dropped.
pub(crate) struct TurnHold {
    queue: Arc<TurnQueue>,
    number: u64,
    _permit: Permit,
}

impl TurnHold {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for TurnHold {
    fn drop(&mut self) {
        // Clear the holder before the permit drops. The permit admits the next turn, whose name
        // must not be erased.
        *self.queue.lock() = None;
    }
}
