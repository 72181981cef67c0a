//! Python exceptions of Rust errors.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Makes the exception of a code: `tract_context._errors.make(code, message, notes)`.
pub(crate) fn plain(code: &str, message: &str, notes: &[String]) -> PyErr {
    Python::attach(|py| {
        let make = py.import("tract_context._errors").and_then(|module| module.getattr("make"));
        match make.and_then(|make| make.call1((code, message, notes))) {
            Ok(exception) => PyErr::from_value(exception),
            // Only an incomplete installation lacks the module.
            Err(error) => PyRuntimeError::new_err(format!("{message} ({error})")),
        }
    })
}

/// Makes the exception for a handle that is used in a forked child.
pub(crate) fn forked() -> PyErr {
    let note = "open the store in the child, for instance in Celery's worker_process_init";
    plain("forked", "this handle was opened before the process forked", &[note.to_owned()])
}

/// Makes the exception of an error of the library.
pub(crate) fn of(error: &tract::Error) -> PyErr {
    plain(error.code(), &error.to_string(), &error.notes())
}

/// Makes the exception for an argument.
pub(crate) fn invalid(message: impl std::fmt::Display) -> PyErr {
    plain("invalid", &message.to_string(), &[])
}
