//! The branch heads that this handle assumes: where its writes leave each branch, how many of them
//! are in flight, and which write plans next. With it a write does not have to read the head, and a
//! plain message does not have to fold the history.
//!
//! - Turns. Writes of one branch plan in order of arrival. A [`Turn`] is held from the start of
//!   planning until the batch is with the store, then passed on, so each write plans on top of the
//!   one before it and the store can make many of them durable with one flush.
//! - Epochs. A [`SubmittedWrite`] belongs to the tip of its epoch. When a write fails or conflicts,
//!   or a write without a turn moves the branch, the tip is replaced and a new epoch begins, with
//!   no writes in flight. Answers to writes of an earlier epoch are then ignored.
//! - Patience. A caller may stop polling its future without dropping it, and a store may never
//!   answer. A writer that sees no progress for `PATIENCE` takes the turn, or drops the assumed
//!   tip.
//!
//! Nothing here is needed for correctness: every write ends in a compare-and-swap of the branch,
//! and a wrong assumption makes it lose that and plan again. This is why a stuck write may simply
//! be overtaken.

use std::collections::{BTreeMap, HashMap};
use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tract_core::{CommitId, RefName};
use tract_hooks::wait::within;

use crate::plan::BranchTip;

/// The branches that this handle wrote last. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heads(Arc<Mutex<HashMap<RefName, Branch>>>);

/// Number of branches after which idle ones are forgotten. Branches with a write in flight or in
/// the queue are kept, so there may be more.
const BRANCHES: usize = 256;

/// Time without progress after which a write stops waiting for other writes of its handle. Long
/// enough for a slow flush, so that in normal use only a future that is no longer polled, or a
/// store that does not answer, is overtaken.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns a number that is larger than all earlier ones. Tickets and epochs are never given out
/// twice: a branch may be forgotten while turns and writes of its earlier state still exist, and
/// theirs must not be mistaken for those of its new state.
fn next_number() -> u64 {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

#[derive(Debug)]
struct Branch {
    /// The tip that the writes of this handle lead to, including those in flight; `None` if
    /// unknown.
    tip: Option<BranchTip>,
    /// Number of writes in flight that the tip includes.
    under_way: usize,
    /// Changed when the tip is replaced by one that the writes in flight do not lead to.
    epoch: u64,
    /// Wakers of writes that wait until none is in flight.
    settling: Vec<Waker>,
    /// Ticket of the write that is planning.
    planning: Option<u64>,
    /// Writes waiting to plan, by ticket, in order of arrival.
    waiting: BTreeMap<u64, Waker>,
    /// Number of times the turn changed hands. If it does not change, there is no progress.
    turns: u64,
}

impl Default for Branch {
    fn default() -> Self {
        Self {
            tip: None,
            under_way: 0,
            epoch: next_number(),
            settling: Vec::new(),
            planning: None,
            waiting: BTreeMap::new(),
            turns: 0,
        }
    }
}

impl Branch {
    fn is_idle(&self) -> bool {
        self.under_way == 0 && self.planning.is_none() && self.waiting.is_empty()
    }

    /// Replaces the tip and starts a new epoch. Returns the wakers to call.
    fn reset(&mut self, tip: Option<BranchTip>) -> Vec<Waker> {
        self.tip = tip;
        self.epoch = next_number();
        self.under_way = 0;
        std::mem::take(&mut self.settling)
    }

    /// Gives the turn to the next write. Returns the waker to call.
    fn give_turn(&mut self) -> Option<Waker> {
        self.turns += 1;
        let (next, waker) = self.waiting.pop_first().unzip();
        self.planning = next;
        waker
    }
}

/// The tip that the writes of a handle lead to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalTip {
    /// `None` if unknown.
    pub(crate) tip: Option<BranchTip>,
    /// Whether the store has answered all of these writes.
    pub(crate) settled: bool,
}

