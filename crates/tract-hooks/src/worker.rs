//! Worker threads for handlers that may block. A handler that never returns costs one thread, and
//! does not block its caller.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

use tract_core::store::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// Channels of idle workers.
static IDLE: Mutex<Vec<Sender<Job>>> = Mutex::new(Vec::new());

/// Maximum number of idle threads that are kept for the next job.
const KEPT: usize = 8;

/// Runs blocking work on a worker thread, so that the caller may stop waiting. If it does, the work
/// continues and its result is dropped.
///
/// # Errors
/// The panic message, or the reason that there is no thread to run on.
pub async fn run_on_worker<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (answer, answered) = oneshot::channel();
    let job: Job = Box::new(move || {
        let outcome = catch_unwind(AssertUnwindSafe(work));
        answer.send(outcome.map_err(|panic| panic_text(&*panic)));
    });
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    // If the thread of an idle worker has ended, the job comes back, and a new thread runs it.
    let unsent = match idle {
        Some(worker) => worker.send(job).err().map(|unsent| unsent.0),
        None => Some(job),
    };
    if let Some(job) = unsent {
        start(job).map_err(|error| format!("no thread to run on: {error}"))?;
    }
    answered.await.unwrap_or_else(|| Err("its thread has ended".to_owned()))
}

/// Starts a worker thread with its first job.
fn start(job: Job) -> std::io::Result<()> {
    let (own, jobs) = channel::<Job>();
    let thread = std::thread::Builder::new().name("tract-hook".to_owned());
    thread.spawn(move || {
        let mut next = Some(job);
        while let Some(job) = next {
            job();
            // The worker registers as idle after its job, so a job that never returns is never
            // given another one to block.
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

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    tract_core::panic_text(panic).unwrap_or("no message").to_owned()
}
