//! Runs work over many items on several threads.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};

/// Minimum number of objects to decode and hash that justifies one more thread.
pub const OBJECTS: usize = 256;

/// Maximum number of threads. More do not help a reader of one store.
const MOST_THREADS: usize = 4;

static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS));

/// Number of portions into which one thread's worth of objects is split by [`map_read`]. With small
/// portions a worker that is descheduled, because other processes are busy, delays little.
const PORTIONS: usize = 2;

/// How many times an idle thread yields and checks the queue before it sleeps. Waking a sleeping
/// thread takes the reader longer than reading a few rows.
const LOOKS: usize = 64;

/// Maps items on several threads and returns the results in order. Each thread gets at least
/// `least` items: with fewer than twice as many, or on one processor, the calling thread does
/// everything. A panic of `work` is propagated.
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
    let all = |(): &(), range: Range<usize>| -> Result<Vec<R>, Infallible> {
        Ok(items.get(range).unwrap_or_default().iter().map(&work).collect())
    };
    let Ok(mapped) = map_ranges(items.len(), least, &(), |help| help(&()), all);
    mapped
}

/// Maps the ranges of `0..items` on several threads, each of which reads for itself, and returns
/// the results in order. `read` returns the results of one range. The calling thread reads from
/// `own`; each other thread from a source of its own, which `lend` passes to its argument. `lend`
/// may return without calling it if there is nothing to lend. With fewer than twice `least` items,
/// or on one processor, the calling thread does everything.
///
/// A range that fails on another thread is read again on the calling thread, whose first error is
/// returned. A panic of `read` is propagated.
///
/// ```
/// use tract_core::parallel;
/// let disks = [b"tract".to_vec(), b"tract".to_vec()];
/// let [own, other] = &disks;
/// let upper = parallel::map_ranges(5, 1, own, |help| help(other), |disk, range| {
///     let read = disk.get(range).ok_or("too short")?;
///     Ok::<_, &str>(read.iter().map(u8::to_ascii_uppercase).collect())
/// })?;
/// assert_eq!(upper, b"TRACT");
/// # Ok::<(), &str>(())
/// ```
///
/// # Errors
/// The first error of `read` on the calling thread.
pub fn map_ranges<S, R, E>(
    items: usize,
    least: usize,
    own: &S,
    lend: impl Fn(&mut dyn FnMut(&S)) + Sync,
    read: impl Fn(&S, Range<usize>) -> Result<Vec<R>, E> + Sync,
) -> Result<Vec<R>, E>
where
    S: ?Sized,
    R: Send,
{
    let threads = threads(items, least);
    let ranges = Ranges { next: AtomicUsize::new(0), items, threads, least };
    let help = || {
        let mut done: Vec<(Range<usize>, Vec<R>)> = Vec::new();
        lend(&mut |other| {
            let read = |range: Range<usize>| Some((range.clone(), read(other, range).ok()?));
            done.extend((&ranges).map_while(read));
        });
        done
    };
    let (own_done, others) = thread::scope(|scope| {
        let started: Vec<_> = (1..threads)
            .filter_map(|_| thread::Builder::new().spawn_scoped(scope, help).ok())
            .collect();
        let own_done: Result<Vec<_>, E> =
            (&ranges).map(|range| Ok((range.clone(), read(own, range)?))).collect();
        if own_done.is_err() {
            // The calling thread failed: hand out no more ranges, so that the other threads end.
            ranges.next.store(items, Ordering::Relaxed);
        }
        (own_done, joined(started))
    });
    let mut done = own_done?;
    done.extend(others);
    done.sort_unstable_by_key(|(range, _)| range.start);
    let mut mapped = Vec::with_capacity(items);
    let mut at = 0;
    for (range, results) in done {
        // Ranges are missing here if another thread failed. Read the gaps again, so that a failure
        // of a lent source alone is not an error.
        if at < range.start {
            mapped.extend(read(own, at..range.start)?);
        }
        at = range.end;
        mapped.extend(results);
    }
    if at < items {
        mapped.extend(read(own, at..items)?);
    }
    Ok(mapped)
}

/// Joins threads and returns their results; a panic of a thread is propagated.
fn joined<T>(started: Vec<ScopedJoinHandle<'_, Vec<T>>>) -> Vec<T> {
    let done = |thread: ScopedJoinHandle<'_, Vec<T>>| {
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    };
    started.into_iter().flat_map(done).collect()
}

/// Returns the number of threads for this many items.
fn threads(items: usize, least: usize) -> usize {
    (items / least.max(1)).min(*PROCESSORS).max(1)
}

/// Hands out ranges of the items to whichever thread is idle.
struct Ranges {
    next: AtomicUsize,
    items: usize,
    threads: usize,
    least: usize,
}

impl Ranges {
    /// Returns the end of the range that starts here. The last ranges are short, so that no thread
    /// waits long for the one that got the last range. The length is also bounded, so that a
    /// descheduled thread delays little.
    fn end(&self, start: usize) -> usize {
        let left = self.items - start;
        let length = match self.threads {
            1 => left,
            threads => (left / (2 * threads)).clamp(self.least / 16, self.least).max(1),
        };
        start + length.min(left)
    }
}

impl Iterator for &Ranges {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        // Relaxed: the counter only hands out numbers. Joining the threads makes their results
        // visible.
        let taken = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |start| {
            (start < self.items).then(|| self.end(start))
        });
        taken.ok().map(|start| start..self.end(start))
    }
}

