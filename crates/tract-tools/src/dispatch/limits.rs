//! Limits on the number of handlers that run at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The maximum number of handlers that run at a time, over all turns, conversations and dispatchers
/// that share it.
///
/// # Behavior
/// - Every call counts while its handler runs, including one that runs alone in its turn. A call
///   above the limit waits for as long as its turn may take, or until it is cancelled. The wait
///   does not count towards the tool's own timeout.
/// - The call that has waited longest is next, among those whose tool is below its own limit.
/// - A handler that runs an inner agent counts while that agent works. Give the inner agent other
///   limits, or they wait for each other.
///
/// ```
/// use std::sync::Arc;
/// use tract_tools::dispatch::{DispatchLimits, Dispatcher};
/// # let registry = Arc::new(tract_tools::Registry::builder().build()?);
/// let limits = Arc::new(DispatchLimits::new(16).of_tool("browse", 2));
/// let limited = |registry| Dispatcher {
///     limits: Some(Arc::clone(&limits)),
///     ..Dispatcher::new(registry)
/// };
/// let (one, other) = (limited(Arc::clone(&registry)), limited(registry));
/// assert_eq!(limits.running(), 0);
/// # Ok::<(), tract_tools::RegistryError>(())
/// ```
#[derive(Debug)]
pub struct DispatchLimits {
    all: usize,
    of_each: usize,
    of_tools: BTreeMap<String, usize>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    running_of: HashMap<String, usize>,
    waiting: VecDeque<Waiting>,
    /// Tickets that were granted and have not been polled since.
    granted: BTreeSet<u64>,
    next: u64,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    tool: String,
    waker: Waker,
}

impl DispatchLimits {
    /// Creates a limit on all handlers together, at least 1.
    pub fn new(all: usize) -> Self {
        let (of_each, of_tools) = (usize::MAX, BTreeMap::new());
        Self { all: all.max(1), of_each, of_tools, state: Mutex::default() }
    }

    /// Sets the limit of each tool without a limit of its own.
    pub(super) fn of_each_tool(self, most: usize) -> Self {
        Self { of_each: most.max(1), ..self }
    }

    /// Sets the limit of one tool, at least 1.
    #[must_use]
    pub fn of_tool(mut self, name: impl Into<String>, most: usize) -> Self {
        self.of_tools.insert(name.into(), most.max(1));
        self
    }

    /// Returns the number of running handlers.
    pub fn running(&self) -> usize {
        self.state().running
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a permit to run a handler of the tool.
    pub(crate) fn permit(self: &Arc<Self>, tool: &str) -> PermitRequest {
        PermitRequest { limits: Arc::clone(self), tool: tool.to_owned(), ticket: None }
    }

    /// Grants permits to waiting calls, oldest first. Returns their wakers.
    fn grant(&self, state: &mut State) -> Vec<Waker> {
        let mut woken = Vec::new();
        let mut place = 0;
        while state.running < self.all {
            let Some(waiting) = state.waiting.get(place) else { break };
            let most = self.of_tools.get(&waiting.tool).copied().unwrap_or(self.of_each);
            // Skipped, not waited for: calls of other tools behind it must not be blocked by the
            // limit of one tool.
            if state.running_of.get(&waiting.tool).copied().unwrap_or(0) >= most {
                place += 1;
                continue;
            }
            let Some(waiting) = state.waiting.remove(place) else { break };
            state.running += 1;
            *state.running_of.entry(waiting.tool).or_default() += 1;
            state.granted.insert(waiting.ticket);
            woken.push(waiting.waker);
        }
        woken
    }

    fn release(&self, tool: &str) {
        let woken = {
            let mut state = self.state();
            state.running = state.running.saturating_sub(1);
            if let Some(running) = state.running_of.get_mut(tool) {
                *running = running.saturating_sub(1);
                if *running == 0 {
                    state.running_of.remove(tool);
                }
            }
            self.grant(&mut state)
        };
        // Outside of the lock: a waker may run a task that polls its request at once.
        woken.into_iter().for_each(Waker::wake);
    }
}

/// Waits for a permit. Dropping it leaves the queue.
pub(crate) struct PermitRequest {
    limits: Arc<DispatchLimits>,
    tool: String,
    ticket: Option<u64>,
}

impl Future for PermitRequest {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Permit> {
        let limits = Arc::clone(&self.limits);
        let waker = task.waker().clone();
        let (granted, woken, replaced) = {
            let mut state = limits.state();
            let ticket = match self.ticket {
                Some(ticket) => ticket,
                None => {
                    let ticket = state.next;
                    state.next += 1;
                    let (tool, waker) = (self.tool.clone(), task.waker().clone());
                    state.waiting.push_back(Waiting { ticket, tool, waker });
                    self.ticket = Some(ticket);
                    ticket
                }
            };
            let woken = limits.grant(&mut state);
            let granted = state.granted.remove(&ticket);
            let waiting = state.waiting.iter_mut().find(|waiting| waiting.ticket == ticket);
            let replaced = waiting.map(|waiting| std::mem::replace(&mut waiting.waker, waker));
            (granted, woken, replaced)
        };
        // Without the lock: dropping a waker may drop its task, which may wait for a tool too.
        drop(replaced);
        woken.into_iter().for_each(Waker::wake);
        if !granted {
            return Poll::Pending;
        }
        self.ticket = None;
        Poll::Ready(Permit { limits, tool: std::mem::take(&mut self.tool) })
    }
}

impl Drop for PermitRequest {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let was_granted = {
            let mut state = self.limits.state();
            state.waiting.retain(|waiting| waiting.ticket != ticket);
            state.granted.remove(&ticket)
        };
        // The permit was granted but never polled: without a release it would be lost.
        if was_granted {
            self.limits.release(&self.tool);
        }
    }
}

