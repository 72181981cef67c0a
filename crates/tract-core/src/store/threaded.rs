//! Runs a blocking store under async, without an async runtime.
//!
//! A write is queued, and the writer thread takes it from the queue as part of a group; or, in
//! [`WriteMode::InPlace`], the caller itself becomes the writer if no group is being written. Both
//! hold `writing` while they write, so there is one writer at a time, and both take from the head
//! of the queue, so queued batches are written in the order of their arrival.
//!
//! Answers are sent after `writing` is released, and never with a lock held: an answer wakes its
//! caller, which may write again on the same thread.

mod forward;
pub mod oneshot;
mod queue;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};

use self::oneshot::Receiver;
use self::queue::{Job, Queue, Write, weigh};
use super::{BlockingStore, StoreError, StoreErrorKind, StoreResult};
use crate::batch::Applied;

/// The thread on which writes of a blocking store run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// On the store's own thread, which groups queued writes into one transaction. Never blocks the
    /// caller's thread; the two thread switches cost 20 to 35 µs.
    #[default]
    Thread,
    /// On the caller's thread, together with queued writes, if no other writer is active; otherwise
    /// queued. Blocks the caller's thread for one flush, or while another process holds the store's
    /// lock. For command lines, and for callers that may block.
    InPlace,
}

