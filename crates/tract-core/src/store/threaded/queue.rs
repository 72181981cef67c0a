//! The bounded queue between callers and the writer.
//!
//! Both limits of the queue bound memory. A caller that finds it full registers a waker and is
//! woken when batches were taken out. A single batch larger than a limit is accepted if it is
//! alone, since it could otherwise never be written.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::oneshot::{Receiver, Sender, channel};
use crate::batch::{Applied, Batch};
use crate::id::RepoName;
use crate::store::StoreResult;

/// Maximum number of batches in one transaction.
pub(super) const GROUP_BATCHES: usize = 256;
/// Maximum size of one transaction in bytes, except for a single larger batch.
pub(super) const GROUP_BYTES: usize = 4 << 20;
/// Maximum number of queued batches. Further callers wait.
const QUEUE_BATCHES: usize = 1024;
/// Maximum size of the queue in bytes, except for a single larger batch.
const QUEUE_BYTES: usize = 64 << 20;

/// A batch and the repository that it is written to.
pub(super) type Write = (RepoName, Batch);

/// A queued batch.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) write: Box<Write>,
    pub(super) answer: Sender<StoreResult<Applied>>,
    /// Its estimated size.
    pub(super) bytes: usize,
}

impl Job {
    pub(super) fn new(write: Box<Write>) -> (Self, Receiver<StoreResult<Applied>>) {
        let (answer, receiver) = channel();
        let bytes = weigh(&write.1);
        (Self { write, answer, bytes }, receiver)
    }
}

#[derive(Debug, Default)]
struct Inner {
    jobs: VecDeque<Job>,
    bytes: usize,
    /// Callers that wait for the queue to have room.
    waiting: Vec<Waker>,
    closed: bool,
}

/// The queue, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    arrived: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a job, or waits until there is room. `false` if the queue is closed.
    pub(super) fn poll_push(&self, job: &mut Option<Job>, context: &mut Context<'_>) -> Poll<bool> {
        let mut inner = self.lock();
        if inner.closed {
            return Poll::Ready(false);
        }
        let bytes = inner.bytes + job.as_ref().map_or(0, |job| job.bytes);
        if !inner.jobs.is_empty() && (inner.jobs.len() >= QUEUE_BATCHES || bytes > QUEUE_BYTES) {
            // All waiting callers are woken together and compete for the room, so the order of
            // batches is fixed only once they are queued.
            inner.waiting.push(context.waker().clone());
            return Poll::Pending;
        }
        inner.bytes = bytes;
        inner.jobs.extend(job.take());
        drop(inner);
        self.arrived.notify_one();
        Poll::Ready(true)
    }

    /// Removes the jobs that fit into a transaction which already has this number of batches and
    /// bytes.
    pub(super) fn drain(&self, batches: usize, mut bytes: usize) -> Vec<Job> {
        let mut inner = self.lock();
        let mut group = Vec::new();
        while group.len() + batches < GROUP_BATCHES {
            // Only the first job is looked at. Taking a smaller one from behind it would change the
            // order of the batches.
            let fits = inner.jobs.front().is_some_and(|job| {
                (group.is_empty() && batches == 0) || bytes + job.bytes <= GROUP_BYTES
            });
            let Some(job) = (if fits { inner.jobs.pop_front() } else { None }) else { break };
            bytes += job.bytes;
            inner.bytes -= job.bytes;
            group.push(job);
        }
        // If nothing was removed and the queue is not empty, it is as full as before: woken callers
        // would only wait again.
        let waiting = if group.is_empty() && !inner.jobs.is_empty() {
            Vec::new()
        } else {
            std::mem::take(&mut inner.waiting)
        };
        // Wake without the lock: a waker may poll `poll_push` on the current thread.
        drop(inner);
        waiting.into_iter().for_each(Waker::wake);
        group
    }

    /// Waits until a job is queued. `false` if the queue is closed and empty.
    pub(super) fn wait(&self) -> bool {
        let mut inner = self.lock();
        loop {
            match (inner.jobs.is_empty(), inner.closed) {
                (false, _) => return true,
                (true, true) => return false,
                (true, false) => {
                    inner = self.arrived.wait(inner).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Rejects further jobs; those queued are still written.
    pub(super) fn close(&self) {
        let waiting = {
            let mut inner = self.lock();
            inner.closed = true;
            std::mem::take(&mut inner.waiting)
        };
        self.arrived.notify_all();
        waiting.into_iter().for_each(Waker::wake);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().jobs.len()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }
}

/// Estimates the size of a batch, to bound groups and the queue.
pub(super) fn weigh(batch: &Batch) -> usize {
    let blobs: usize = batch.blobs.iter().map(|blob| blob.bytes().len()).sum();
    let derived: usize = batch.derived.iter().map(|row| row.bytes.len()).sum();
    let toolsets: usize = batch.toolsets.iter().map(|set| set.entries().len() * 64).sum();
    blobs + derived + toolsets + batch.commits.len() * 256 + batch.refs.len() * 128
}
