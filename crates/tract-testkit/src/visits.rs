//! A counter of the items that code looked at, for tests that bound it.

use std::cell::Cell;

thread_local! {
    static VISITS: Cell<usize> = const { Cell::new(0) };
}

/// Counts more of them.
pub fn add(count: usize) {
    VISITS.set(VISITS.get() + count);
}

/// Returns how many there were on this thread since the last call.
pub fn take() -> usize {
    VISITS.take()
}
