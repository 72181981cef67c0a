//! A verb that has been called, and is run either synchronously or for asyncio.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use tokio::task::AbortHandle;

use crate::compiled::Compiled;
use crate::handle::Handle;
use crate::{error, process};

/// Time between checks for signals such as that of `Ctrl-C`, while a synchronous call waits.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// The result of a verb.
pub(crate) enum Outcome {
    /// JSON text.
    Json(String),
    /// A compiled context.
    Compiled(Box<tract::Compiled>),
    /// A handle.
    Handle(tract::Tract),
    /// Any other value.
    Python(Convert),
}

/// Makes a Python value; the GIL is held.
type Convert = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

impl Outcome {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(match self {
            Self::Json(text) => text.into_pyobject(py)?.into_any().unbind(),
            Self::Compiled(compiled) => Py::new(py, Compiled::new(*compiled))?.into_any(),
            Self::Handle(tract) => Py::new(py, Handle::new(tract))?.into_any(),
            Self::Python(convert) => convert(py)?,
        })
    }
}

type Work = Pin<Box<dyn Future<Output = PyResult<Outcome>> + Send>>;

/// A verb that has not started yet. It runs once.
#[pyclass(frozen, module = "tract_context._native")]
pub(crate) struct Operation {
    work: process::Owned<Mutex<Option<Work>>>,
}

impl Operation {
    pub(crate) fn new(work: impl Future<Output = PyResult<Outcome>> + Send + 'static) -> Self {
        Self { work: process::Owned::new(Mutex::new(Some(Box::pin(work)))) }
    }

    fn take(&self) -> PyResult<Work> {
        let mut work = self.work.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        work.take().ok_or_else(|| error::invalid("an operation runs once"))
    }
}

#[pymethods]
impl Operation {
    /// Runs the operation on this thread, with the GIL released. A signal whose handler raises, such
    /// as `Ctrl-C`, cancels it.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let work = self.take()?;
        if tokio::runtime::Handle::try_current().is_ok() {
            return Err(error::invalid("a hook cannot call a handle; return the decision instead"));
        }
        let runtime = process::runtime()?;
        let outcome = py.detach(|| {
            catch_unwind(AssertUnwindSafe(|| runtime.block_on(with_signals(work))))
                .unwrap_or_else(|_| Err(panicked()))
        })?;
        outcome.into_python(py)
    }

    /// Starts the operation on the runtime's threads. When it is done, calls `done(value, error)`
    /// on one of them, unless it was cancelled.
    fn start(&self, done: Py<PyAny>) -> PyResult<Cancel> {
        let work = self.take()?;
        let runtime = process::runtime()?;
        let running = runtime.spawn(work);
        let abort = running.abort_handle();
        runtime.spawn(async move {
            let outcome = match running.await {
                Ok(outcome) => outcome,
                Err(stopped) if stopped.is_cancelled() => return,
                Err(_) => Err(panicked()),
            };
            // After the interpreter has ended, no caller waits.
            process::attach(move |py| {
                let called = match outcome.and_then(|outcome| outcome.into_python(py)) {
                    Ok(value) => done.call1(py, (value, py.None())),
                    Err(error) => done.call1(py, (py.None(), error.into_value(py))),
                };
                // The only error is that of a closed event loop, whose callers are gone.
                drop(called);
            });
        });
        Ok(Cancel { abort })
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(pyo3::exceptions::PyTypeError::new_err("an operation cannot be pickled"))
    }
}

/// Cancels a started operation.
#[pyclass(frozen, module = "tract_context._native")]
pub(crate) struct Cancel {
    abort: AbortHandle,
}

#[pymethods]
impl Cancel {
    /// Stops the operation at its next point of waiting. A write that has reached the store is
    /// completed there.
    fn cancel(&self) {
        self.abort.abort();
    }
}

async fn with_signals(mut work: Work) -> PyResult<Outcome> {
    let mut ticks = tokio::time::interval(SIGNAL_CHECK);
    ticks.tick().await;
    loop {
        tokio::select! {
            biased;
            outcome = &mut work => return outcome,
            _ = ticks.tick() => process::attach(|py| py.check_signals()).unwrap_or(Ok(()))?,
        }
    }
}

/// A panic is a bug of tract; Python gets an exception with a code in its place.
fn panicked() -> PyErr {
    let note = "this is a bug in tract: please report it with the message on stderr".to_owned();
    error::plain("internal", "the operation panicked", &[note])
}
