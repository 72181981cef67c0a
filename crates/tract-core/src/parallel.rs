//! Work over many items on as many threads as help.

use std::num::NonZero;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How many objects have to be decoded and hashed for a thread of their own.
pub const OBJECTS: usize = 256;

/// More threads than this do not help a reader of one store.
const MOST_THREADS: usize = 4;

static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS));

/// Items are taken in portions of a quarter of what a thread is worth, by whoever has time: a thread
/// that the system lets wait, because others are busy, holds up little.
const PORTIONS: usize = 4;

/// Maps items in their order. There are at most as many threads as get `least` items each: with
/// fewer than twice that, or one processor, the caller's thread does everything. A panic of `work`
/// is passed on.
///
/// ```
/// use tract_core::parallel;
/// let lengths = parallel::map(&["a", "bc", ""], 1, |text| text.len());
/// assert_eq!(lengths, [1, 2, 0]);
/// ```
pub fn map<T, R>(items: &[T], least: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R>
where
    T: Sync,
    R: Send,
{
    let threads = (items.len() / least.max(1)).min(*PROCESSORS).max(1);
    if threads == 1 {
        return items.iter().map(work).collect();
    }
    let portions: Vec<&[T]> = items.chunks((least / PORTIONS).max(1)).collect();
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done: Vec<(usize, Vec<R>)> = Vec::new();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(portion) = portions.get(n) else { return done };
            done.push((n, portion.iter().map(&work).collect()));
        }
    };
    let mut done = thread::scope(|scope| {
        // Where the system has no thread to give, those that there are do its part.
        let started: Vec<_> = (1..threads)
            .filter_map(|_| thread::Builder::new().spawn_scoped(scope, run).ok())
            .collect();
        let mut done = run();
        for thread in started {
            match thread.join() {
                Ok(others) => done.extend(others),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(n, _)| *n);
    let mut mapped = Vec::with_capacity(items.len());
    done.into_iter().for_each(|(_, portion)| mapped.extend(portion));
    mapped
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn items_keep_their_order_however_they_are_split() {
        for count in [0_u32, 1, 2, 3, 7, 100, 1001] {
            let items: Vec<u32> = (0..count).collect();
            let expected: Vec<u32> = (0..count).map(|n| n * 2).collect();
            assert_eq!(map(&items, 1, |n| n * 2), expected, "{count} items");
        }
    }

    #[test]
    #[should_panic(expected = "the last one")]
    fn a_panic_on_another_thread_is_the_callers() {
        let items: Vec<u32> = (0..100).collect();
        map(&items, 1, |n| assert!(*n < 99, "the last one"));
    }
}
