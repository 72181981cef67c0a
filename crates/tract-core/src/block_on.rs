//! Runs a future to completion on the current thread, using only the standard library.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to completion, parking the current thread while it waits. This is enough for
/// embedded stores.
///
/// A future that needs a runtime (timers, sockets) must be run on that runtime. Do not call this
/// from inside a runtime: it would block a thread of it.
///
/// ```
/// assert_eq!(tract_core::block_on(async { 6 * 7 }), 42);
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            // `unpark` before `park` leaves a token, so a wakeup between the poll and the park is
            // not lost.
            Poll::Pending => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn waits_for_a_wake_up_from_another_thread() {
        let ready = Arc::new(AtomicBool::new(false));
        let (wakers, received) = mpsc::channel::<Waker>();
        let other = thread::spawn({
            let ready = Arc::clone(&ready);
            move || {
                let waker = received.recv().expect("the future is polled");
                ready.store(true, Ordering::SeqCst);
                waker.wake();
            }
        });
        let polls = block_on({
            let mut polls = 0;
            poll_fn(move |context| {
                polls += 1;
                if ready.load(Ordering::SeqCst) {
                    return Poll::Ready(polls);
                }
                let _ = wakers.send(context.waker().clone());
                Poll::Pending
            })
        });
        other.join().expect("the other thread ends");
        assert!(polls >= 2);
    }
}
