//! Work that ends with its time, or when it is cancelled.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tract_core::CancellationToken;
use tract_hooks::wait::within;

/// Waits for work: `None` when its time is over, `Some(None)` when it is cancelled first.
pub(crate) async fn unless_cancelled<F: Future>(
    limit: Option<Duration>,
    token: &CancellationToken,
    work: F,
) -> Option<Option<F::Output>> {
    let (mut work, mut cancelled) = (pin!(work), pin!(token.cancelled()));
    let first = poll_fn(|task| match work.as_mut().poll(task) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => cancelled.as_mut().poll(task).map(|()| None),
    });
    within(limit, first).await
}
