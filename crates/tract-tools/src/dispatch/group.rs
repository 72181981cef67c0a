//! Runs futures concurrently, a few at a time, without a runtime.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// How many may run concurrently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Permits {
    pub(super) all: usize,
    pub(super) of_one_tool: usize,
}

/// The work of one call; `tool` is the index of its tool.
pub(super) struct Job<'a, T> {
    pub(super) tool: usize,
    pub(super) work: Pin<Box<dyn Future<Output = T> + Send + 'a>>,
}

/// Runs all jobs, started in order as permits allow, and returns what they gave in order. After
/// one whose outcome `stops`, those behind it are dropped and give nothing.
pub(super) async fn run_all<T: Send>(
    jobs: Vec<Job<'_, T>>,
    permits: Permits,
    stops: impl Fn(&T) -> bool + Send,
) -> Vec<Option<T>> {
    let tools: Vec<usize> = jobs.iter().map(|job| job.tool).collect();
    let mut waiting: Vec<Option<_>> = jobs.into_iter().map(|job| Some(job.work)).collect();
    let mut started = vec![false; waiting.len()];
    let mut done: Vec<Option<T>> = waiting.iter().map(|_| None).collect();
    poll_fn(move |task| {
        loop {
            let running = |tool: Option<usize>, started: &[bool], waiting: &[Option<_>]| -> usize {
                let each = started.iter().zip(waiting).zip(&tools);
                each.filter(|((started, work), of)| {
                    **started && work.is_some() && tool.is_none_or(|tool| tool == **of)
                })
                .count()
            };
            let mut ended = false;
            for place in 0..waiting.len() {
                if !started[place] && waiting[place].is_some() {
                    let free = running(None, &started, &waiting) < permits.all.max(1);
                    let of_tool = running(Some(tools[place]), &started, &waiting);
                    if !free || of_tool >= permits.of_one_tool.max(1) {
                        continue;
                    }
                    started[place] = true;
                }
                let Some(work) = waiting[place].as_mut() else { continue };
                if let Poll::Ready(outcome) = work.as_mut().poll(task) {
                    waiting[place] = None;
                    ended = true;
                    if stops(&outcome) {
                        waiting.truncate(place + 1);
                        done.iter_mut().skip(place + 1).for_each(|later| *later = None);
                    }
                    done[place] = Some(outcome);
                    if waiting.len() == place + 1 {
                        break;
                    }
                }
            }
            if waiting.iter().all(Option::is_none) {
                return Poll::Ready(std::mem::take(&mut done));
            }
            if !ended {
                return Poll::Pending;
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tract_core::block_on;

    use super::*;

    /// Ends after being polled this often.
    async fn after(polls: usize) {
        let mut left = polls;
        poll_fn(move |task| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            task.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    fn jobs<'a>(
        polls: &[(usize, usize)],
        running: &'a Arc<AtomicUsize>,
        most: &'a Arc<AtomicUsize>,
    ) -> Vec<Job<'a, usize>> {
        let job = |(place, (tool, polls)): (usize, &(usize, usize))| {
            let (tool, polls) = (*tool, *polls);
            let work = Box::pin(async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                after(polls).await;
                running.fetch_sub(1, Ordering::SeqCst);
                place
            });
            Job { tool, work: work as Pin<Box<dyn Future<Output = usize> + Send>> }
        };
        polls.iter().enumerate().map(job).collect()
    }

    #[test]
    fn outcomes_keep_the_order_and_permits_hold() {
        for (all, of_one_tool, expected) in [(8, 8, 6), (3, 8, 3), (8, 2, 4), (1, 1, 1), (0, 0, 1)]
        {
            let (running, most) = (Arc::default(), Arc::default());
            let polls = [(0, 9), (0, 1), (0, 5), (1, 0), (1, 7), (1, 2)].map(|(t, p)| (t, p + 1));
            let permits = Permits { all, of_one_tool };
            let done = block_on(run_all(jobs(&polls, &running, &most), permits, |_| false));
            assert_eq!(done, (0..6).map(Some).collect::<Vec<_>>());
            assert_eq!(most.load(Ordering::SeqCst), expected, "{permits:?}");
        }
    }

    #[test]
    fn after_one_that_stops_the_later_ones_give_nothing() {
        let (running, most) = (Arc::default(), Arc::default());
        let polls = [(0, 9), (0, 3), (0, 0), (0, 20)];
        let permits = Permits { all: 8, of_one_tool: 8 };
        let done = block_on(run_all(jobs(&polls, &running, &most), permits, |place| *place == 1));
        assert_eq!(done, [Some(0), Some(1), None, None]);
    }
}
