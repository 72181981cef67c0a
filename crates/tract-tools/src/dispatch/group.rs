//! Runs futures concurrently, a few at a time, without a runtime.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use super::limits::DispatchLimits;

/// Runs all jobs, each the work of a call of a tool of this name, started in order as the limits
/// allow, and returns what they gave in order. After one whose outcome `stops`, those behind it are
/// dropped and give nothing.
pub(super) async fn run_all<'a, F: Future>(
    jobs: impl Iterator<Item = (&'a str, F)>,
    limits: &Arc<DispatchLimits>,
    stops: impl Fn(&F::Output) -> bool,
) -> Vec<Option<F::Output>> {
    let permitted = |(tool, work)| async move {
        let _permit = limits.permit(tool).await;
        work.await
    };
    let mut jobs: Vec<_> = jobs.map(permitted).map(Box::pin).collect();
    let mut done: Vec<Option<_>> = jobs.iter().map(|_| None).collect();
    poll_fn(move |task| {
        let mut place = 0;
        while let Some(job) = jobs.get_mut(place) {
            if done[place].is_none()
                && let Poll::Ready(outcome) = job.as_mut().poll(task)
            {
                if stops(&outcome) {
                    jobs.truncate(place + 1);
                    done.iter_mut().skip(place + 1).for_each(|later| *later = None);
                }
                done[place] = Some(outcome);
            }
            place += 1;
        }
        let is_over = done.iter().take(jobs.len()).all(Option::is_some);
        if is_over { Poll::Ready(std::mem::take(&mut done)) } else { Poll::Pending }
    })
    .await
}

#[cfg(test)]
mod tests {
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

    /// Runs jobs that give their places; returns also how many ran at a time.
    fn run(
        polls: &[(&str, usize)],
        limits: DispatchLimits,
        stops: Option<usize>,
    ) -> (Vec<Option<usize>>, usize) {
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (running, seen) = (&running, &most);
        let work = |place, polls| async move {
            seen.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            after(polls).await;
            running.fetch_sub(1, Ordering::SeqCst);
            place
        };
        let jobs = polls.iter().enumerate();
        let jobs = jobs.map(|(place, (tool, polls))| (*tool, work(place, *polls)));
        let done = block_on(run_all(jobs, &Arc::new(limits), |place| Some(*place) == stops));
        (done, most.load(Ordering::SeqCst))
    }

    #[test]
    fn outcomes_keep_the_order_and_permits_hold() {
        for (all, of_one_tool, expected) in [(8, 8, 6), (3, 8, 3), (8, 2, 4), (1, 1, 1), (0, 0, 1)]
        {
            let polls = [("a", 10), ("a", 2), ("a", 6), ("b", 1), ("b", 8), ("b", 3)];
            let limits = DispatchLimits::new(all).of_each_tool(of_one_tool);
            let (done, most) = run(&polls, limits, None);
            assert_eq!(done, (0..6).map(Some).collect::<Vec<_>>());
            assert_eq!(most, expected, "{all} {of_one_tool}");
        }
    }

    #[test]
    fn after_one_that_stops_the_later_ones_give_nothing() {
        let polls = [("a", 9), ("a", 3), ("a", 0), ("a", 20)];
        let (done, _) = run(&polls, DispatchLimits::new(8), Some(1));
        assert_eq!(done, [Some(0), Some(1), None, None]);
    }
}
