//! The tokio runtime of this process, and the check against use after a fork.
//!
//! Threads do not survive `fork`, so a runtime and the writer threads of open stores are unusable in
//! a child: a call would wait forever for a thread that does not exist. Every handle remembers the
//! process that opened it, and the runtime is created again in a child that opens a store of its own.

use std::sync::{Mutex, PoisonError};

use pyo3::PyResult;
use tokio::runtime::{Builder, Runtime};

use crate::error;

/// The runtime, and the process that created it. Runtimes of parents are leaked.
static RUNTIME: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);

/// Returns the runtime of this process; the first call creates it.
pub(crate) fn runtime() -> PyResult<&'static Runtime> {
    let mut slot = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    let pid = std::process::id();
    if let Some((owner, runtime)) = *slot
        && owner == pid
    {
        return Ok(runtime);
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("tract")
        .enable_all()
        .build()
        .map_err(|error| {
            error::plain("runtime", &format!("cannot start a thread: {error}"), &[])
        })?;
    let runtime: &'static Runtime = Box::leak(Box::new(runtime));
    *slot = Some((pid, runtime));
    Ok(runtime)
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
