//! Threads on which handlers run that may block: a handler that never ends costs one of them, and
//! not its caller.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

use tract_core::store::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// Workers that wait for a job.
static IDLE: Mutex<Vec<Sender<Job>>> = Mutex::new(Vec::new());

/// How many threads are kept for the next job.
const KEPT: usize = 8;

/// Runs what blocks on a thread of its own, so that the caller may stop waiting for it. It
/// continues then, and its result is dropped.
///
/// # Errors
/// What it said when it panicked.
pub async fn run_on_worker<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (answer, answered) = oneshot::channel();
    let job: Job = Box::new(move || {
        let outcome = catch_unwind(AssertUnwindSafe(work));
        answer.send(outcome.map_err(|panic| panic_text(&*panic)));
    });
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let unsent = match idle {
        Some(worker) => worker.send(job).err().map(|unsent| unsent.0),
        None => Some(job),
    };
    if let Some(job) = unsent {
        start(job).map_err(|error| format!("no thread to run on: {error}"))?;
    }
    answered.await.unwrap_or_else(|| Err("its thread has ended".to_owned()))
}

/// Starts a thread with its first job.
fn start(job: Job) -> std::io::Result<()> {
    let (own, jobs) = channel::<Job>();
    let thread = std::thread::Builder::new().name("tract-hook".to_owned());
    thread.spawn(move || {
        let mut next = Some(job);
        while let Some(job) = next {
            job();
            let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() >= KEPT {
                break;
            }
            idle.push(own.clone());
            drop(idle);
            next = jobs.recv().ok();
        }
    })?;
    Ok(())
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    tract_core::panic_text(panic).unwrap_or("no message").to_owned()
}
