//! Takes hold of the calls of a message, after waiting for the run that holds them.

use std::time::{Duration, Instant};

use tract_core::{Applied, CancellationToken, RefTarget};
use tract_engine::{Txn, WriteOptions};
use tract_hooks::wait::within;

use super::Effects;
use super::doc::{TurnDoc, put, turn_ref};
use crate::error::{Result, RunError};

/// Added to the end of a lease before it counts as expired. The clocks of two machines may differ
/// by that much, and a lease that is still held must not be taken.
const SKEW_US: i64 = 300_000_000;

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The document of the holder as a waiting run has seen it, and since when. If it is unchanged for
/// a whole lease, the holder has stopped renewing. So the clocks of the two need not agree.
type SeenLease = Option<(RefTarget, Instant)>;

impl Effects {
    /// Takes hold of the calls once no other run holds them. While it waits, it calls `on_held`
    /// once, with the holder and its branch. Returns whether this run holds the calls; `false` if
    /// it was cancelled while it waited.
    ///
    /// # Errors
    /// [`RunError::Held`] if the other run does not end within the time limit.
    pub(crate) async fn take(
        &self,
        cancellation: &CancellationToken,
        patience: Duration,
        on_held: impl Fn(&str, &str),
    ) -> Result<bool> {
        let turn = turn_ref(self.run.slot)?;
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        let (mut seen, mut reported): (SeenLease, bool) = (None, false);
        let mut races = self.run.repo.races();
        loop {
            let found = self.run.repo.ref_target(&turn).await?;
            if let Some(target) = &found
                && let Some(doc) = self.run.read::<TurnDoc>(&turn, target).await?
                && self.lives(&doc, target, &mut seen)
            {
                let (by, branch) = (doc.holder.describe(), doc.branch);
                if !std::mem::replace(&mut reported, true) {
                    on_held(&by, &branch);
                }
                if began.elapsed() >= patience {
                    return Err(RunError::Held { by, branch });
                }
                if within(Some(pause), cancellation.cancelled()).await.is_some() {
                    return Ok(false);
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
            let mut txn = Txn::new(&self.run.repo)?;
            let marker = put(&mut txn, &turn, found, &TurnDoc::of(&self.run))?;
            match txn.apply("take", &WriteOptions::default()).await? {
                Applied::Done | Applied::Already => {
                    self.begun(marker);
                    return Ok(true);
                }
                Applied::Conflict(_) | Applied::Moved(_) => races.lose().await?,
            }
        }
    }

    /// Returns whether the run that a document names may still work on the calls.
    fn lives(&self, doc: &TurnDoc, target: &RefTarget, seen: &mut SeenLease) -> bool {
        // In order of certainty: the process table; the end of the lease with a margin for clock
        // skew; and no renewal for a whole lease, measured with this machine's clock alone.
        if let Some(known) = doc.holder.is_alive() {
            return known;
        }
        if self.run.repo.now_us() > doc.until_us.saturating_add(SKEW_US) {
            return false;
        }
        let before = seen.take().filter(|(known, _)| known == target);
        let (_, since) = seen.insert(before.unwrap_or_else(|| (target.clone(), Instant::now())));
        since.elapsed() < doc.lease()
    }
}
