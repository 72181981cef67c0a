//! The bounded queue between callers and the writer.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::oneshot::{Receiver, Sender, channel};
use crate::batch::{Applied, Batch};
use crate::id::RepoName;
use crate::store::StoreResult;

/// How many batches go into one transaction at most.
pub(super) const GROUP_BATCHES: usize = 256;
/// How many bytes go into one transaction at most, a single larger batch apart.
pub(super) const GROUP_BYTES: usize = 4 << 20;
/// How many batches may wait; further callers wait for a place.
const QUEUE_BATCHES: usize = 1024;
/// How many bytes may wait, a single larger batch apart.
const QUEUE_BYTES: usize = 64 << 20;

/// A batch and the repository that it goes to.
pub(super) type Write = (RepoName, Batch);

/// A batch that waits for the writer.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) write: Box<Write>,
    pub(super) answer: Sender<StoreResult<Applied>>,
    /// What it weighs.
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
    /// Callers that wait for a place.
    waiting: Vec<Waker>,
    closed: bool,
}

/// What is to be written, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    arrived: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a job at the end, or waits for a place: `false` when the queue is closed.
    pub(super) fn poll_push(&self, job: &mut Option<Job>, context: &mut Context<'_>) -> Poll<bool> {
        let mut inner = self.lock();
        if inner.closed {
            return Poll::Ready(false);
        }
        let bytes = inner.bytes + job.as_ref().map_or(0, |job| job.bytes);
        if !inner.jobs.is_empty() && (inner.jobs.len() >= QUEUE_BATCHES || bytes > QUEUE_BYTES) {
            inner.waiting.push(context.waker().clone());
            return Poll::Pending;
        }
        inner.bytes = bytes;
        inner.jobs.extend(job.take());
        drop(inner);
        self.arrived.notify_one();
        Poll::Ready(true)
    }

    /// Takes what fits into one transaction in addition to its `bytes` and `batches` so far.
    pub(super) fn drain(&self, batches: usize, mut bytes: usize) -> Vec<Job> {
        let mut inner = self.lock();
        let mut group = Vec::new();
        while group.len() + batches < GROUP_BATCHES {
            let fits = inner.jobs.front().is_some_and(|job| {
                (group.is_empty() && batches == 0) || bytes + job.bytes <= GROUP_BYTES
            });
            let Some(job) = (if fits { inner.jobs.pop_front() } else { None }) else { break };
            bytes += job.bytes;
            inner.bytes -= job.bytes;
            group.push(job);
        }
        // Nothing taken and something left: no place became free, and woken callers would only
        // wait again.
        let waiting = if group.is_empty() && !inner.jobs.is_empty() {
            Vec::new()
        } else {
            std::mem::take(&mut inner.waiting)
        };
        drop(inner);
        waiting.into_iter().for_each(Waker::wake);
        group
    }

    /// Waits until something is queued: `false` when the queue is closed and empty.
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

    /// Takes no more jobs; those queued are still done.
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

/// Estimates what a batch weighs, to bound groups and the queue.
pub(super) fn weigh(batch: &Batch) -> usize {
    let blobs: usize = batch.blobs.iter().map(|blob| blob.bytes().len()).sum();
    let derived: usize = batch.derived.iter().map(|row| row.bytes.len()).sum();
    let toolsets: usize = batch.toolsets.iter().map(|set| set.entries().len() * 64).sum();
    blobs + derived + toolsets + batch.commits.len() * 256 + batch.refs.len() * 128
}
