//! A channel for one answer, without a runtime.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

#[derive(Debug)]
struct Slot<T> {
    value: Option<T>,
    /// The sender is gone, with or without having answered.
    done: bool,
    waker: Option<Waker>,
}

/// Gives the answer. Dropped without one, it lets the receiver know.
#[derive(Debug)]
pub struct Sender<T>(Arc<Mutex<Slot<T>>>);

/// Waits for the answer: `None` when the sender was dropped without one.
#[derive(Debug)]
pub struct Receiver<T>(Arc<Mutex<Slot<T>>>);

/// Makes a channel.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Arc::new(Mutex::new(Slot { value: None, done: false, waker: None }));
    (Sender(Arc::clone(&slot)), Receiver(slot))
}

impl<T> Sender<T> {
    /// Gives the answer.
    pub fn send(self, value: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).value = Some(value);
        // Dropping `self` wakes the receiver.
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            slot.done = true;
            slot.waker.take()
        };
        // Outside the lock: waking may poll the receiver on this very thread.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.done {
            return Poll::Ready(slot.value.take());
        }
        match &mut slot.waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => slot.waker = Some(context.waker().clone()),
        }
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
