//! Threads on which handlers run that may block: a handler that never ends costs one of them, and
//! not its caller.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

type Job = Box<dyn FnOnce() + Send>;

/// Workers that wait for a job.
static IDLE: Mutex<Vec<Sender<Job>>> = Mutex::new(Vec::new());

/// How many threads are kept for the next job.
const KEPT: usize = 8;

/// What a job came to: `Err` is the message of its panic.
pub(crate) type Outcome<T> = Result<T, String>;

struct Slot<T> {
    outcome: Option<Outcome<T>>,
    waker: Option<Waker>,
}

/// The outcome of a job, some time.
pub(crate) struct JobOutcome<T>(Arc<Mutex<Slot<T>>>);

impl<T> Future for JobOutcome<T> {
    type Output = Outcome<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Runs a job on another thread.
pub(crate) fn run<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> JobOutcome<T> {
    let slot = Arc::new(Mutex::new(Slot { outcome: None, waker: None }));
    let theirs = Arc::clone(&slot);
    let job: Job = Box::new(move || {
        let outcome = catch_unwind(AssertUnwindSafe(job)).map_err(|panic| panic_text(&*panic));
        let mut slot = theirs.lock().unwrap_or_else(PoisonError::into_inner);
        slot.outcome = Some(outcome);
        let waker = slot.waker.take();
        drop(slot);
        if let Some(waker) = waker {
            waker.wake();
        }
    });
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let job = match idle {
        Some(worker) => match worker.send(job) {
            Ok(()) => return JobOutcome(slot),
            Err(unsent) => unsent.0,
        },
        None => job,
    };
    let (sender, jobs) = channel::<Job>();
    let own = sender.clone();
    let spawned = std::thread::Builder::new().name("tract-hook".to_owned()).spawn(move || {
        for job in jobs {
            job();
            let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() >= KEPT {
                break;
            }
            idle.push(own.clone());
        }
    });
    match spawned {
        // The thread waits for its first job.
        Ok(_) => drop(sender.send(job)),
        Err(error) => {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            slot.outcome = Some(Err(format!("no thread to run on: {error}")));
        }
    }
    JobOutcome(slot)
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    tract_core::panic_text(panic).unwrap_or("no message").to_owned()
}
