//! Calls one handler: on which thread, with which time limit, and with a guard against panics.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

use crate::decision::HandlerFailureKind;
use crate::{nested, timer, worker};

/// Calls a closure on the current thread. It cannot be interrupted, so there is no time limit.
pub(crate) fn in_place<A>(
    ask: impl FnOnce() -> Result<A, String>,
) -> Result<A, HandlerFailureKind> {
    match catch_unwind(AssertUnwindSafe(|| nested::run(ask))) {
        Ok(answer) => answer.map_err(HandlerFailureKind::Failed),
        Err(panic) => Err(HandlerFailureKind::Panicked(worker::panic_text(&*panic))),
    }
}

/// Calls a closure on a worker thread, and stops waiting for it after `limit`.
pub(crate) async fn run_separately<A: Send + 'static>(
    limit: Duration,
    ask: impl FnOnce() -> Result<A, String> + Send + 'static,
) -> Result<A, HandlerFailureKind> {
    match timer::within(Some(limit), worker::run_on_worker(move || nested::run(ask))).await {
        Some(Ok(answer)) => answer.map_err(HandlerFailureKind::Failed),
        Some(Err(panic)) => Err(HandlerFailureKind::Panicked(panic)),
        None => Err(HandlerFailureKind::TimedOut(limit)),
    }
}

/// Awaits an async handler, for at most `limit`.
pub(crate) async fn waited<A>(
    limit: Option<Duration>,
    handler: impl Future<Output = A> + Send,
) -> Result<A, HandlerFailureKind> {
    match timer::within(limit, caught(nested::wait(handler))).await {
        Some(answer) => answer.map_err(HandlerFailureKind::Panicked),
        None => Err(HandlerFailureKind::TimedOut(limit.unwrap_or_default())),
    }
}

/// Awaits a future and catches its panics.
///
/// # Errors
/// The panic message.
pub async fn caught<F: Future>(future: F) -> Result<F::Output, String> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(move |context| {
        // After a panic the future is only dropped and never polled again, so nothing sees its
        // broken state.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(worker::panic_text(&*panic))),
        }
    })
    .await
}
