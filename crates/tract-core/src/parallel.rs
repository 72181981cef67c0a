//! Work over many items on as many threads as help.

use std::num::NonZero;
use std::sync::LazyLock;
use std::thread;

/// How many objects have to be decoded and hashed for a thread of their own.
pub const OBJECTS: usize = 256;

/// More threads than this do not help a reader of one store.
const MOST_THREADS: usize = 4;

static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS));

/// Maps items in their order. Each thread gets at least `least` of them: with fewer than twice
/// that, or one processor, the caller's thread does everything. A panic of `work` is passed on.
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
    let mut parts = items.chunks(items.len().div_ceil(threads).max(1));
    let run = |part: &[T]| part.iter().map(&work).collect::<Vec<R>>();
    let own = parts.next().unwrap_or_default();
    thread::scope(|scope| {
        let started: Vec<_> = parts
            .map(|part| (part, thread::Builder::new().spawn_scoped(scope, || run(part)).ok()))
            .collect();
        let mut done = run(own);
        for (part, thread) in started {
            match thread.map(thread::ScopedJoinHandle::join) {
                Some(Ok(mapped)) => done.extend(mapped),
                Some(Err(panic)) => std::panic::resume_unwind(panic),
                // The system has no thread to give.
                None => done.extend(run(part)),
            }
        }
        done
    })
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
