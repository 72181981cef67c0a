//! What this handle knows of its branches: where its writes leave them, which of these are under
//! way, and which write plans next. It spares a write the reading of the head, and a plain message
//! the fold of its line.
//!
//! Writes of one branch plan in order of arrival, each on top of the one before it as soon as that
//! one is with the store, so that the store can make many of them durable with one flush. The
//! store decides whether a guess holds, by the compare-and-swap that every write ends in; nothing
//! here is needed for a write to be right, so what makes no progress is passed over.

use std::collections::{BTreeMap, HashMap};
use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tract_core::{CommitId, RefName};
use tract_hooks::wait::within;

use crate::plan::BranchTip;

/// The branches that this handle wrote last. Bounded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heads(Arc<Mutex<HashMap<RefName, Branch>>>);

/// A handle that writes to more branches than this forgets those that are at rest.
const BRANCHES: usize = 256;

/// How long a write waits for another one of its handle that makes no progress: a future that is
/// neither polled nor dropped, or a store that does not answer.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct Branch {
    /// Where the writes of this handle leave it, those under way included; `None` when not known.
    tip: Option<BranchTip>,
    /// The writes under way that the tip includes.
    under_way: usize,
    /// Rises when the tip becomes something that those under way do not lead to.
    epoch: u64,
    /// Writes that wait until none is under way.
    settling: Vec<Waker>,
    /// The write that plans now.
    planning: Option<u64>,
    /// The writes that wait to plan, in order of arrival.
    waiting: BTreeMap<u64, Waker>,
    next_ticket: u64,
    /// How often the turn was given on.
    turns: u64,
}

impl Branch {
    fn is_idle(&self) -> bool {
        self.under_way == 0 && self.planning.is_none() && self.waiting.is_empty()
    }

    /// Sets the tip to what the writes under way do not lead to. Returns who has to be woken.
    fn reset(&mut self, tip: Option<BranchTip>) -> Vec<Waker> {
        self.tip = tip;
        self.epoch += 1;
        self.under_way = 0;
        std::mem::take(&mut self.settling)
    }

    /// Lets the next write plan. Returns who has to be woken.
    fn give_turn(&mut self) -> Option<Waker> {
        self.turns += 1;
        let (next, waker) = self.waiting.pop_first().unzip();
        self.planning = next;
        waker
    }
}

/// Where the writes of a handle leave a branch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalTip {
    /// `None` when it is not known.
    pub(crate) tip: Option<BranchTip>,
    /// Whether all of these writes are answered.
    pub(crate) settled: bool,
}

impl LocalTip {
    /// The commit that the branch points to, where that is known.
    pub(crate) fn head(&self) -> Option<Option<CommitId>> {
        self.tip.map(|tip| tip.head)
    }
}

impl Heads {
    fn lock(&self) -> MutexGuard<'_, HashMap<RefName, Branch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known of a branch; wakes, once the lock is free, whom that returns.
    fn change<W: IntoIterator<Item = Waker>>(
        &self,
        name: &RefName,
        change: impl FnOnce(&mut Branch) -> W,
    ) {
        let mut branches = self.lock();
        if !branches.contains_key(name) {
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

    /// Takes in where a write that took no turn left a branch; `None` when that is not known.
    pub(crate) fn keep(&self, name: &RefName, tip: Option<BranchTip>) {
        match tip {
            Some(_) => self.change(name, |branch| branch.reset(tip)),
            None => self.forget(name),
        }
    }

    pub(crate) fn forget(&self, name: &RefName) {
        let wakers = self.lock().get_mut(name).map(|branch| branch.reset(None));
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Waits until the writes under way are answered. When that takes too long, nothing is taken to
    /// be known of the branch.
    pub(crate) async fn settle(&self, name: &RefName) {
        let mut left = usize::MAX;
        loop {
            let settled = poll_fn(|context| {
                let mut branches = self.lock();
                match branches.get_mut(name).filter(|branch| branch.under_way > 0) {
                    None => Poll::Ready(()),
                    Some(branch) => {
                        branch.settling.push(context.waker().clone());
                        Poll::Pending
                    }
                }
            });
            if within(Some(PATIENCE), settled).await.is_some() {
                return;
            }
            let now = self.lock().get(name).map_or(0, |branch| branch.under_way);
            if now >= left {
                return self.forget(name);
            }
            left = now;
        }
    }

    /// Waits until the writes that came earlier have planned.
    ///
    /// Dropping the future gives up its place; dropping the turn gives it on.
    pub(crate) async fn turn(&self, name: &RefName) -> Turn {
        let mut ticket = 0;
        self.change(name, |branch| {
            ticket = branch.next_ticket;
            branch.next_ticket += 1;
            match branch.planning {
                None => branch.planning = Some(ticket),
                Some(_) => _ = branch.waiting.insert(ticket, Waker::noop().clone()),
            }
            None
        });
        let turn = Turn { heads: self.clone(), name: name.clone(), ticket };
        while !turn.is_mine() {
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
        let mut branches = self.heads.lock();
        match branches.get_mut(&self.name) {
            Some(branch) if branch.planning != Some(self.ticket) => {
                branch.waiting.insert(self.ticket, waker.clone());
                Poll::Pending
            }
            Some(_) | None => Poll::Ready(()),
        }
    }

    /// Takes the turn from a write that makes no progress.
    fn take(&self) {
        self.heads.change(&self.name, |branch| {
            branch.waiting.remove(&self.ticket);
            branch.planning = Some(self.ticket);
            branch.turns += 1;
            None
        });
    }

    /// Gives the turn on once the write is with the store: the next one plans on top of where it
    /// leaves the branch.
    pub(crate) fn pass_on(self, tip: Option<BranchTip>) -> SubmittedWrite {
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
        self.heads.change(&self.name, |branch| {
            branch.waiting.remove(&self.ticket);
            if branch.planning == Some(self.ticket) { branch.give_turn() } else { None }
        });
    }
}

/// A write that is with the store. When it ends in any other way than by [`done`](Self::done),
/// nothing is known of the branch.
#[derive(Debug)]
pub(crate) struct SubmittedWrite {
    heads: Heads,
    name: RefName,
    epoch: u64,
    done: bool,
}

impl SubmittedWrite {
    /// Takes in that the write is stored.
    pub(crate) fn done(mut self) {
        self.done = true;
    }
}

impl Drop for SubmittedWrite {
    fn drop(&mut self) {
        self.heads.change(&self.name, |branch| {
            // The tip was replaced since, and the count of writes under way begun again without
            // this one: counting it down would settle the branch too early.
            if branch.epoch != self.epoch {
                return Vec::new();
            }
            if !self.done {
                return branch.reset(None);
            }
            branch.under_way -= 1;
            match branch.under_way {
                0 => std::mem::take(&mut branch.settling),
                _ => Vec::new(),
            }
        });
    }
}

/// Waits for a time, without a runtime.
pub(crate) async fn sleep(time: Duration) {
    within(Some(time), pending::<()>()).await;
}
