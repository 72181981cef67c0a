//! Runs work until a time limit or until it is cancelled.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tract_core::CancellationToken;
use tract_hooks::wait::within;

/// Waits for work. Returns `None` after the time limit, `Some(None)` if it is cancelled first.
pub(crate) async fn unless_cancelled<F: Future>(
    limit: Option<Duration>,
    token: &CancellationToken,
    work: F,
) -> Option<Option<F::Output>> {
    let (mut work, mut cancelled) = (pin!(work), pin!(token.cancelled()));
    // Work is polled first, so a result that is ready wins over cancellation.
    let first = poll_fn(|task| match work.as_mut().poll(task) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => cancelled.as_mut().poll(task).map(|()| None),
    });
    within(limit, first).await
}
