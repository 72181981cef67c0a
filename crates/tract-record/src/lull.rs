//! Delays recording while traffic is heavy: forwarding has priority on the processors.

use std::sync::Arc;
use std::time::Duration;

use crate::capture::Budget;
use crate::counts::Counts;

/// The interval over which traffic is measured.
const NAP: Duration = Duration::from_millis(5);
/// Recording waits if at least this many bytes pass within a nap: 200 MB/s. Answers of a model are
/// thousands of times slower; a request with images or a whole repository is not.
const BUSY_BYTES: u64 = 1 << 20;
/// Maximum number of naps before an exchange: one second in total, so that continuous traffic is
/// recorded too.
const MOST_NAPS: usize = 200;

/// Waits for a pause in heavy traffic. Recording while large bodies pass costs a third of their
/// throughput on two cores, even at the lowest priority.
pub(crate) struct Lull {
    counts: Arc<Counts>,
    budget: Arc<Budget>,
    /// The value of `Counts::passed` at the last check.
    seen: u64,
}

impl Lull {
    pub(crate) fn new(counts: Arc<Counts>, budget: Arc<Budget>) -> Self {
        Self { counts, budget, seen: 0 }
    }

    /// Waits while traffic is heavy, less than half of the budget is used, and `do_many_wait` is
    /// false. `do_many_wait` returns whether many exchanges are waiting to be recorded.
    pub(crate) fn wait(&mut self, do_many_wait: impl Fn() -> bool, nap: impl Fn(Duration)) {
        for _ in 0..MOST_NAPS {
            let passed = self.counts.passed();
            let news = passed - std::mem::replace(&mut self.seen, passed);
            if news < BUSY_BYTES || self.budget.is_half_used() || do_many_wait() {
                return;
            }
            nap(NAP);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Counts the naps while `passing` bytes pass in each of the first `busy` of them.
    fn naps(passing: usize, busy: usize, taken: usize, do_many_wait: bool) -> usize {
        let (counts, budget) = (Arc::new(Counts::default()), Arc::new(Budget::new(100)));
        assert!(budget.take(taken));
        let naps = Cell::new(0);
        counts.pass(passing);
        Lull::new(Arc::clone(&counts), budget).wait(
            || do_many_wait,
            |_| {
                naps.set(naps.get() + 1);
                counts.pass(if naps.get() < busy { passing } else { 0 });
            },
        );
        naps.get()
    }

    #[test]
    fn recording_waits_for_a_pause_in_heavy_traffic_while_there_is_room() {
        assert_eq!(naps(1 << 10, 10, 0, false), 0, "a model's answer is no heavy traffic");
        assert_eq!(naps(1 << 20, 10, 0, false), 10);
        assert_eq!(naps(1 << 20, 1000, 0, false), MOST_NAPS, "not for ever");
        assert_eq!(naps(1 << 20, 10, 49, false), 10);
        assert_eq!(naps(1 << 20, 10, 50, false), 0, "half of the memory for copies is used");
        assert_eq!(naps(1 << 20, 10, 0, true), 0, "many wait");
    }
}
