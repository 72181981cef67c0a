//! The context of a running tool: cancellation, time, progress, and resources of the host.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::ports::{Clock, SystemClock};
use crate::tool::ToolError;

/// A token that cancels work. Clones share the state. It works with any executor, and without one.
///
/// ```
/// use tract_core::CancellationToken;
/// let turn = CancellationToken::new();
/// let call = turn.child();
/// turn.cancel();
/// assert!(call.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancellationToken(Arc<TokenState>);

#[derive(Debug, Default)]
struct TokenState {
    cancelled: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    wakers: HashMap<u64, Waker>,
    children: Vec<Weak<TokenState>>,
}

impl TokenState {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Each change under this lock leaves a consistent state, so a poisoned lock can be used.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cancel(&self) {
        let (wakers, children) = {
            let mut waiting = self.waiting();
            // Set with the lock held, so that a waiter that registers afterwards sees it and is not
            // lost.
            self.cancelled.store(true, Ordering::Release);
            (std::mem::take(&mut waiting.wakers), std::mem::take(&mut waiting.children))
        };
        wakers.into_values().for_each(Waker::wake);
        children.iter().filter_map(Weak::upgrade).for_each(|child| child.cancel());
    }
}

impl CancellationToken {
    /// Creates a token that is not canceled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a token that is canceled together with this one, and can be canceled alone.
    #[must_use]
    pub fn child(&self) -> Self {
        let child = Self::new();
        let mut waiting = self.0.waiting();
        if self.is_cancelled() {
            child.0.cancelled.store(true, Ordering::Release);
        } else {
            waiting.children.retain(|child| child.strong_count() > 0);
            waiting.children.push(Arc::downgrade(&child.0));
        }
        drop(waiting);
        child
    }

    /// Cancels this token and its children, and wakes all waiters. Calling it again has no effect.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Returns whether the token was canceled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Waits until the token is canceled.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { state: Arc::clone(&self.0), key: None }
    }
}

/// The future of [`CancellationToken::cancelled`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct Cancelled {
    state: Arc<TokenState>,
    key: Option<u64>,
}

impl Future for Cancelled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let state = Arc::clone(&self.state);
        let waker = context.waker().clone();
        let replaced = {
            let mut waiting = state.waiting();
            if state.cancelled.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
            let key = self.key.unwrap_or_else(|| {
                waiting.next += 1;
                waiting.next
            });
            self.key = Some(key);
            waiting.wakers.insert(key, waker)
        };
        // Without the lock: dropping a waker may drop its task, which may cancel this token.
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.state.waiting().wakers.remove(&key);
            drop(waker);
        }
    }
}

/// Receives progress reports of calls.
///
/// Implemented for every `Fn(&str, fmt::Arguments)`. It must return quickly, since the tool waits
/// for it.
pub trait ProgressSink: Send + Sync {
    /// Receives one line about the call with this id.
    fn report(&self, call_id: &str, line: fmt::Arguments<'_>);
}

impl<F: Fn(&str, fmt::Arguments<'_>) + Send + Sync> ProgressSink for F {
    fn report(&self, call_id: &str, line: fmt::Arguments<'_>) {
        self(call_id, line);
    }
}

/// The context of a running tool, which the tool cannot change.
///
/// ```
/// use tract_core::ToolContext;
/// struct Workspace { root: String }
/// let context = ToolContext::new("c1").with_resource(Workspace { root: "/srv".into() });
/// assert_eq!(context.resource::<Workspace>()?.root, "/srv");
/// assert!(context.resource::<String>().is_err());
/// # Ok::<(), tract_core::ToolError>(())
/// ```
#[derive(Clone)]
pub struct ToolContext {
    call_id: Arc<str>,
    cancellation: CancellationToken,
    clock: Arc<dyn Clock>,
    deadline_us: Option<i64>,
    progress: Option<Arc<dyn ProgressSink>>,
    resources: Arc<HashMap<TypeId, Resource>>,
}

/// An `Arc<T>`; `T` may be a trait object.
type Resource = Arc<dyn Any + Send + Sync>;

impl ToolContext {
    /// Creates the context of a call: not canceled, without a deadline, resources and a progress
    /// sink.
    pub fn new(call_id: impl Into<Arc<str>>) -> Self {
        Self {
            call_id: call_id.into(),
            cancellation: CancellationToken::new(),
            clock: Arc::new(SystemClock),
            deadline_us: None,
            progress: None,
            resources: Arc::default(),
        }
    }

