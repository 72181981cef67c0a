//! The tokio runtime of this process, and the check against use after a fork.
//!
//! Threads do not survive `fork`, so a runtime and the writer threads of open stores are unusable in
//! a child: a call would wait forever for a thread that does not exist. Every handle remembers the
//! process that opened it, and the runtime is created again in a child that opens a store of its own.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};

use crate::error;

/// The runtime, and the process that created it. Runtimes of parents are leaked.
static RUNTIME: Mutex<RuntimeSlot> = Mutex::new(None);

/// Returns the runtime of this process; the first call creates it.
pub(crate) fn runtime() -> PyResult<&'static Runtime> {
    if let Some(runtime) = own_runtime(&lock()) {
        return Ok(runtime);
    }
    // Not while the lock is held: a child that is forked meanwhile would wait for it without end.
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("tract")
        .enable_all()
        .build()
        .map_err(|error| {
            error::plain("runtime", &format!("cannot start a thread: {error}"), &[])
        })?;
    let mut slot = lock();
    if let Some(first) = own_runtime(&slot) {
        drop(slot);
        runtime.shutdown_background();
        return Ok(first);
    }
    let runtime: &'static Runtime = Box::leak(Box::new(runtime));
    *slot = Some((std::process::id(), runtime));
    Ok(runtime)
}

type RuntimeSlot = Option<(u32, &'static Runtime)>;

fn lock() -> MutexGuard<'static, RuntimeSlot> {
    RUNTIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn own_runtime(slot: &RuntimeSlot) -> Option<&'static Runtime> {
    slot.filter(|(owner, _)| *owner == std::process::id()).map(|(_, runtime)| runtime)
}

/// A value that belongs to the process that created it. In a forked child it is neither used nor
/// dropped, because dropping a store joins threads that the child does not have.
pub(crate) struct Owned<T> {
    pid: u32,
    /// Present until it is dropped.
    value: Option<T>,
}

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { pid: std::process::id(), value: Some(value) }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// `ForkedError` in a forked child.
    pub(crate) fn get(&self) -> PyResult<&T> {
        match &self.value {
            Some(value) if self.pid == std::process::id() => Ok(value),
            _ => Err(error::forked()),
        }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            std::mem::forget(self.value.take());
        }
    }
}

/// Number of threads that are attached to the interpreter, or about to be.
static ATTACHED: AtomicUsize = AtomicUsize::new(0);
/// The process whose threads are counted. Threads of a parent do not exist in a forked child.
static COUNTED_BY: AtomicU32 = AtomicU32::new(0);
/// Whether the interpreter is ending.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Longest time that the end of the interpreter waits for attached threads, such as hooks.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Calls a function with the interpreter; `None` if it is ending.
///
/// A thread that is attached while the interpreter is finalized ends the process with a fatal error,
/// so [`finish`] waits for those that are, and lets no others in.
pub(crate) fn attach<T>(call: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let pid = std::process::id();
    if COUNTED_BY.swap(pid, SeqCst) != pid {
        ATTACHED.store(0, SeqCst);
    }
    ATTACHED.fetch_add(1, SeqCst);
    // Counted first: either `finish` sees this thread, or this thread sees that it is too late.
    let value = if ENDING.load(SeqCst) { None } else { Python::try_attach(call) };
    ATTACHED.fetch_sub(1, SeqCst);
    value
}

/// Detaches all threads from the interpreter, which calls this before it ends.
#[pyfunction]
pub(crate) fn finish(py: Python<'_>) {
    ENDING.store(true, SeqCst);
    py.detach(|| {
        let start = Instant::now();
        while COUNTED_BY.load(SeqCst) == std::process::id()
            && ATTACHED.load(SeqCst) > 0
            && start.elapsed() < LONGEST_WAIT
        {
            sleep(Duration::from_millis(1));
        }
    });
}
