//! A clock that wakes whoever waits, without a runtime: one thread for the whole process.

use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Somebody to be woken at a time.
struct Sleeper {
    at: Instant,
    waker: Waker,
}

impl PartialEq for Sleeper {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Sleeper {}

impl PartialOrd for Sleeper {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sleeper {
    /// The earliest is the greatest, as a heap has it.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.at.cmp(&self.at)
    }
}

#[derive(Default)]
struct Timer {
    sleepers: Mutex<BinaryHeap<Sleeper>>,
    changed: Condvar,
}

fn timer() -> Option<&'static Timer> {
    static TIMER: OnceLock<Option<&'static Timer>> = OnceLock::new();
    *TIMER.get_or_init(|| {
        let timer: &'static Timer = Box::leak(Box::default());
        let thread = std::thread::Builder::new().name("tract-timer".to_owned());
        thread.spawn(move || timer.run()).ok().map(|_| timer)
    })
}

impl Timer {
    fn run(&self) {
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = Instant::now();
            sleepers = match sleepers.peek().map(|next| next.at) {
                Some(at) if at <= now => {
                    if let Some(due) = sleepers.pop() {
                        due.waker.wake();
                    }
                    continue;
                }
                Some(at) => {
                    let waited = self.changed.wait_timeout(sleepers, at - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(sleepers).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn wake_at(&self, at: Instant, waker: Waker) {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner).push(Sleeper { at, waker });
        self.changed.notify_one();
    }
}

/// Waits for a future until a time has passed; `None` when it took longer. Dropping the future is
/// what cancels it.
pub(crate) async fn within<F: Future>(limit: Option<Duration>, future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let mut asleep: Option<Waker> = None;
    std::future::poll_fn(move |context: &mut Context<'_>| {
        let future: Pin<&mut F> = future.as_mut();
        if let Poll::Ready(output) = future.poll(context) {
            return Poll::Ready(Some(output));
        }
        let Some(deadline) = deadline else { return Poll::Pending };
        if Instant::now() >= deadline {
            return Poll::Ready(None);
        }
        // Without a thread to wait on, the next wake of the future itself looks again.
        if !asleep.as_ref().is_some_and(|waker| waker.will_wake(context.waker()))
            && let Some(timer) = timer()
        {
            timer.wake_at(deadline, context.waker().clone());
            asleep = Some(context.waker().clone());
        }
        Poll::Pending
    })
    .await
}
