use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tract_core::{CancellationToken, Clock, SystemClock};
use tract_tools::dispatch::{Cause, DispatchLimits, Dispatched, Dispatcher, Outcome, TurnError};
use tract_tools::{Call, Registry, ToolContext, ToolTraits, Turn};

use super::support::{Gauge, Turns, gauged, outcomes, together};

fn dispatcher(gauge: &Gauge) -> Dispatcher {
    let gauged = |name| gauged(name, ToolTraits::default(), gauge);
    let registry = Registry::builder().tool(gauged("a")).tool(gauged("b")).build().unwrap();
    Dispatcher::new(Arc::new(registry))
}

fn calls(name: &str) -> Vec<Call> {
    vec![Call::new("c1", name, "{}"), Call::new("c2", name, "{}")]
}

#[test]
fn limits_hold_over_turns_and_dispatchers_that_share_them() {
    // Of six turns with two calls each, so many run at a time.
    for (limits, expected) in [
        (None, 6),
        (Some(DispatchLimits::new(4)), 4),
        (Some(DispatchLimits::new(1)), 1),
        (Some(DispatchLimits::new(5).of_tool("a", 1)), 4),
        (Some(DispatchLimits::new(9).of_tool("a", 2).of_tool("b", 2)), 4),
    ] {
        let (gauge, limits) = (Gauge::default(), limits.map(Arc::new));
        let limited = || Dispatcher { limits: limits.clone(), ..dispatcher(&gauge) };
        let dispatchers = [limited(), limited()];
        let turn = Turn::default();
        let turns: Turns<'_> = (0..6)
            .map(|n| {
                let name = if n % 2 == 0 { "a" } else { "b" };
                let work = dispatchers[n / 3].run(calls(name), &turn);
                Box::pin(work) as Pin<Box<dyn Future<Output = Dispatched>>>
            })
            .collect();
        let done = together(turns, |_| {});
        for turn in &done {
            assert_eq!(outcomes(turn), [Outcome::Succeeded; 2]);
        }
        assert_eq!(gauge.most.load(Ordering::SeqCst), expected, "{limits:?}");
        assert_eq!(gauge.ran.load(Ordering::SeqCst), 12);
        assert!(limits.is_none_or(|limits| limits.running() == 0));
    }
}

/// A turn waits for a permit that another one holds; returns how it ended.
fn waiting(context: ToolContext, then: impl Fn()) -> (Dispatched, usize) {
    let gauge = Gauge::default();
    gauge.closed.store(true, Ordering::SeqCst);
    let limits = Arc::new(DispatchLimits::new(1));
    let dispatcher = Dispatcher { limits: Some(Arc::clone(&limits)), ..dispatcher(&gauge) };
    let (holds, waits) = (Turn::default(), Turn { context, ..Turn::default() });
    let mut polls = 0;
    let after = async {
        let mut work = Box::pin(dispatcher.run(calls("b"), &waits));
        poll_fn(|task| {
            polls += 1;
            if polls == 20 {
                then();
            }
            let polled = work.as_mut().poll(task);
            task.waker().wake_by_ref();
            polled
        })
        .await
    };
    let open = Arc::clone(&gauge.closed);
    let turns: Turns<'_> = vec![Box::pin(dispatcher.run(calls("a"), &holds)), Box::pin(after)];
    let mut done = together(turns, |place| {
        if place == 1 {
            open.store(false, Ordering::SeqCst);
        }
    });
    assert_eq!(limits.running(), 0, "a turn that gave up keeps nothing");
    (done.remove(1), gauge.ran.load(Ordering::SeqCst) - done[0].answers.len())
}

#[test]
fn waiting_ends_by_cancellation_and_by_deadline() {
    let token = CancellationToken::new();
    let context = ToolContext::new("").with_cancellation(token.clone());
    let (done, ran) = waiting(context, || token.cancel());
    assert_eq!(outcomes(&done), [Outcome::Cancelled, Outcome::NotExecuted]);
    assert_eq!((ran, done.answers[0].invoked.attempts), (0, 0));
    assert!(matches!(done.ended, Some(TurnError::Evaluation { cause: Cause::Cancelled, .. })));

    let soon = SystemClock.now_us() + i64::try_from(Duration::from_millis(30).as_micros()).unwrap();
    let (done, ran) = waiting(ToolContext::new("").with_deadline_us(soon), || {});
    assert_eq!(outcomes(&done), [Outcome::TimedOut, Outcome::NotExecuted]);
    assert_eq!(ran, 0);
    assert!(matches!(done.ended, Some(TurnError::Evaluation { cause: Cause::Deadline, .. })));
}
