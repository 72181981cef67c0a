//! Turns in order: one at a time works on state that it may restore.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tract_core::CancellationToken;

use crate::cancel::unless_cancelled;
use crate::dispatch::{DispatchLimits, Permit};

/// Holds are numbered over all queues, so that a number names one hold.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Lets one turn in at a time, in the order in which they come.
pub(crate) struct TurnQueue {
    one: Arc<DispatchLimits>,
    /// The number of the hold that there is, and who has it.
    holder: Mutex<Option<(u64, String)>>,
}

impl Default for TurnQueue {
    fn default() -> Self {
        Self { one: Arc::new(DispatchLimits::new(1)), holder: Mutex::default() }
    }
}

impl TurnQueue {
    fn lock(&self) -> MutexGuard<'_, Option<(u64, String)>> {
        // It is replaced as a whole, so a panic leaves it usable.
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the present holder.
    pub(crate) fn holder(&self) -> Option<String> {
        self.lock().as_ref().map(|(_, by)| by.clone())
    }

    /// Returns whether a hold of this number is the one that there is.
    pub(crate) fn is_held_by(&self, number: u64) -> bool {
        self.lock().as_ref().is_some_and(|(current, _)| *current == number)
    }

    /// Waits for its turn. A wait that ends by time or cancellation leaves the queue, and returns
    /// the holder.
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

/// Keeps other turns out, until this is dropped.
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
        // Before the permit is dropped, which lets the next one in.
        *self.queue.lock() = None;
    }
}
