//! A timer that wakes tasks without an async runtime: one thread for the whole process.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Tasks to wake, earliest first. The number distinguishes tasks with the same deadline.
#[derive(Default)]
struct WakeupQueue {
    wakers: BTreeMap<(Instant, u64), Waker>,
    next: u64,
}

#[derive(Default)]
struct Timer {
    sleepers: Mutex<WakeupQueue>,
    changed: Condvar,
}

/// A registered wakeup, which is canceled on drop.
struct Sleep {
    timer: &'static Timer,
    key: (Instant, u64),
    waker: Waker,
}

impl Drop for Sleep {
    fn drop(&mut self) {
        // Drop the waker after the lock is released: dropping it may run code of the executor,
        // which may drop another `Sleep` and take this lock again.
        let waker = self.timer.lock().wakers.remove(&self.key);
        drop(waker);
    }
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
    fn lock(&self) -> MutexGuard<'_, WakeupQueue> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut sleepers = self.lock();
        loop {
            let now = Instant::now();
            sleepers = match sleepers.wakers.first_key_value().map(|((at, _), _)| *at) {
                Some(at) if at <= now => {
                    let due = sleepers.wakers.pop_first();
                    // Wake without the lock, since a waker may run code that registers or cancels a
                    // wakeup.
                    drop(sleepers);
                    if let Some((_, waker)) = due {
                        waker.wake();
                    }
                    self.lock()
                }
                Some(at) => {
                    let waited = self.changed.wait_timeout(sleepers, at - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(sleepers).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn wake_at(&'static self, at: Instant, waker: Waker) -> Sleep {
        let mut sleepers = self.lock();
        let key = (at, sleepers.next);
        sleepers.next = sleepers.next.wrapping_add(1);
        let first = sleepers.wakers.first_key_value().is_none_or(|(next, _)| key < *next);
        sleepers.wakers.insert(key, waker.clone());
        drop(sleepers);
        // The thread already waits for the earliest deadline; only an earlier one concerns it.
        if first {
            self.changed.notify_one();
        }
        Sleep { timer: self, key, waker }
    }
}

/// Awaits a future for at most `limit`; `None` if it took longer. Dropping the future is what
/// cancels it.
///
/// The deadline is checked whenever the future returns `Pending`. A future that blocks its thread
/// is not interrupted, see
/// [`run_on_worker`](crate::wait::run_on_worker).
///
/// ```
/// use std::time::Duration;
/// use tract_hooks::wait::within;
/// let never = std::future::pending::<()>();
/// assert_eq!(tract_core::block_on(within(Some(Duration::from_millis(1)), never)), None);
/// assert_eq!(tract_core::block_on(within(None, async { 7 })), Some(7));
/// ```
pub async fn within<F: Future>(limit: Option<Duration>, future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let mut asleep: Option<Sleep> = None;
    std::future::poll_fn(move |context: &mut Context<'_>| {
        let future: Pin<&mut F> = future.as_mut();
        if let Poll::Ready(output) = future.poll(context) {
            asleep = None;
            return Poll::Ready(Some(output));
        }
        let Some(deadline) = deadline else { return Poll::Pending };
        if Instant::now() >= deadline {
            return Poll::Ready(None);
        }
        // If the timer thread could not be started, the deadline is checked at the next wakeup of
        // the future itself.
        if !asleep.as_ref().is_some_and(|asleep| asleep.waker.will_wake(context.waker()))
            && let Some(timer) = timer()
        {
            asleep = Some(timer.wake_at(deadline, context.waker().clone()));
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    struct Task;

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    fn poll_once<F: Future>(task: &Arc<Task>, future: Pin<&mut F>) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(task));
        future.poll(&mut Context::from_waker(&waker))
    }

    #[test]
    fn a_task_that_no_longer_waits_is_let_go_at_once_and_not_at_its_limit() {
        let hour = Some(Duration::from_secs(3600));
        // Dropped before the deadline.
        let task = Arc::new(Task);
        {
            let mut waits = Box::pin(within(hour, std::future::pending::<()>()));
            assert!(poll_once(&task, waits.as_mut()).is_pending());
            assert!(Arc::strong_count(&task) > 1, "the timer wakes it");
        }
        assert_eq!(Arc::strong_count(&task), 1);
        // Ready before the deadline, and kept.
        let mut polls = 0;
        let answers = std::future::poll_fn(move |_| {
            polls += 1;
            if polls > 1 { Poll::Ready(7) } else { Poll::Pending }
        });
        let mut waits = Box::pin(within(hour, answers));
        assert!(poll_once(&task, waits.as_mut()).is_pending());
        assert_eq!(poll_once(&task, waits.as_mut()), Poll::Ready(Some(7)));
        assert_eq!(Arc::strong_count(&task), 1);
    }

    #[test]
    fn a_task_that_moved_is_woken_where_it_is_now() {
        let (old, new) = (Arc::new(Task), Arc::new(Task));
        let hour = Some(Duration::from_secs(3600));
        let mut waits = Box::pin(within(hour, std::future::pending::<()>()));
        assert!(poll_once(&old, waits.as_mut()).is_pending());
        assert!(poll_once(&new, waits.as_mut()).is_pending());
        assert_eq!(Arc::strong_count(&old), 1);
        assert!(Arc::strong_count(&new) > 1);
    }
}
