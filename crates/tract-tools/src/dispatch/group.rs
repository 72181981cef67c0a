//! Runs futures concurrently, a few at a time, without a runtime.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use super::limits::DispatchLimits;

/// Runs all jobs, each for a call of the named tool, and returns their outputs in order. Jobs start
/// in order as the limits allow. After a job whose output `stops`, later jobs are dropped and
/// return `None`.
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
                    // Later jobs may have finished already. Their outputs are discarded too, since
                    // in order they would not have run.
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

    #[test]
    fn after_one_that_stops_the_later_ones_give_nothing() {
        let work = |place, polls| async move {
            after(polls).await;
            place
        };
        let jobs = [9, 3, 0, 20].into_iter().enumerate();
        let jobs = jobs.map(|(place, polls)| ("a", work(place, polls)));
        let limits = Arc::new(DispatchLimits::new(8));
        let done = block_on(run_all(jobs, &limits, |place| *place == 1));
        assert_eq!(done, [Some(0), Some(1), None, None]);
    }
}
