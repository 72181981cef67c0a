//! The executor: it runs one client at a time, and every store call ends that client's turn.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use super::order::Order;

/// The work of one client.
pub(super) type Work = Pin<Box<dyn Future<Output = ()>>>;

/// Selects the client that runs next. The stores of a schedule share it, and end a turn with it.
#[derive(Debug, Default)]
pub(super) struct Scheduler(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The running client; `None` while the schedule is set up or checked.
    running: Option<usize>,
    /// Whether the client stopped at a store call. Otherwise it waits for another thread.
    at_call: bool,
    /// The client that has exclusive access.
    alone: Option<usize>,
    /// The number of store calls after which the running step of a client is dropped.
    left: Vec<Option<u32>>,
    calls: u64,
    /// A hash of all calls in order, to compare two runs.
    order: u64,
    trace: Option<Vec<String>>,
}

/// Prevents all other clients from running until it is dropped.
pub(super) struct Alone<'a>(&'a Scheduler);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.lock().alone = None;
    }
}

impl Scheduler {
    pub(super) fn new(clients: usize, trace: bool) -> Self {
        let left = vec![None; clients];
        Self(Mutex::new(State { left, trace: trace.then(Vec::new), ..State::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the turn of the running client before a store call.
    pub(super) async fn turn(&self, call: impl FnOnce() -> String) {
        {
            let mut state = self.lock();
            let Some(client) = state.running else { return };
            let call = call();
            let text = call.bytes().chain([client as u8]);
            // FNV-1a.
            state.order = text.fold(state.order ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            state.calls += 1;
            state.at_call = true;
            if let Some(trace) = &mut state.trace {
                trace.push(format!("  client {client}: {call}"));
            }
        }
        let mut ended = false;
        poll_fn(
            |_| {
                if std::mem::replace(&mut ended, true) { Poll::Ready(()) } else { Poll::Pending }
            },
        )
        .await;
    }

    /// Lets only the running client run until the returned guard is dropped.
    pub(super) fn alone(&self) -> Alone<'_> {
        let mut state = self.lock();
        state.alone = state.running;
        Alone(self)
    }

    /// Begins a step of a client, which is dropped after some store calls.
    pub(super) fn begin(&self, client: usize, stop_after: Option<u32>) {
        if let Some(left) = self.lock().left.get_mut(client) {
            *left = stop_after;
        }
    }

    pub(super) fn running(&self) -> Option<usize> {
        self.lock().running
    }

    /// Returns the number of store calls, and the hash of their order.
    pub(super) fn calls(&self) -> (u64, u64) {
        let state = self.lock();
        (state.calls, state.order)
    }

    /// Adds a line to the trace, if there is one.
    pub(super) fn note(&self, line: impl FnOnce() -> String) {
        let mut state = self.lock();
        if let Some(trace) = &mut state.trace {
            trace.push(line());
        }
    }

    pub(super) fn take_trace(&self) -> Vec<String> {
        self.lock().trace.take().unwrap_or_default()
    }

    /// Runs clients until all are done, or until `is_over`. `start` makes the work of a client, at
    /// first and after a dropped step. Returns the message of a panic.
    pub(super) fn run(
        &self,
        order: &mut Order,
        clients: usize,
        start: impl Fn(usize) -> Work,
        dropped: impl Fn(usize),
        is_over: impl Fn() -> bool,
    ) -> Result<(), String> {
        let mut works: Vec<Option<Work>> = (0..clients).map(|client| Some(start(client))).collect();
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        while !is_over() {
            let ready: Vec<usize> = (0..clients).filter(|at| works[*at].is_some()).collect();
            let alone = self.lock().alone;
            let Some(client) = alone.or_else(|| order.next(&ready)) else { break };
            if self.is_stopped(client) {
                // Dropped here, so that its locks and permits are released before another client
                // runs.
                works[client] = None;
                dropped(client);
                works[client] = Some(start(client));
            }
            let Some(work) = &mut works[client] else { break };
            loop {
                {
                    let mut state = self.lock();
                    state.running = Some(client);
                    state.at_call = false;
                }
                let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut context)));
                let at_call = {
                    let mut state = self.lock();
                    state.running = None;
                    state.at_call
                };
                match polled {
                    Ok(Poll::Ready(())) => {
                        works[client] = None;
                        break;
                    }
                    Ok(Poll::Pending) if at_call => break,
                    // The client waits for another thread, such as the engine's. No other client
                    // runs until it is woken, so that the order depends only on the seed.
                    Ok(Poll::Pending) => thread::park(),
                    Err(panic) => {
                        let text = tract_core::panic_text(&*panic).unwrap_or("no text");
                        return Err(format!("client {client}: {text}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Counts down the calls of a step that will be dropped; returns whether it is dropped now.
    fn is_stopped(&self, client: usize) -> bool {
        let mut state = self.lock();
        let Some(Some(left)) = state.left.get_mut(client) else { return false };
        if *left > 0 {
            *left -= 1;
            return false;
        }
        state.left[client] = None;
        true
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
