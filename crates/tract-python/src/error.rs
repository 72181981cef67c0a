//! Python exceptions of Rust errors.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::process;

/// Makes the exception of a code: `tract_context._errors.make(code, message, notes)`.
pub(crate) fn plain(code: &str, message: &str, notes: &[String]) -> PyErr {
    let made = process::attach(|py| {
        let make = py.import("tract_context._errors").and_then(|module| module.getattr("make"));
        make.and_then(|make| make.call1((code, message, notes))).map(PyErr::from_value)
    });
    match made {
        Some(Ok(error)) => error,
        // An incomplete installation lacks the module, and an interpreter that ends cannot import it.
        Some(Err(_)) | None => PyRuntimeError::new_err(format!("{message} ({code})")),
    }
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