/// A [`BlockingStore`] as a [`Store`](super::Store).
///
/// Writes are grouped: queued batches (up to 256, or 4 MiB) become one durable transaction. Writes
/// that arrive during a transaction may join it, and all of their callers get their results after
/// it. The thread starts with the first write that needs it. It ends when this is closed or
/// dropped, after it has written the queued batches. Dropping the future of
/// [`apply`](super::Store::apply) does not withdraw a queued batch.
///
/// Reads run on the caller's thread, including walks and scans: a point read takes microseconds,
/// less than a thread switch. To keep long scans off the threads of an executor, run them on one of
/// its blocking threads. [`drop_derived`](super::DerivedRepository::drop_derived) and
/// [`check`](super::Store::check) block the caller's thread until no group is being written.
pub struct ThreadedStore<S: BlockingStore> {
    shared: Arc<Shared<S>>,
    /// `None` if every write happens on the caller's thread.
    mode: Option<WriteMode>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The outcome of an attempt to write on the caller's thread.
enum InPlace {
    Answered(StoreResult<Applied>),
    /// Written in a group; the answers are being sent.
    Grouped(Receiver<StoreResult<Applied>>),
    /// Another writer is active, or the mode requires the thread.
    Not(Box<Write>),
}

/// The error of callers whose write may not have happened.
type Refusal = (StoreErrorKind, &'static str);

const CLOSED: Refusal = (StoreErrorKind::Unavailable, "the store is closed");
const PANICKED: Refusal = (StoreErrorKind::Unknown, "the store panicked while it wrote");
const POISONED: Refusal = (StoreErrorKind::Poisoned, "the store panicked in an earlier write");
const IN_DOUBT: Refusal =
    (StoreErrorKind::Unknown, "a batch of the same transaction may not be durable");
const UNANSWERED: Refusal = (StoreErrorKind::Unknown, "the store gave no answer to this batch");
const NO_THREAD: Refusal = (StoreErrorKind::Engine, "no thread could be started");

struct Shared<S> {
    store: S,
    queue: Queue,
    /// Held while a group is being written.
    writing: Mutex<()>,
    /// The store panicked during a write, so its state in memory cannot be trusted.
    broken: AtomicBool,
}

impl<S: BlockingStore> ThreadedStore<S> {
    /// Wraps a store whose writes block for long.
    pub fn new(store: S, mode: WriteMode) -> Self {
        Self::with_mode(store, Some(mode))
    }

    /// Wraps a store that never blocks for long, such as one in memory. Every write happens on the
    /// caller's thread, and no thread is started.
    pub fn inline(store: S) -> Self {
        Self::with_mode(store, None)
    }

    fn with_mode(store: S, mode: Option<WriteMode>) -> Self {
        let shared = Shared {
            store,
            queue: Queue::default(),
            writing: Mutex::new(()),
            broken: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), mode, thread: Mutex::new(None) }
    }

    /// Returns the wrapped store.
    pub fn store(&self) -> &S {
        &self.shared.store
    }

    /// Writes a batch. `write` is boxed to keep the future small: a batch is large, and futures are
    /// moved.
    async fn write(&self, write: Box<Write>) -> StoreResult<Applied> {
        let receiver = match self.write_in_place(write) {
            InPlace::Answered(answer) => return answer,
            InPlace::Grouped(receiver) => receiver,
            InPlace::Not(write) => {
                self.start_thread()?;
                let (job, receiver) = Job::new(write);
                let mut job = Some(job);
                if !poll_fn(|context| self.shared.queue.poll_push(&mut job, context)).await {
                    return Err(self.shared.error(CLOSED));
                }
                receiver
            }
        };
        receiver.await.unwrap_or_else(|| Err(self.shared.error(UNANSWERED)))
    }

    /// Writes the batch and queued ones on this thread, if possible; otherwise returns the batch.
    fn write_in_place(&self, write: Box<Write>) -> InPlace {
        let shared = &*self.shared;
        let writing = match self.mode {
            Some(WriteMode::Thread) => return InPlace::Not(write),
            // `try_lock`, because a queued batch can still join the group that is being written,
            // and a blocked caller could not.
            Some(WriteMode::InPlace) => match shared.writing.try_lock() {
                Ok(writing) => writing,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return InPlace::Not(write),
            },
            None => shared.lock(),
        };
        // Checked with the lock held. Closing first closes the queue and then takes the lock to
        // close the store, so a write that passes this check cannot reach a closed store.
        if shared.queue.is_closed() {
            return InPlace::Answered(Err(shared.error(CLOSED)));
        }
        // Queued batches arrived earlier, so they go first.
        let mut group = shared.queue.drain(1, weigh(&write.1));
        if group.is_empty() {
            let alone = std::slice::from_ref(&*write);
            let answers = shared.guarded(|store| store.apply_group(alone));
            let answer = shared.all(answers, 1).pop();
            return InPlace::Answered(answer.unwrap_or_else(|| Err(shared.error(UNANSWERED))));
        }
        let (job, receiver) = Job::new(write);
        group.push(job);
        shared.write_group(writing, group);
        InPlace::Grouped(receiver)
    }

    fn start_thread(&self) -> StoreResult<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        // Checked and started under the lock, so that two first writers do not start two threads.
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let started = thread::Builder::new()
                .name(format!("tract-{}", self.shared.store.backend()))
                .spawn(move || shared.run());
            let failed = |error| self.shared.error(NO_THREAD).with_source(error);
            *thread = Some(started.map_err(failed)?);
        }
        Ok(())
    }

    /// Closes the queue, and waits until the thread has written it and ended.
    fn stop_thread(&self) {
        self.shared.queue.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The last handle may be dropped by a waker that the writer thread itself wakes. A thread
        // cannot join itself: that would deadlock.
        if let Some(thread) = thread
            && thread.thread().id() != thread::current().id()
        {
            // The callers that waited were already informed of a panic of the store.
            let _ = thread.join();
        }
    }

    fn close_store(&self) -> StoreResult<()> {
        self.stop_thread();
        let _writing = self.shared.lock();
        self.shared.store.close()
    }
}

