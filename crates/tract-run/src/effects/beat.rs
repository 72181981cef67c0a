//! Says now and then that a run lives, on a thread of its own: a tool may block the run's.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tract_core::{CommitId, RefName, block_on};
use tract_engine::{Repo, Txn, WriteOptions};

use super::doc::{TurnDoc, parse, put, turn_ref};
use super::holder::HolderName;
use crate::error::Result;

#[derive(Debug, Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

/// A thread that says that a run lives, until this is dropped.
#[derive(Debug)]
pub(super) struct Heartbeat(Arc<Stop>);

impl Heartbeat {
    /// Starts it. Without a thread the lease runs out, and other runs look at the process.
    pub(super) fn start(
        repo: &Repo,
        branch: &RefName,
        slot: CommitId,
        holder: &HolderName,
        lease: Duration,
    ) -> Option<Self> {
        let stop = Arc::new(Stop::default());
        let (ended, repo, branch, holder) =
            (Arc::clone(&stop), repo.clone(), branch.clone(), holder.clone());
        let thread = std::thread::Builder::new().name("tract-effects".to_owned());
        let spawned = thread.spawn(move || {
            while !ended.wait(lease / 3) {
                match block_on(renew(&repo, &branch, slot, &holder, lease)) {
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
async fn renew(
    repo: &Repo,
    branch: &RefName,
    slot: CommitId,
    holder: &HolderName,
    lease: Duration,
) -> Result<bool> {
    let name = turn_ref(slot)?;
    let Some(target) = repo.ref_target(&name).await? else { return Ok(false) };
    let Some(id) = target.blob() else { return Ok(false) };
    let found: TurnDoc = parse(&name, &repo.require_blob(id).await?)?;
    if found.holder.id != holder.id {
        return Ok(false);
    }
    let mut txn = Txn::new(repo)?;
    put(&mut txn, &name, Some(target), &TurnDoc::new(holder, branch, repo.now_us(), lease))?;
    // On a conflict the run itself wrote: the next time tells.
    let _ = txn.apply("heartbeat", &WriteOptions::new()).await?;
    Ok(true)
}
