//! Marks the time in which a handler runs, so that what it does asks no handlers again.
//!
//! The mark is on the thread, and only while the handler's code runs there: a future that waits is
//! marked each time it is polled.

use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};

thread_local! {
    static NESTED: Cell<bool> = const { Cell::new(false) };
}

/// Puts the mark back, also when the handler panics.
struct Mark(bool);

impl Mark {
    fn set() -> Self {
        Self(NESTED.replace(true))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        NESTED.set(self.0);
    }
}

pub(crate) fn is_nested() -> bool {
    NESTED.get()
}

pub(crate) fn run<T>(handler: impl FnOnce() -> T) -> T {
    let _mark = Mark::set();
    handler()
}

pub(crate) async fn wait<F: Future>(handler: F) -> F::Output {
    let mut handler = pin!(handler);
    std::future::poll_fn(|context| {
        let handler: Pin<&mut F> = handler.as_mut();
        let _mark = Mark::set();
        handler.poll(context)
    })
    .await
}
