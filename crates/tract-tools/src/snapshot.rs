//! State that is put back when a call fails.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// An error of the host's resources: a session, a resource, a journal.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The saved state of a [`Snapshot`]. Only its maker can read it.
///
/// Dropping it means that it is not needed: the call has succeeded.
pub struct SavedState(Box<dyn Any + Send + Sync>);

impl SavedState {
    /// Wraps what was taken down.
    pub fn new<T: Send + Sync + 'static>(state: T) -> Self {
        Self(Box::new(state))
    }

    /// Takes out what was taken down.
    ///
    /// # Errors
    /// When it is of another type: another [`Snapshot`] made it.
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

/// State that a call may change, and that dispatch puts back when the call fails.
///
/// # Behavior
/// - [`snapshot`](Self::snapshot) is cheap, since it is made before every call that may change
///   something. Persistent structures and undo logs are cheap; copies are not.
/// - [`restore`](Self::restore) restores the state of the snapshot, except for declared logs, which keep
///   the events of failed calls.
/// - Snapshots of one call are restored in the reverse order of their making.
/// - Of the turns that share a state, one works at a time: to restore it would also undo what
///   another turn did meanwhile.
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
    /// Returns the name that operators read.
    fn name(&self) -> &str;

    /// Returns the identity of this state: turns that share a state work on it one at a time. By
    /// default its address. A handle whose clones share state returns the address of the shared
    /// state.
    fn identity(&self) -> usize {
        std::ptr::from_ref(self).cast::<()>().addr()
    }

    /// Takes a snapshot of the state now.
    ///
    /// # Errors
    /// When it cannot; the call is then not run.
    fn snapshot(&self) -> Result<SavedState, BoxError>;

    /// Restores the state of that time.
    ///
    /// # Errors
    /// When it cannot; the state is then unknown, and the turn ends.
    fn restore(&self, saved: SavedState) -> Result<(), BoxError>;
}

/// One of several states that come one after the other, and stay.
pub(crate) struct AddedState {
    /// Its initial state, until a snapshot covers it.
    pub(crate) born: Option<SavedState>,
    pub(crate) state: Arc<dyn Snapshot>,
}

/// Takes a snapshot of all states that have come.
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

/// Restores a snapshot of the states that had come; those that came since go back to how they came.
pub(crate) fn restore_all<'a>(
    states: impl Iterator<Item = &'a mut AddedState>,
    saved: SavedState,
) -> Result<(), BoxError> {
    let saved: Vec<(Arc<dyn Snapshot>, SavedState)> = saved.take()?;
    let mut failed = Vec::new();
    let since: Vec<_> = states.skip(saved.len()).collect();
    for AddedState { state, born } in since.into_iter().rev() {
        let Some(was) = born.take() else { continue };
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
