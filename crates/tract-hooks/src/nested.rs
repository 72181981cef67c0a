//! Marks the current thread while a handler runs, so that the handler's own operations do not call
//! handlers.
//!
//! An async handler may move between threads, so the mark is set for each poll and not for the
//! whole future.

use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};

thread_local! {
    static NESTED: Cell<bool> = const { Cell::new(false) };
}

/// Restores the previous mark on drop, so also after a panic.
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
