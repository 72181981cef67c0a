//! Work over many items on as many threads as help.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};

/// How many objects have to be decoded and hashed for a thread of their own.
pub const OBJECTS: usize = 256;

/// More threads than this do not help a reader of one store.
const MOST_THREADS: usize = 4;

static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS));

/// What is read by one thread goes in portions of half of what a thread is worth to the others: one
/// that the system lets wait, because others are busy, holds up little.
const PORTIONS: usize = 2;

/// How often a thread without work yields and looks again before it sleeps. Waking a sleeping
/// thread takes the reader longer than reading a few rows.
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
    let all = |(): &(), range: Range<usize>| -> Result<Vec<R>, Infallible> {
        Ok(items.get(range).unwrap_or_default().iter().map(&work).collect())
    };
    let Ok(mapped) = map_ranges(items.len(), least, &(), |help| help(&()), all);
    mapped
}

/// Maps what each thread reads for itself, in its order: `read` gives the results of a range of
/// `0..items`, from what the caller has to read from. The other threads are lent as much by `lend`,
/// which calls what it is given once, or never where there is nothing to lend. With fewer than
/// twice `least` items, or one processor, the caller's thread does everything.
///
/// A range that fails on another thread is read again on the caller's, whose first error ends it.
/// A panic of `read` is passed on.
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
/// The first error of `read` on the caller's thread.
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

/// What threads did; a panic of one is passed on.
fn joined<T>(started: Vec<ScopedJoinHandle<'_, Vec<T>>>) -> Vec<T> {
    let done = |thread: ScopedJoinHandle<'_, Vec<T>>| {
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    };
    started.into_iter().flat_map(done).collect()
}

/// How many threads read so many items.
fn threads(items: usize, least: usize) -> usize {
    (items / least.max(1)).min(*PROCESSORS).max(1)
}

/// The ranges of some items, each taken by the next idle thread.
struct Ranges {
    next: AtomicUsize,
    items: usize,
    threads: usize,
    least: usize,
}

impl Ranges {
    /// Where the range that begins here ends. The last ranges are short, so that the others do not
    /// wait long for the thread that took the last one; no range is so long that a thread which the
    /// system does not schedule delays much.
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
        let taken = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |start| {
            (start < self.items).then(|| self.end(start))
        });
        taken.ok().map(|start| start..self.end(start))
    }
}

/// How many objects a portion of [`map_read`] should have.
pub const PORTION: usize = OBJECTS / PORTIONS;

/// Maps what is still being read, in its order: `next` gives a portion at a time on the caller's
/// thread, while `work` is done on others, and on the caller's where they do not keep up. With
/// fewer than twice `least` objects `expected`, or one processor, the caller's thread does
/// everything. An error of `next` ends it; a panic of `work` is passed on.
///
/// It is for who reads from one snapshot and must not wait for another: where a writer waits for the
/// first, the second may have to wait for the writer. Else [`map_ranges`] keeps more threads busy.
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
        done.extend(joined(started));
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

impl<P> Queue<P> {
    fn lock(&self) -> MutexGuard<'_, Waiting<P>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a portion at the end; gives the first one back where more than `most` wait.
    fn put(&self, portion: (usize, P), most: usize) -> Option<(usize, P)> {
        let mut waiting = self.lock();
        waiting.portions.push_back(portion);
        let first = if waiting.portions.len() > most { waiting.portions.pop_front() } else { None };
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
                // So that the others come to something.
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