/// Counts as a running handler until it is dropped.
pub(crate) struct Permit {
    limits: Arc<DispatchLimits>,
    tool: String,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limits.release(&self.tool);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn poll(permit_request: &mut Pin<&mut PermitRequest>) -> Option<Permit> {
        match permit_request.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    #[test]
    fn the_longest_wait_comes_next_unless_its_tool_is_at_its_limit() {
        let limits = Arc::new(DispatchLimits::new(2).of_tool("slow", 1));
        let mut first = pin!(limits.permit("slow"));
        let mut second = pin!(limits.permit("slow"));
        let mut third = pin!(limits.permit("fast"));
        let mut fourth = pin!(limits.permit("fast"));
        let slow = poll(&mut first).expect("nothing runs");
        assert!(poll(&mut second).is_none(), "its tool is at its limit");
        let fast = poll(&mut third).expect("there is room for another tool");
        assert!(poll(&mut fourth).is_none(), "all of it is in use");
        assert_eq!(limits.running(), 2);
        drop(fast);
        assert!(poll(&mut second).is_none());
        let fast = poll(&mut fourth).expect("the next one that may");
        drop(slow);
        assert!(poll(&mut second).is_some());
        drop(fast);
        assert_eq!(limits.running(), 0, "permits come back");
    }

    #[test]
    fn a_wait_that_was_given_up_blocks_no_other() {
        let limits = Arc::new(DispatchLimits::new(0));
        let mut held = pin!(limits.permit("a"));
        let held = poll(&mut held).expect("one may always run");
        let mut gone = Box::pin(limits.permit("a"));
        let mut granted = Box::pin(limits.permit("b"));
        let mut last = pin!(limits.permit("c"));
        for permit_request in [&mut gone, &mut granted] {
            assert!(poll(&mut permit_request.as_mut()).is_none());
        }
        assert!(poll(&mut last).is_none());
        drop(gone);
        drop(held);
        assert_eq!(limits.running(), 1, "it is granted before it is polled");
        drop(granted);
        let held = poll(&mut last);
        assert!(held.is_some());
        drop(held);
        let state = limits.state();
        assert!(state.waiting.is_empty() && state.granted.is_empty() && state.running == 0);
        assert!(state.running_of.is_empty());
    }
    #[test]
    fn no_call_waits_for_ever_and_no_limit_is_passed() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let limits = Arc::new(DispatchLimits::new(3).of_tool("slow", 1));
        let (now, most, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (limits, now, most, done) = (&limits, &now, &most, &done);
                scope.spawn(move || {
                    for round in 0..300 {
                        let tool = if (thread + round) % 3 == 0 { "slow" } else { "fast" };
                        let permit = tract_core::block_on(limits.permit(tool));
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        now.fetch_sub(1, Ordering::SeqCst);
                        done.fetch_add(1, Ordering::SeqCst);
                        drop(permit);
                    }
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 3);
        assert_eq!((done.load(Ordering::SeqCst), limits.running()), (8 * 300, 0));
    }
}
