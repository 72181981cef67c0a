//! Waiting for code that is not ours, without a runtime: for so long, even when it panics or
//! blocks.

pub use crate::ask::caught;
pub use crate::timer::within;
use crate::worker;

/// Runs what blocks on a thread of its own, so that the caller may stop waiting for it. It
/// continues then, and its result is dropped.
///
/// # Errors
/// What it said when it panicked.
pub async fn run_on_worker<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    worker::run(work).await
}
