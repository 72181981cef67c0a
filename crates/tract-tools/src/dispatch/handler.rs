//! Runs a handler once, with a time limit, cancellation, and a guard against panics.

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
    /// It panicked, with this message.
    Panicked(String),
    TimedOut,
    /// It did not end within the grace period after cancellation.
    Cancelled,
}

/// Runs the handler until `limit`. After `token` is cancelled it has `grace` to end by itself. In
/// both cases it is dropped then.
pub(super) async fn run(
    bound: &Invocation,
    context: &ToolContext,
    limit: Option<Duration>,
    token: &CancellationToken,
    grace: Duration,
) -> HandlerOutcome {
    // All code of the tool runs under a panic guard: creating the future, within the block, polling
    // it, and dropping it, below.
    let mut work = Box::pin(caught(async { bound.run(context).await }));
    let ended = match unless_cancelled(limit, token, work.as_mut()).await {
        Some(Some(ended)) => Some(Ok(ended)),
        // Cancelled: the tool sees the token, and has this time to stop in an orderly way.
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
