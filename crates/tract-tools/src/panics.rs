//! Catches panics of third-party code, and extracts their messages.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::snapshot::BoxError;

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    tract_core::panic_text(panic).unwrap_or("no message").to_owned()
}

/// Runs a closure; a panic becomes an error with its message.
pub(crate) fn guarded<T>(run: impl FnOnce() -> Result<T, BoxError>) -> Result<T, BoxError> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(done) => done,
        Err(panic) => Err(format!("it panicked: {}", panic_text(&*panic)).into()),
    }
}