    /// Creates the context of another call, which shares everything else.
    #[must_use]
    pub fn for_call(&self, call_id: impl Into<Arc<str>>) -> Self {
        Self { call_id: call_id.into(), ..self.clone() }
    }

    /// Sets the cancellation token of the call.
    #[must_use]
    pub fn with_cancellation(mut self, token: CancellationToken) -> Self {
        self.cancellation = token;
        self
    }

    /// Sets the clock used for the deadline.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the deadline: microseconds since 1970, UTC.
    #[must_use]
    pub fn with_deadline_us(mut self, deadline_us: i64) -> Self {
        self.deadline_us = Some(deadline_us);
        self
    }

    /// Sets the sink of progress reports.
    #[must_use]
    pub fn with_progress(mut self, sink: Arc<dyn ProgressSink>) -> Self {
        self.progress = Some(sink);
        self
    }

    /// Adds a resource for the tool, replacing one of the same type.
    #[must_use]
    pub fn with_resource<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.with_shared_resource(Arc::new(value))
    }

    /// Adds a shared resource for the tool, which may be a trait object.
    #[must_use]
    pub fn with_shared_resource<T: Send + Sync + ?Sized + 'static>(
        mut self,
        value: Arc<T>,
    ) -> Self {
        Arc::make_mut(&mut self.resources).insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// Returns the provider's id of the call.
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// Returns the cancellation token of the call.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// Returns whether the call should stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Returns the clock used for the deadline.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Returns the deadline: microseconds since 1970, UTC.
    pub fn deadline_us(&self) -> Option<i64> {
        self.deadline_us
    }

    /// Returns the remaining time, zero after the deadline; `None` without a deadline.
    pub fn remaining(&self) -> Option<Duration> {
        let left = self.deadline_us?.saturating_sub(self.clock.now_us());
        Some(Duration::from_micros(u64::try_from(left).unwrap_or(0)))
    }

    /// Checks that the call may continue. A long-running tool should call this regularly.
    ///
    /// # Errors
    /// [`ToolError::Evaluation`] if the call was canceled; [`ToolError::DeadlineExceeded`] if the
    /// deadline has passed.
    pub fn check(&self) -> Result<(), ToolError> {
        if self.is_cancelled() {
            return Err(ToolError::evaluation("the call was cancelled"));
        }
        match self.remaining() {
            Some(Duration::ZERO) => Err(ToolError::deadline_exceeded("the call ran out of time")
                .note("ask for less in one call")),
            _ => Ok(()),
        }
    }

    /// Reports progress. Does nothing without a sink.
    pub fn progress(&self, line: fmt::Arguments<'_>) {
        if let Some(sink) = &self.progress {
            sink.report(&self.call_id, line);
        }
    }

    /// Returns the resource of this type.
    ///
    /// # Errors
    /// [`ToolError::Other`] if the host did not provide one.
    pub fn resource<T: ?Sized + 'static>(&self) -> Result<&T, ToolError> {
        self.optional_resource().ok_or_else(|| {
            ToolError::other("the tool cannot run here: something that it needs is not available")
                .operator(format!("no resource of type {}", type_name::<T>()))
        })
    }

    /// Returns the resource of this type, if the host provided one.
    pub fn optional_resource<T: ?Sized + 'static>(&self) -> Option<&T> {
        let found = self.resources.get(&TypeId::of::<T>())?;
        found.downcast_ref::<Arc<T>>().map(|shared| &**shared)
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("call_id", &self.call_id)
            .field("cancelled", &self.is_cancelled())
            .field("deadline_us", &self.deadline_us)
            .field("resources", &self.resources.len())
            .finish_non_exhaustive()
    }
}
