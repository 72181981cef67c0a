//! Renews the lease of a run on a separate thread, because a tool may block the run's own thread.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tract_core::block_on;
use tract_engine::{Txn, WriteOptions};

use super::Claimant;
use super::doc::{TurnDoc, put, turn_ref};
use crate::error::Result;

#[derive(Debug, Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

/// A thread that renews the lease of a run until this value is dropped.
#[derive(Debug)]
pub(super) struct Heartbeat(Arc<Stop>);

impl Heartbeat {
    /// Starts the thread. If that fails, the lease expires, and other runs can only inspect the
    /// process.
    pub(super) fn start(run: &Claimant) -> Option<Self> {
        let stop = Arc::new(Stop::default());
        let (ended, run) = (Arc::clone(&stop), run.clone());
        let thread = std::thread::Builder::new().name("tract-effects".to_owned());
        let spawned = thread.spawn(move || {
            while !ended.wait(run.lease / 3) {
                // A thread instead of a task: a tool that blocks the executor must not make the
                // lease expire.
                match block_on(renew(&run)) {
                    Ok(true) => {}
                    // Another run has the calls now, or they are released.
                    Ok(false) => return,
                    Err(error) => tracing::warn!(target: "tract::run", %error, "no heartbeat"),
                }
            }
        });
        spawned.ok().map(|_| Self(stop))
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        *self.0.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }
}

impl Stop {
    /// Waits for the pause, or until it is stopped. Returns whether it was stopped.
    fn wait(&self, pause: Duration) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(stopped, pause, |stopped| !*stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Renews the lease; returns whether the run still holds the calls.
async fn renew(run: &Claimant) -> Result<bool> {
    let name = turn_ref(run.slot)?;
    let Some(target) = run.repo.ref_target(&name).await? else { return Ok(false) };
    if !run.is_mine(&name, &target).await? {
        return Ok(false);
    }
    let mut txn = Txn::new(&run.repo)?;
    put(&mut txn, &name, Some(target), &TurnDoc::of(run))?;
    // Moved by compare-and-swap, so a late renewal never overwrites a hold that another run has
    // taken. On a conflict the next renewal shows the result.
    let _ = txn.apply("heartbeat", &WriteOptions::default()).await?;
    Ok(true)
}
