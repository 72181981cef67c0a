//! Taking the calls of a message up, and waiting for a run that works on them.

use std::time::{Duration, Instant};

use tract_core::{Applied, CancellationToken, RefTarget};
use tract_engine::{Txn, WriteOptions};
use tract_hooks::wait::within;

use super::Effects;
use super::doc::{TurnDoc, turn_ref};
use crate::error::{Result, RunError};

/// A run that works on calls.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct HolderInfo {
    /// Who, as a person reads it.
    pub(crate) by: String,
    /// The branch that it works on.
    pub(crate) branch: String,
    /// When it last said that it lives: microseconds since 1970, UTC.
    pub(crate) at_us: i64,
}

/// Whether the calls were taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeOutcome {
    /// They are this run's.
    Mine,
    /// This run was cancelled while it waited.
    Cancelled,
}

/// How much later than its holder's clock says a lease counts as run out. Clocks of two machines
/// may differ by that much, and a lease that is still held must not be taken.
const SKEW_US: i64 = 300_000_000;

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// What a run that waits has seen of the other one: the same document for a whole lease means that
/// the other one does not say any more that it lives. So the two clocks need not agree.
struct LeaseWatch {
    target: RefTarget,
    since: Instant,
}

impl Effects {
    /// Says that this run works on the calls, once no other does; waits for that at most so long,
    /// and tells `on_held` once when it has to.
    ///
    /// # Errors
    /// [`RunError::Held`] when the other one does not end.
    pub(crate) async fn take(
        &self,
        cancellation: &CancellationToken,
        patience: Duration,
        on_held: impl Fn(&HolderInfo),
    ) -> Result<TakeOutcome> {
        let turn = turn_ref(self.slot)?;
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        let (mut seen, mut reported): (Option<LeaseWatch>, bool) = (None, false);
        let mut races = self.repo.races();
        loop {
            let found = self.repo.ref_target(&turn).await?;
            if let Some(target) = &found
                && let Some(doc) = self.read::<TurnDoc>(&turn, target).await?
                && self.lives(&doc, target, &mut seen)
            {
                let held = HolderInfo {
                    by: doc.holder.describe(),
                    branch: doc.branch.clone(),
                    at_us: doc.at_us,
                };
                if !std::mem::replace(&mut reported, true) {
                    on_held(&held);
                }
                if began.elapsed() >= patience {
                    return Err(RunError::Held { by: held.by, branch: held.branch });
                }
                if within(Some(pause), cancellation.cancelled()).await.is_some() {
                    return Ok(TakeOutcome::Cancelled);
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
            let marker = self.marker()?;
            let mut txn = Txn::new(&self.repo)?;
            txn.blob(marker.clone())?;
            txn.move_from(&turn, found, Some(RefTarget::Blob(marker.id())));
            match txn.apply("take", &WriteOptions::new()).await? {
                Applied::Done | Applied::Already => {
                    let mut inner = self.inner();
                    (inner.taken, inner.last) = (true, Some(marker.id()));
                    inner.beat = self.heartbeat();
                    return Ok(TakeOutcome::Mine);
                }
                Applied::Conflict(_) => races.lose().await?,
            }
        }
    }

    /// Whether the run that a document names may still work on the calls.
    fn lives(&self, doc: &TurnDoc, target: &RefTarget, seen: &mut Option<LeaseWatch>) -> bool {
        if let Some(known) = doc.holder.is_alive() {
            return known;
        }
        if self.repo.now_us() > doc.until_us.saturating_add(SKEW_US) {
            return false;
        }
        let before = seen.take().filter(|seen| seen.target == *target);
        let now =
            before.unwrap_or_else(|| LeaseWatch { target: target.clone(), since: Instant::now() });
        let silent = now.since.elapsed();
        *seen = Some(now);
        silent < doc.lease()
    }
}
