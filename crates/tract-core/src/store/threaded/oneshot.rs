//! A channel for one value, without an async runtime.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

#[derive(Debug)]
struct Slot<T> {
    value: Option<T>,
    /// The sender was dropped, with or without a value.
    done: bool,
    waker: Option<Waker>,
}

/// Sends the value. If it is dropped without one, the receiver is woken with `None`.
#[derive(Debug)]
pub struct Sender<T>(Arc<Mutex<Slot<T>>>);

/// Waits for the value; `None` if the sender was dropped without one.
#[derive(Debug)]
pub struct Receiver<T>(Arc<Mutex<Slot<T>>>);

/// Creates a channel.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Arc::new(Mutex::new(Slot { value: None, done: false, waker: None }));
    (Sender(Arc::clone(&slot)), Receiver(slot))
}

impl<T> Sender<T> {
    /// Sends the value.
    pub fn send(self, value: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).value = Some(value);
        // Dropping `self` wakes the receiver, also if no value was sent.
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            slot.done = true;
            slot.waker.take()
        };
        // Without the lock: waking may poll the receiver on the current thread, which takes the
        // lock.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let waker = context.waker().clone();
        let replaced = {
            let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if slot.done {
                return Poll::Ready(slot.value.take());
            }
            slot.waker.replace(waker)
        };
        // Without the lock: dropping a waker may drop its task, which may use this channel.
        drop(replaced);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_on;

    #[test]
    fn an_answer_crosses_threads_and_a_dropped_sender_is_noticed() {
        for answer in [Some(7), None] {
            let (sender, receiver) = channel();
            let thread = std::thread::spawn(move || match answer {
                Some(answer) => sender.send(answer),
                None => drop(sender),
            });
            assert_eq!(block_on(receiver), answer);
            thread.join().unwrap();
        }
    }
}