impl LocalTip {
    /// The commit that the branch points to, if known; `Some(None)` for a branch without a commit.
    pub(crate) fn head(&self) -> Option<Option<CommitId>> {
        self.tip.map(|tip| tip.head)
    }
}

impl Heads {
    fn lock(&self) -> MutexGuard<'_, HashMap<RefName, Branch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state of a branch. Calls the returned wakers after the lock is released.
    fn change<W: IntoIterator<Item = Waker>>(
        &self,
        name: &RefName,
        change: impl FnOnce(&mut Branch) -> W,
    ) {
        let mut branches = self.lock();
        if !branches.contains_key(name) {
            // All idle branches are dropped at once, so that a handle that writes to many branches
            // in turn scans the map once in `BRANCHES` writes and not with each of them.
            if branches.len() >= BRANCHES {
                branches.retain(|_, branch| !branch.is_idle());
            }
            branches.insert(name.clone(), Branch::default());
        }
        let wakers = branches.get_mut(name).map(change);
        // A waker may poll its write at once, which takes this lock again.
        drop(branches);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    pub(crate) fn tip(&self, name: &RefName) -> LocalTip {
        let branches = self.lock();
        let branch = branches.get(name);
        LocalTip {
            tip: branch.and_then(|branch| branch.tip),
            settled: branch.is_none_or(|branch| branch.under_way == 0),
        }
    }

    /// Sets the tip after a write without a turn; `None` if it is unknown.
    pub(crate) fn keep(&self, name: &RefName, tip: Option<BranchTip>) {
        match tip {
            // The writes in flight do not lead to this tip. A new epoch makes sure that their
            // answers are not counted towards it.
            Some(_) => self.change(name, |branch| branch.reset(tip)),
            None => self.forget(name),
        }
    }

    pub(crate) fn forget(&self, name: &RefName) {
        let wakers = self.lock().get_mut(name).map(|branch| branch.reset(None));
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Waits until the writes in flight are answered. If their number stops falling, drops the
    /// assumed tip of the branch.
    pub(crate) async fn settle(&self, name: &RefName) {
        let mut left = usize::MAX;
        loop {
            let settled = poll_fn(|context| {
                let waker = context.waker().clone();
                let mut branches = self.lock();
                match branches.get_mut(name).filter(|branch| branch.under_way > 0) {
                    None => Poll::Ready(()),
                    Some(branch) => {
                        // A future that is polled again leaves its old waker here. All of them are
                        // called and dropped when the branch settles, and an unnecessary wake-up is
                        // harmless.
                        branch.settling.push(waker);
                        Poll::Pending
                    }
                }
            });
            if within(Some(PATIENCE), settled).await.is_some() {
                return;
            }
            // Fewer writes in flight are progress. Without any, the answer may never come: a caller
            // may have stopped polling the write that would deliver it. Forgetting the tip is safe,
            // since the next write then reads the head.
            let now = self.lock().get(name).map_or(0, |branch| branch.under_way);
            if now >= left {
                return self.forget(name);
            }
            left = now;
        }
    }

    /// Waits until the writes that came earlier have planned.
    ///
    /// Dropping the future leaves the queue; dropping the turn wakes the next writer.
    pub(crate) async fn turn(&self, name: &RefName) -> Turn {
        let mut ticket = 0;
        self.change(name, |branch| {
            // Taken under the lock, so that the queue is in order of arrival.
            ticket = next_number();
            match branch.planning {
                None => branch.planning = Some(ticket),
                // Only reserves the place in the queue; the first poll stores the real waker. If
                // the turn arrives before that poll, no wake-up is needed: the poll finds the turn
                // taken.
                Some(_) => _ = branch.waiting.insert(ticket, Waker::noop().clone()),
            }
            None
        });
        // Created before the wait, so that its destructor removes the ticket if this future is
        // dropped.
        let turn = Turn { heads: self.clone(), name: name.clone(), ticket };
        while !turn.is_mine() {
            // A turn is only taken if it did not change hands during the whole wait. In a long
            // queue a writer may wait longer than that, but then turns do pass.
            let turns = turn.turns();
            let come = poll_fn(|context| turn.poll(context.waker()));
            if within(Some(PATIENCE), come).await.is_none() && turn.turns() == turns {
                turn.take();
            }
        }
        turn
    }
}

/// The right to plan the next write of a branch.
#[derive(Debug)]
pub(crate) struct Turn {
    heads: Heads,
    name: RefName,
    ticket: u64,
}

impl Turn {
    fn with_branch<T: Default>(&self, at: impl FnOnce(&Branch) -> T) -> T {
        self.heads.lock().get(&self.name).map(at).unwrap_or_default()
    }

    fn is_mine(&self) -> bool {
        self.with_branch(|branch| branch.planning == Some(self.ticket))
    }

    fn turns(&self) -> u64 {
        self.with_branch(|branch| branch.turns)
    }

    fn poll(&self, waker: &Waker) -> Poll<()> {
        let waker = waker.clone();
        let replaced = {
            let mut branches = self.heads.lock();
            match branches.get_mut(&self.name) {
                Some(branch) if branch.planning != Some(self.ticket) => {
                    branch.waiting.insert(self.ticket, waker)
                }
                Some(_) | None => return Poll::Ready(()),
            }
        };
        // Without the lock: dropping a waker may drop its task, which may wait for a branch too.
        drop(replaced);
        Poll::Pending
    }

    /// Takes the turn from a write that makes no progress.
    fn take(&self) {
        // Dropped without the lock, as in `poll`.
        let mut removed = None;
        self.heads.change(&self.name, |branch| {
            // The overtaken writer still has its `Turn`. Since `planning` no longer names its
            // ticket, dropping that turn passes nothing on. If both submit a batch that was planned
            // on the same tip, the store accepts only one of them.
            removed = branch.waiting.remove(&self.ticket);
            branch.planning = Some(self.ticket);
            branch.turns += 1;
            None
        });
    }

    /// Passes the turn on once the batch is with the store. The next write plans on top of `tip`.
    pub(crate) fn pass_on(self, tip: Option<BranchTip>) -> SubmittedWrite {
        // The tip must be set before `self` is dropped, which wakes the next writer: it plans on
        // that tip.
        let mut epoch = 0;
        self.heads.change(&self.name, |branch| {
            branch.tip = tip;
            branch.under_way += 1;
            epoch = branch.epoch;
            None
        });
        SubmittedWrite { heads: self.heads.clone(), name: self.name.clone(), epoch, done: false }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Dropped without the lock, as in `poll`.
        let mut removed = None;
        self.heads.change(&self.name, |branch| {
            removed = branch.waiting.remove(&self.ticket);
            if branch.planning == Some(self.ticket) { branch.give_turn() } else { None }
        });
    }
}

/// A write that is with the store. Dropping it before [`done`](Self::done) makes the tip unknown:
/// the write failed, conflicted or was cancelled, and later writes may be planned on top of it.
#[derive(Debug)]
pub(crate) struct SubmittedWrite {
    heads: Heads,
    name: RefName,
    epoch: u64,
    done: bool,
}

impl SubmittedWrite {
    /// Marks the write as stored.
    pub(crate) fn done(mut self) {
        self.done = true;
    }
}

impl Drop for SubmittedWrite {
    fn drop(&mut self) {
        self.heads.change(&self.name, |branch| {
            // The tip was replaced since, and the count of writes in flight restarted without this
            // one. Counting it down would report the branch as settled too early.
            if branch.epoch != self.epoch {
                return Vec::new();
            }
            if !self.done {
                return branch.reset(None);
            }
            branch.under_way -= 1;
            // The epoch is the same, so this write was counted and the count is not zero.
            match branch.under_way {
                0 => std::mem::take(&mut branch.settling),
                _ => Vec::new(),
            }
        });
    }
}

/// Sleeps without a runtime.
pub(crate) async fn sleep(time: Duration) {
    within(Some(time), pending::<()>()).await;
}
