//! One run of a handler: within its time, until cancelled, and with panics caught.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tract_core::{CancellationToken, RenderedValue, ToolContext, ToolError, ToolResult};
use tract_hooks::wait::{caught, within};

use crate::cancel::unless_cancelled;
use crate::hydrate::Invocation;
use crate::panics::panic_text;

/// The outcome of one run of a handler.
pub(super) enum HandlerOutcome {
    Returned(Result<ToolResult<RenderedValue>, ToolError>),
    /// It panicked, saying this.
    Panicked(String),
    TimedOut,
    /// It did not end within the grace that follows cancellation.
    Cancelled,
}

/// Runs the handler. When `token` is cancelled it has `grace` to end by itself; it is dropped then,
/// as it is when its time is over.
pub(super) async fn run(
    bound: &Invocation,
    context: &ToolContext,
    limit: Option<Duration>,
    token: &CancellationToken,
    grace: Duration,
) -> HandlerOutcome {
    // The tool's own code runs only inside, including the creation and the drop of its future.
    let mut work = Box::pin(caught(async { bound.run(context).await }));
    let ended = match unless_cancelled(limit, token, work.as_mut()).await {
        Some(Some(ended)) => Some(Ok(ended)),
        Some(None) => within(Some(grace), work.as_mut()).await.map(Ok),
        None => Some(Err(())),
    };
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(work)));
    match ended {
        Some(Ok(Ok(returned))) => HandlerOutcome::Returned(returned),
        Some(Ok(Err(panic))) => HandlerOutcome::Panicked(panic),
        ended => match (dropped, ended) {
            (Err(panic), _) => {
                HandlerOutcome::Panicked(format!("while being dropped: {}", panic_text(&*panic)))
            }
            (Ok(()), Some(_)) => HandlerOutcome::TimedOut,
            (Ok(()), None) => HandlerOutcome::Cancelled,
        },
    }
}
