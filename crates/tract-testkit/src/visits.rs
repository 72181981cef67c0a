//! Counts the items that code has visited, for tests that limit it.

use std::cell::Cell;

thread_local! {
    static VISITS: Cell<usize> = const { Cell::new(0) };
}

/// Adds to the count of this thread.
pub fn add(count: usize) {
    VISITS.set(VISITS.get() + count);
}

/// Returns the count of this thread since the last call.
pub fn take() -> usize {
    VISITS.take()
}