impl<S: BlockingStore> Shared<S> {
    fn run(&self) {
        while self.queue.wait() {
            let writing = self.lock();
            // Drained with the lock held. Otherwise an in-place writer could take later batches
            // from the queue and write them before this group.
            let group = self.queue.drain(0, 0);
            if !group.is_empty() {
                self.write_group(writing, group);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_group(&self, writing: MutexGuard<'_, ()>, group: Vec<Job>) {
        let mut bytes: usize = group.iter().map(|job| job.bytes).sum();
        let (writes, mut senders): (Vec<_>, Vec<_>) =
            group.into_iter().map(|job| (*job.write, job.answer)).unzip();
        // The store calls this until it gets nothing. Batches that are queued in the meantime are
        // part of the same transaction, and their callers get their answers with it.
        let mut joining = || {
            let joined = self.queue.drain(senders.len(), bytes);
            let take = |job: Job| {
                bytes += job.bytes;
                senders.push(job.answer);
                *job.write
            };
            joined.into_iter().map(take).collect()
        };
        let answers = self.guarded(|store| store.apply_joined(&writes, &mut joining));
        let mut answers = self.all(answers, senders.len()).into_iter();
        // Release the lock before answering: answers wake callers, which may write again on this
        // thread.
        drop(writing);
        for sender in senders {
            sender.send(answers.next().unwrap_or_else(|| Err(self.error(UNANSWERED))));
        }
    }

    /// Calls the store, unless it panicked earlier. Converts a panic to an error.
    fn guarded(
        &self,
        write: impl FnOnce(&S) -> Vec<StoreResult<Applied>>,
    ) -> Result<Vec<StoreResult<Applied>>, Refusal> {
        if self.broken.load(Ordering::Acquire) {
            return Err(POISONED);
        }
        // The store may not be unwind safe. That is sound here, because it is never written to
        // after a panic.
        catch_unwind(AssertUnwindSafe(|| write(&self.store))).map_err(|_| {
            self.broken.store(true, Ordering::Release);
            PANICKED
        })
    }

    /// Returns one result per caller.
    fn all(
        &self,
        answers: Result<Vec<StoreResult<Applied>>, Refusal>,
        callers: usize,
    ) -> Vec<StoreResult<Applied>> {
        match answers {
            Ok(answers) => self.together(answers),
            Err(refusal) => (0..callers).map(|_| Err(self.error(refusal.clone()))).collect(),
        }
    }

    /// Downgrades the results of a group in doubt. A group is one transaction: if the outcome of
    /// one batch is unknown, none of the others is known to be durable, and a conflict may be with
    /// a batch that is lost.
    fn together(&self, answers: Vec<StoreResult<Applied>>) -> Vec<StoreResult<Applied>> {
        let in_doubt = |answer: &StoreResult<Applied>| {
            let kind = answer.as_ref().err().map(|error| &error.kind);
            matches!(kind, Some(StoreErrorKind::Unknown | StoreErrorKind::Poisoned))
        };
        if !answers.iter().any(in_doubt) {
            return answers;
        }
        let doubted = |answer: StoreResult<_>| answer.and_then(|_| Err(self.error(IN_DOUBT)));
        answers.into_iter().map(doubted).collect()
    }

    fn error(&self, (kind, message): Refusal) -> StoreError {
        StoreError::new(kind, self.store.backend(), "apply", message)
    }
}

/// Runs a blocking call on a thread of its own and waits for it without blocking the caller's
/// thread, for example to open a store that others keep locked. If the caller stops waiting, the
/// result is dropped.
///
/// # Errors
/// Those of the call; `Engine` if it panics or the thread cannot be started.
pub async fn off_thread<T: Send + 'static>(
    backend: &'static str,
    op: &'static str,
    call: impl FnOnce() -> StoreResult<T> + Send + 'static,
) -> StoreResult<T> {
    let failed = |message: String| StoreError::new(StoreErrorKind::Engine, backend, op, message);
    let (sender, receiver) = oneshot::channel();
    std::thread::Builder::new()
        .name(format!("tract-{backend}-{op}"))
        .spawn(move || sender.send(call()))
        .map_err(|error| failed(format!("cannot start a thread: {error}")))?;
    receiver.await.unwrap_or_else(|| Err(failed("it panicked".to_owned())))
}

impl<S: BlockingStore> Drop for ThreadedStore<S> {
    fn drop(&mut self) {
        self.stop_thread();
    }
}

impl<S: BlockingStore> fmt::Debug for ThreadedStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threaded")
            .field("store", &self.shared.store)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}
