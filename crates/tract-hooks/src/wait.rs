//! Waiting for code that is not ours, without a runtime: for so long, even when it panics or
//! blocks.

use std::future::Future;
use std::time::Duration;

use crate::{ask, timer, worker};

/// Waits for a future until a time has passed; `None` when it took longer. Dropping the future is
/// what cancels it.
///
/// Time is looked at whenever the future waits: one that blocks its thread is not interrupted, see
/// [`run_on_worker`].
///
/// ```
/// use std::time::Duration;
/// use tract_hooks::wait::within;
/// let never = std::future::pending::<()>();
/// assert_eq!(tract_core::block_on(within(Some(Duration::from_millis(1)), never)), None);
/// assert_eq!(tract_core::block_on(within(None, async { 7 })), Some(7));
/// ```
pub async fn within<F: Future>(limit: Option<Duration>, future: F) -> Option<F::Output> {
    timer::within(limit, future).await
}

/// Waits for a future.
///
/// # Errors
/// What it said when it panicked.
pub async fn caught<F: Future>(future: F) -> Result<F::Output, String> {
    ask::caught(future).await
}

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