/// Number of objects that a portion of [`map_read`] should have.
pub const PORTION: usize = OBJECTS / PORTIONS;

/// Maps portions while they are still being read, and returns the results in order. `next` reads a
/// portion on the calling thread; `work` runs on other threads, and on the calling thread if they
/// do not keep up. With fewer than twice `least` objects `expected`, or on one processor, the
/// calling thread does everything. An error of `next` ends it; a panic of `work` is propagated.
///
/// Use it to read from a single snapshot if waiting for a second one could deadlock: a writer may
/// wait for the first snapshot to be closed, and the second for that writer. Otherwise
/// [`map_ranges`] keeps more threads busy.
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
    let threads = threads(expected, least);
    let mut mapped = Vec::with_capacity(expected);
    if threads == 1 {
        while let Some(portion) = next()? {
            mapped.extend(work(portion));
        }
        return Ok(mapped);
    }
    let waiting = Waiting { portions: VecDeque::new(), closed: false };
    let queue = Queue { waiting: Mutex::new(waiting), arrived: Condvar::new() };
    let run = || {
        let mut done: Vec<(usize, Vec<R>)> = Vec::new();
        while let Some((n, portion)) = queue.take() {
            done.push((n, work(portion)));
        }
        done
    };
    let (read, mut done) = thread::scope(|scope| {
        // Closes the queue on every path, including panics: otherwise the workers would wait for
        // more portions forever, and the scope for them.
        let closing = Closing(&queue);
        let started: Vec<_> = (1..threads)
            .filter_map(|_| thread::Builder::new().spawn_scoped(scope, run).ok())
            .collect();
        let mut done = Vec::new();
        let mut count = 0;
        let read = loop {
            match next() {
                Ok(Some(portion)) => {
                    // If the queue is full, the reader works on a portion itself. That bounds the
                    // memory of the queue.
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
        done.extend(joined(started));
        (read, done)
    });
    read?;
    done.sort_unstable_by_key(|(n, _)| *n);
    done.into_iter().for_each(|(_, portion)| mapped.extend(portion));
    Ok(mapped)
}

/// Portions waiting for a worker, with their sequence numbers.
struct Queue<P> {
    waiting: Mutex<Waiting<P>>,
    arrived: Condvar,
}

struct Waiting<P> {
    portions: VecDeque<(usize, P)>,
    closed: bool,
}

impl<P> Queue<P> {
    fn lock(&self) -> MutexGuard<'_, Waiting<P>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a portion. If more than `most` are waiting, returns the first one instead for the
    /// caller to work on.
    fn put(&self, portion: (usize, P), most: usize) -> Option<(usize, P)> {
        let mut waiting = self.lock();
        waiting.portions.push_back(portion);
        let first = if waiting.portions.len() > most { waiting.portions.pop_front() } else { None };
        drop(waiting);
        self.arrived.notify_one();
        first
    }

    /// Removes the first portion, waiting if necessary; `None` if the queue is closed and empty.
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{map, map_ranges, map_read};

    #[test]
    fn ranges_keep_their_order_in_every_thread() {
        for items in [0, 1, 2, 63, 64, 65, 1_000] {
            for helpers in [0, 1] {
                let lend = |help: &mut dyn FnMut(&usize)| (0..helpers).for_each(|_| help(&7));
                let doubled = map_ranges(items, 8, &7, lend, |seven, range| {
                    Ok::<_, ()>(range.map(|n| n * seven).collect())
                });
                let expected: Vec<usize> = (0..items).map(|n| n * 7).collect();
                assert_eq!(doubled, Ok(expected), "{items} items, {helpers} lent");
            }
        }
    }

    #[test]
    fn a_failed_read_of_another_thread_is_repeated() {
        let failed = AtomicUsize::new(0);
        let read = |mine: &bool, range: std::ops::Range<usize>| {
            if *mine {
                // So that the other threads get a range too.
                std::thread::yield_now();
                Ok(range.collect::<Vec<_>>())
            } else {
                failed.fetch_add(1, Ordering::Relaxed);
                Err("only the others fail")
            }
        };
        let found = map_ranges(4_000, 8, &true, |help| help(&false), read);
        assert_eq!(found, Ok((0..4_000).collect()));
        let helpers = super::threads(4_000, 8) - 1;
        assert!(failed.load(Ordering::Relaxed) <= helpers, "a helper that fails continues");
    }

    #[test]
    fn the_first_error_of_the_caller_ends_it() {
        let read = |(): &(), range: std::ops::Range<usize>| {
            if range.contains(&900) { Err("torn") } else { Ok(range.collect::<Vec<_>>()) }
        };
        assert_eq!(map_ranges(1_000, 8, &(), |help| help(&()), read), Err("torn"));
        assert_eq!(map_ranges(1_000, 8, &(), |_| (), read), Err("torn"));
    }

    #[test]
    #[should_panic(expected = "the helper")]
    fn a_panic_of_a_helper_is_the_callers() {
        let helped = AtomicUsize::new(0);
        let read = |mine: &bool, range: std::ops::Range<usize>| {
            if !mine {
                helped.fetch_add(1, Ordering::Relaxed);
                panic!("the helper");
            }
            assert!(super::threads(4_000, 8) > 1, "the helper has no processor");
            while helped.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            Ok::<_, ()>(range.collect::<Vec<_>>())
        };
        let _ = map_ranges(4_000, 8, &true, |help| help(&false), read);
    }

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
    fn a_panic_of_the_reader_leaves_no_thread_waiting() {
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
