//! State that can be restored when a call fails.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// An error of an object that the host provides: a session, a resource, a journal.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// State saved by a [`Snapshot`]. Only its creator can read it.
///
/// It is dropped without being restored when the call has succeeded.
pub struct SavedState(Box<dyn Any + Send + Sync>);

impl SavedState {
    /// Wraps saved state.
    pub fn new<T: Send + Sync + 'static>(state: T) -> Self {
        Self(Box::new(state))
    }

    /// Unwraps the saved state.
    ///
    /// # Errors
    /// If it has another type, because another [`Snapshot`] created it.
    pub fn take<T: 'static>(self) -> Result<T, BoxError> {
        let name = std::any::type_name::<T>();
        let foreign = || format!("expected a snapshot of {name}, found that of something else");
        self.0.downcast::<T>().map(|state| *state).map_err(|_| foreign().into())
    }
}

impl fmt::Debug for SavedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saved").finish_non_exhaustive()
    }
}

/// State that a call may change and that dispatch restores when the call fails.
///
/// # Behavior
/// - [`snapshot`](Self::snapshot) must be cheap: it is called before every call that may change
///   something. Use persistent structures or undo logs rather than copies.
/// - [`restore`](Self::restore) returns the state to that of the snapshot, except for documented
///   logs, which keep the events of failed calls.
/// - Snapshots of one call are restored in reverse order.
/// - Of the turns that share a state, only one works at a time, because restoring it would also
///   undo changes of another turn.
///
/// ```
/// use std::sync::Mutex;
/// use tract_tools::snapshot::{BoxError, SavedState, Snapshot};
///
/// #[derive(Default)]
/// struct Counter(Mutex<u64>);
/// impl Snapshot for Counter {
///     fn name(&self) -> &str { "counter" }
///     fn snapshot(&self) -> Result<SavedState, BoxError> {
///         Ok(SavedState::new(*self.0.lock().map_err(|_| "the counter is broken")?))
///     }
///     fn restore(&self, saved: SavedState) -> Result<(), BoxError> {
///         *self.0.lock().map_err(|_| "the counter is broken")? = saved.take()?;
///         Ok(())
///     }
/// }
/// let counter = Counter::default();
/// let before = counter.snapshot()?;
/// *counter.0.lock().unwrap() = 7;
/// counter.restore(before)?;
/// assert_eq!(*counter.0.lock().unwrap(), 0);
/// # Ok::<(), BoxError>(())
/// ```
pub trait Snapshot: Send + Sync {
    /// Returns the name shown to operators.
    fn name(&self) -> &str;

    /// Returns the identity of this state: turns that share it work on it one at a time. The
    /// default is its address. A handle whose clones share one state returns the address of the
    /// shared part.
    fn identity(&self) -> usize {
        std::ptr::from_ref(self).cast::<()>().addr()
    }

    /// Takes a snapshot of the current state.
    ///
    /// # Errors
    /// If it fails, the call is not run.
    fn snapshot(&self) -> Result<SavedState, BoxError>;

    /// Restores the state of a snapshot.
    ///
    /// # Errors
    /// If it fails, the state is unknown and the turn ends.
    fn restore(&self, saved: SavedState) -> Result<(), BoxError>;
}

/// One of several states that are added over time and never removed.
pub(crate) struct AddedState {
    /// Its state when it was added; `None` once a snapshot covers it.
    pub(crate) born: Option<SavedState>,
    pub(crate) state: Arc<dyn Snapshot>,
}

/// Takes a snapshot of all states added so far.
pub(crate) fn snapshot_all<'a>(
    states: impl Iterator<Item = &'a mut AddedState>,
) -> Result<SavedState, BoxError> {
    let mut saved: Vec<(Arc<dyn Snapshot>, SavedState)> = Vec::new();
    for AddedState { state, born } in states {
        saved.push((Arc::clone(state), state.snapshot()?));
        *born = None;
    }
    Ok(SavedState::new(saved))
}

/// Restores a snapshot of several states. States added since return to their initial state.
pub(crate) fn restore_all<'a>(
    states: impl Iterator<Item = &'a mut AddedState>,
    saved: SavedState,
) -> Result<(), BoxError> {
    let saved: Vec<(Arc<dyn Snapshot>, SavedState)> = saved.take()?;
    let mut failed = Vec::new();
    let since: Vec<_> = states.skip(saved.len()).collect();
    for AddedState { state, born } in since.into_iter().rev() {
        let Some(was) = born.take() else { continue };
        // Restoring consumes the saved state, so it is saved again for the next rollback.
        match state.restore(was).and_then(|()| state.snapshot()) {
            Ok(was) => *born = Some(was),
            Err(error) => failed.push(format!("{}: {error}", state.name())),
        }
    }
    for (state, saved) in saved.into_iter().rev() {
        if let Err(error) = state.restore(saved) {
            failed.push(format!("{}: {error}", state.name()));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
}
