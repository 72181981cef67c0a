//! The native module of the Python package `tract_context`.
//!
//! One layer over the crate `tract`: [`verbs`] turns a verb and its arguments (JSON) into a Rust
//! future, [`operation`] runs the future with the GIL released, for synchronous callers or for
//! asyncio, and [`process`] keeps the runtime out of forked children. The Python classes of the
//! package contain the documented API.

mod compiled;
mod error;
mod handle;
mod ledger;
mod operation;
mod process;
mod record;
mod verbs;

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command line with these arguments, the program's name first. Returns its exit code.
#[pyfunction]
fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| tract_cli::run(arguments))
}

/// The native half of `tract_context`.
#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(run_command, module)?)?;
    module.add_function(wrap_pyfunction!(handle::open, module)?)?;
    module.add_class::<compiled::Compiled>()?;
    module.add_class::<compiled::Params>()?;
    module.add_class::<handle::Handle>()?;
    module.add_class::<operation::Operation>()?;
    let finish = wrap_pyfunction!(process::finish, module)?;
    module.py().import("atexit")?.call_method1("register", (finish,))?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
