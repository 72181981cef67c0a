//! Says now and then that a run lives, on a thread of its own: a tool may block the run's.

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
    /// Starts it. Without a thread the lease runs out, and other runs look at the process.
    pub(super) fn start(run: &Claimant) -> Option<Self> {
        let stop = Arc::new(Stop::default());
        let (ended, run) = (Arc::clone(&stop), run.clone());
        let thread = std::thread::Builder::new().name("tract-effects".to_owned());
        let spawned = thread.spawn(move || {
            while !ended.wait(run.lease / 3) {
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
    /// Waits until it is time; returns whether it was stopped.
    fn wait(&self, pause: Duration) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(stopped, pause, |stopped| !*stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Writes that the run lives; returns whether it still has the calls.
async fn renew(run: &Claimant) -> Result<bool> {
    let name = turn_ref(run.slot)?;
    let Some(target) = run.repo.ref_target(&name).await? else { return Ok(false) };
    if !run.is_mine(&name, &target).await? {
        return Ok(false);
    }
    let mut txn = Txn::new(&run.repo)?;
    put(&mut txn, &name, Some(target), &TurnDoc::of(run))?;
    // On a conflict the run itself has written; the next renewal shows the result.
    let _ = txn.apply("heartbeat", &WriteOptions::new()).await?;
    Ok(true)
}
