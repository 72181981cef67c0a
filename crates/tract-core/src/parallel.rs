//! Work over many items on as many threads as help.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::num::NonZero;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;

/// How many objects have to be decoded and hashed for a thread of their own.
pub const OBJECTS: usize = 256;

/// More threads than this do not help a reader of one store.
const MOST_THREADS: usize = 4;

static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS));

/// Items are taken in portions of half of what a thread is worth, by whoever has time: a thread
/// that the system lets wait, because others are busy, holds up little.
const PORTIONS: usize = 2;

/// How often a thread that has nothing to do lets others run and looks again before it sleeps: to
/// wake a sleeping one takes whoever reads longer than some rows.
const LOOKS: usize = 64;

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
    let mut portions = items.chunks((least / PORTIONS).max(1));
    let next = || Ok::<_, Infallible>(portions.next());
    let all = |portion: &[T]| portion.iter().map(&work).collect();
    let Ok(mapped) = map_read(items.len(), least, next, all);
    mapped
}

/// How many objects a portion of [`map_read`] should have.
pub const PORTION: usize = OBJECTS / PORTIONS;

/// Maps what is still being read, in its order: `next` gives a portion at a time on the caller's
/// thread, while `work` is done on others, and on the caller's where they do not keep up. With
/// fewer than twice `least` objects `expected`, or one processor, the caller's thread does
/// everything. An error of `next` ends it; a panic of `work` is passed on.
///
/// ```
/// use tract_core::parallel;
/// let mut portions = [vec![1, 2], vec![3]].into_iter();
/// let next = || Ok::<_, std::io::Error>(portions.next());
/// let doubled = parallel::map_read(3, parallel::OBJECTS, next, |portion: Vec<i32>| {
///     portion.into_iter().map(|n| n * 2).collect()
/// })?;
/// assert_eq!(doubled, [2, 4, 6]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn map_read<P, R, E>(
    expected: usize,
    least: usize,
    mut next: impl FnMut() -> Result<Option<P>, E>,
    work: impl Fn(P) -> Vec<R> + Sync,
) -> Result<Vec<R>, E>
where
    P: Send,
    R: Send,
{
    let threads = (expected / least.max(1)).min(*PROCESSORS).max(1);
    let mut mapped = Vec::with_capacity(expected);
    if threads == 1 {
        while let Some(portion) = next()? {
            mapped.extend(work(portion));
        }
        return Ok(mapped);
    }
    let queue = Queue { waiting: Mutex::default(), arrived: Condvar::new() };
    let run = || {
        let mut done: Vec<(usize, Vec<R>)> = Vec::new();
        while let Some((n, portion)) = queue.take() {
            done.push((n, work(portion)));
        }
        done
    };
    let (read, mut done) = thread::scope(|scope| {
        // However this ends, the others must not wait for more.
        let closing = Closing(&queue);
        let started: Vec<_> = (1..threads)
            .filter_map(|_| thread::Builder::new().spawn_scoped(scope, run).ok())
            .collect();
        let mut done = Vec::new();
        let mut count = 0;
        let read = loop {
            match next() {
                Ok(Some(portion)) => {
                    // Who is to read does not fall behind, nor let too much wait.
                    if let Some((n, portion)) = queue.put((count, portion), threads) {
                        done.push((n, work(portion)));
                    }
                    count += 1;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        drop(closing);
        done.extend(run());
        for thread in started {
            match thread.join() {
                Ok(others) => done.extend(others),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        (read, done)
    });
    read?;
    done.sort_unstable_by_key(|(n, _)| *n);
    done.into_iter().for_each(|(_, portion)| mapped.extend(portion));
    Ok(mapped)
}

/// Portions that wait to be worked on, with their numbers.
struct Queue<P> {
    waiting: Mutex<Waiting<P>>,
    arrived: Condvar,
}

struct Waiting<P> {
    portions: VecDeque<(usize, P)>,
    closed: bool,
}

impl<P> Default for Waiting<P> {
    fn default() -> Self {
        Self { portions: VecDeque::new(), closed: false }
    }
}

impl<P> Queue<P> {
    fn lock(&self) -> MutexGuard<'_, Waiting<P>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a portion at the end; gives the first one back where more than `most` wait.
    fn put(&self, portion: (usize, P), most: usize) -> Option<(usize, P)> {
        let mut waiting = self.lock();
        waiting.portions.push_back(portion);
        let first = match waiting.portions.len() > most {
            true => waiting.portions.pop_front(),
            false => None,
        };
        drop(waiting);
        self.arrived.notify_one();
        first
    }

    /// Takes the first portion, or waits for one; `None` when there will be no more.
    fn take(&self) -> Option<(usize, P)> {
        let mut looks = 0;
        let mut waiting = self.lock();
        loop {
            match waiting.portions.pop_front() {
                Some(portion) => return Some(portion),
                None if waiting.closed => return None,
                None if looks < LOOKS => {
                    looks += 1;
                    drop(waiting);
                    thread::yield_now();
                    waiting = self.lock();
                }
                None => {
                    waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

struct Closing<'a, P>(&'a Queue<P>);

impl<P> Drop for Closing<'_, P> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.arrived.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::{map, map_read};

    #[test]
    fn portions_keep_their_order_however_fast_they_come() {
        for count in [0_u32, 1, 2, 3, 7, 100, 1001] {
            let mut portions = (0..count).map(|n| vec![n; n as usize % 3]);
            let next = || Ok::<_, ()>(portions.next());
            let mapped =
                map_read(count as usize, 1, next, |p: Vec<u32>| p.iter().map(|n| n * 2).collect());
            let expected: Vec<u32> = (0..count).flat_map(|n| vec![n * 2; n as usize % 3]).collect();
            assert_eq!(mapped, Ok(expected), "{count} portions");
        }
    }

    #[test]
    fn an_error_of_the_reader_ends_it() {
        let mut left = 50;
        let next = || {
            left -= 1;
            if left == 0 { Err("torn") } else { Ok(Some(left)) }
        };
        assert_eq!(map_read(100, 1, next, |n| vec![n]), Err("torn"));
    }

    #[test]
    #[should_panic(expected = "the reader")]
    fn a_panic_of_the_reader_leaves_nobody_waiting() {
        let mut left = 50;
        let next = || {
            left -= 1;
            assert!(left > 0, "the reader");
            Ok::<_, ()>(Some(left))
        };
        let _ = map_read(100, 1, next, |n| vec![n]);
    }

    #[test]
    #[should_panic(expected = "the worker")]
    fn a_panic_of_a_worker_is_the_callers() {
        let mut left = 50;
        let next = || {
            left -= 1;
            Ok::<_, ()>((left >= 0).then_some(left))
        };
        let _ = map_read(100, 1, next, |n| {
            assert!(n != 3, "the worker");
            vec![n]
        });
    }

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
