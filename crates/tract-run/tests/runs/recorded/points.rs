//! Named points at which a process can be killed, one before and one after each write of a
//! store among them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tract_core::{Store, StoreResult};
use tract_testkit::{Answer, Call, Watch};

/// Where a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// It is about to write.
    Write,
    /// It has written.
    Written,
    /// It is about to ask the model.
    Ask,
    /// The first piece of the answer has come.
    Heard,
    /// The model has answered.
    Told,
    /// A tool is about to have its effect.
    Act,
    /// It has had it.
    Acted,
}

/// What happens at the last point of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// It goes no further; the test that drives it drops it.
    Stopped,
    /// The process aborts.
    Aborts,
}

/// One life: it ends at a point, counted from 0 over all kinds, or continues to its end.
#[derive(Debug)]
pub(crate) struct ProcessLife {
    at: Option<usize>,
    death: Death,
    reached: Mutex<Vec<Point>>,
    dead: AtomicBool,
    requests: AtomicUsize,
}

impl ProcessLife {
    pub(crate) fn new(at: Option<usize>, death: Death) -> Arc<Self> {
        Arc::new(Self {
            at,
            death,
            reached: Mutex::default(),
            dead: AtomicBool::new(false),
            requests: AtomicUsize::new(0),
        })
    }

    pub(crate) async fn reach(&self, point: Point) {
        self.pass(point);
        if self.is_dead() {
            std::future::pending().await
        }
    }

    /// Comes to a point where nothing can wait: a process that dies there stops at the next one.
    pub(crate) fn pass(&self, point: Point) {
        let place = {
            let mut reached = self.reached.lock().unwrap();
            if self.is_dead() {
                return;
            }
            reached.push(point);
            reached.len() - 1
        };
        if self.at == Some(place) {
            match self.death {
                Death::Aborts => std::process::abort(),
                Death::Stopped => self.dead.store(true, Ordering::SeqCst),
            }
        }
    }

    /// The points that it came to, the one that it ended at included.
    pub(crate) fn reached(&self) -> Vec<Point> {
        self.reached.lock().unwrap().clone()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Sets how often the model has spoken.
    pub(crate) fn set_requests(&self, times: usize) {
        self.requests.store(times, Ordering::SeqCst);
    }

    /// How often the model has spoken: what a tool answers is of this turn.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// Polls work until it is done, or its life has ended: then it is dropped where it is.
pub(crate) async fn lived<F: Future>(life: &ProcessLife, work: F) -> Option<F::Output> {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|task| match work.as_mut().poll(task) {
        std::task::Poll::Ready(done) => std::task::Poll::Ready(Some(done)),
        std::task::Poll::Pending if life.is_dead() => std::task::Poll::Ready(None),
        std::task::Poll::Pending => std::task::Poll::Pending,
    })
    .await
}

/// A point before and one after each write. What only reads is between points.
pub(crate) struct AtWrites(pub(crate) Arc<ProcessLife>);

#[async_trait]
impl Watch for AtWrites {
    async fn answer(&self, store: &dyn Store, call: Call<'_>) -> StoreResult<Answer> {
        let Call::Apply { .. } = call else { return call.ask(store).await };
        self.0.reach(Point::Write).await;
        let applied = call.ask(store).await;
        self.0.reach(Point::Written).await;
        applied
    }
}
