//! Runs work that blocks its thread.

use tract_core::ToolError;
use tract_hooks::wait;

/// Runs blocking work on a thread of its own, so that the call's time limit and cancellation apply.
/// Once the call ends, the work is no longer waited for, and its result is dropped.
///
/// ```
/// use tract_tools::{ToolError, blocking, tool};
/// /// Sums up what a slow library computes.
/// #[tool(read_only)]
/// async fn sum(numbers: Vec<i64>) -> Result<i64, ToolError> {
///     blocking(move || numbers.iter().sum()).await
/// }
/// ```
///
/// # Errors
/// [`ToolError::Other`] if it panics, with the panic message for the operator.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ToolError> {
    wait::run_on_worker(work).await.map_err(|panic| {
        ToolError::other("its work broke down").operator(format!("panicked: {panic}"))
    })
}
