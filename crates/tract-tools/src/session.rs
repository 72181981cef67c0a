//! Sessions: the memory of tools between calls, as typed slices that pure reducers change.
//!
//! A published event reaches every reducer that is registered for its type; each of them changes
//! one slice. An event without a reducer is appended to the slice of its own type. State is
//! restored when a call fails, logs are not. Therefore only one turn at a time works on a session
//! ([`Session::hold`]).
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use tract_tools::session::{Session, SessionItem, SliceOp};
//!
//! #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
//! struct Counter(u32);
//! impl SessionItem for Counter { const NAME: &'static str = "counter"; }
//! #[derive(Clone, Serialize, Deserialize)]
//! struct Add(u32);
//! impl SessionItem for Add { const NAME: &'static str = "add"; }
//!
//! let session = Session::new();
//! session.on(|slice: &[Counter], add: &Add| {
//!     let sum = slice.last().map_or(0, |counter| counter.0);
//!     SliceOp::Replace(vec![Counter(sum + add.0)])
//! })?;
//! session.publish(&Add(2))?;
//! let before = session.snapshot();
//! session.publish(&Add(3))?;
//! assert_eq!(session.latest::<Counter>(), Some(Counter(5)));
//! session.restore(&before);
//! assert_eq!(session.latest::<Counter>(), Some(Counter(2)));
//! # Ok::<(), tract_tools::session::SessionError>(())
//! ```

mod error;
mod hold;
mod reduce;
mod slice;
mod snapshot;
mod state;

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tract_core::{CommitId, JsonText};

pub use self::error::SessionError;
pub use self::hold::SessionHold;
pub use self::reduce::{SliceOp, append, replace_latest, upsert_by};
use self::slice::{Reducer, Slice, UntypedItem};
pub use self::snapshot::{SessionSnapshot, SliceDocument};
use crate::queue::TurnQueue;

/// A value in a slice, or a published event, with a stable name.
pub trait SessionItem: Clone + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The name of its slice. It is stored, so it must not change when the type is renamed.
    const NAME: &'static str;
}

/// Whether a slice is rolled back when a call fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SlicePolicy {
    /// It is restored.
    #[default]
    State,
    /// It keeps its items, because a log is not rolled back.
    Log,
}

impl SlicePolicy {
    /// Returns the name: `state`, `log`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Log => "log",
        }
    }
}

type Result<T> = std::result::Result<T, SessionError>;

/// Typed slices and the reducers that change them. Clones share one session.
///
/// A tool reaches the session of its call as a resource of the context:
/// `context.resource::<Session>()?`. Reducers are pure: they see the slice and the event. They must
/// not use the session, which is locked while they run.
#[derive(Clone, Default)]
pub struct Session {
    state: Arc<Mutex<State>>,
    queue: Arc<TurnQueue>,
    /// The hold that this handle belongs to.
    lent_by: Option<u64>,
}

#[derive(Default)]
struct State {
    slices: BTreeMap<&'static str, Slice>,
    reducers: HashMap<TypeId, Vec<Reducer>>,
    /// Owners that have registered a reducer with `on_once`, and the type of its event.
    owners: HashSet<(&'static str, TypeId)>,
    /// Receivers of the values of tools, by the tool's name.
    routes: HashMap<String, Vec<Route>>,
    /// Restored slices that no type has claimed yet.
    unclaimed: BTreeMap<String, JsonText>,
    /// The commit whose state the slices have, if a run of an agent set it.
    position: Option<CommitId>,
}

type Route = Arc<dyn Fn(&Session, &str) -> Result<()> + Send + Sync>;

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock().slices.fmt(f)
    }
}

impl Session {
    /// Creates a session without slices.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Changes are computed before they are put in place, so the state stays consistent after a
        // panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether both are the same session.
    pub fn is(&self, other: &Session) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Makes a slice a log, so that its items stay when a call fails. By default a slice is state.
    ///
    /// # Errors
    /// [`SessionError::NameTaken`] if another type has the name; [`SessionError::Shape`] if
    /// restored items cannot be read as this type.
    pub fn log<T: SessionItem>(&self) -> Result<()> {
        self.lock().slice::<T>()?.policy = SlicePolicy::Log;
        Ok(())
    }

    /// Makes the slice of a name a log, independent of its type.
    ///
    /// # Errors
    /// As [`log`](Self::log).
    pub fn log_named(&self, name: &'static str) -> Result<()> {
        self.lock().slice_named(name)?.policy = SlicePolicy::Log;
        Ok(())
    }

    /// Registers a reducer that changes the slice of `T` when an `E` is published. Several reducers
    /// for one event run in the order of registration, each on the result of the one before.
    ///
    /// # Errors
    /// As [`log`](Self::log).
    pub fn on<T: SessionItem, E: Send + Sync + 'static>(
        &self,
        reducer: impl Fn(&[T], &E) -> SliceOp<T> + Send + Sync + 'static,
    ) -> Result<()> {
        let mut state = self.lock();
        state.slice::<T>()?;
        state.reducers.entry(TypeId::of::<E>()).or_default().push(Reducer::new(reducer));
        Ok(())
    }

    /// Registers a reducer like [`on`](Self::on), unless its owner has already registered one for
    /// this event: two of them would change the slice twice.
    ///
    /// # Errors
    /// As [`log`](Self::log).
    pub fn on_once<T: SessionItem, E: Send + Sync + 'static>(
        &self,
        owner: &'static str,
        reducer: impl Fn(&[T], &E) -> SliceOp<T> + Send + Sync + 'static,
    ) -> Result<()> {
        let mut state = self.lock();
        state.slice::<T>()?;
        if state.owners.insert((owner, TypeId::of::<E>())) {
            state.reducers.entry(TypeId::of::<E>()).or_default().push(Reducer::new(reducer));
        }
        Ok(())
    }

    /// Publishes an event. All its reducers run, and their changes are applied together. Without a
    /// reducer it is appended to its own slice.
    ///
    /// # Errors
    /// As [`log`](Self::log); nothing is changed then.
    pub fn publish<E: SessionItem>(&self, event: &E) -> Result<()> {
        let mut state = self.lock();
        if !state.reduce(event)? {
            state.slice::<E>()?.apply(SliceOp::Append(event.clone()))?;
        }
        Ok(())
    }

    /// Publishes an event of an erased type. Without a reducer it is appended to the slice of its
    /// name: as a value if the slice has its type, else as JSON until a type claims it.
    ///
    /// # Errors
    /// As [`log`](Self::log), and if the event cannot be written as JSON; nothing is changed then.
    pub fn publish_any(
        &self,
        name: &'static str,
        event: &(dyn Any + Send + Sync),
        json: impl FnOnce() -> std::result::Result<JsonText, serde_json::Error>,
    ) -> Result<()> {
        let mut state = self.lock();
        if state.reduce(event)? {
            return Ok(());
        }
        let slice = state.slice_named(name)?;
        if slice.append_any(event) {
            return Ok(());
        }
        if !slice.is_untyped() {
            return Err(SessionError::NameTaken { name });
        }
        let json =
            json().map_err(|source| SessionError::NoJson { name: name.to_owned(), source })?;
        slice.apply(SliceOp::Append(UntypedItem(json)))
    }

    /// Returns the items of a slice, oldest first; empty if there is no such slice.
    ///
    /// # Errors
    /// As [`log`](Self::log).
    pub fn all<T: SessionItem>(&self) -> Result<Arc<Vec<T>>> {
        self.lock().slice::<T>()?.typed()
    }

    /// Returns the last item of a slice.
    pub fn latest<T: SessionItem>(&self) -> Option<T> {
        self.all::<T>().ok()?.last().cloned()
    }

    /// Returns the items that satisfy a predicate, oldest first.
    ///
    /// # Errors
    /// As [`log`](Self::log).
    pub fn filter<T: SessionItem>(&self, predicate: impl Fn(&T) -> bool) -> Result<Vec<T>> {
        Ok(self.all::<T>()?.iter().filter(|item| predicate(item)).cloned().collect())
    }

    /// Replaces the items of a slice, without its reducers.
    ///
    /// # Errors
    /// As [`log`](Self::log).
    pub fn seed<T: SessionItem>(&self, items: Vec<T>) -> Result<()> {
        self.lock().slice::<T>()?.apply(SliceOp::Replace(items))
    }

    /// Removes the items that satisfy a predicate.
    ///
    /// # Errors
    /// As [`log`](Self::log).
    pub fn clear<T: SessionItem>(&self, predicate: impl Fn(&T) -> bool) -> Result<()> {
        // The predicate runs without the lock, since it may use the session. If the items changed
        // in the meantime, for example by a publication on another thread, they are read again.
        loop {
            let items = self.all::<T>()?;
            let kept: Vec<T> = items.iter().filter(|item| !predicate(item)).cloned().collect();
            let mut state = self.lock();
            let slice = state.slice::<T>()?;
            if Arc::ptr_eq(&slice.typed::<T>()?, &items) {
                return slice.apply(SliceOp::Replace(kept));
            }
        }
    }

    /// Empties all slices; registrations stay.
    pub fn reset(&self) {
        let mut state = self.lock();
        state.slices.values_mut().for_each(Slice::clear);
        state.unclaimed.clear();
    }

    /// Routes the values of a tool to the slice of `T`: each success with a value publishes it.
    ///
    /// # Errors
    /// As [`log`](Self::log).
    pub fn route<T: SessionItem>(&self, tool: impl Into<String>) -> Result<()> {
        let mut state = self.lock();
        state.slice::<T>()?;
        let route = |session: &Session, value: &str| {
            let item: T = serde_json::from_str(value)
                .map_err(|source| SessionError::Shape { name: T::NAME.to_owned(), source })?;
            session.publish(&item)
        };
        state.routes.entry(tool.into()).or_default().push(Arc::new(route));
        Ok(())
    }

    /// Publishes a tool's value to the slices that it is routed to. The values of failures are
    /// dropped, and a success without a value changes nothing.
    ///
    /// # Errors
    /// [`SessionError::Shape`] if the value does not fit the slice; otherwise as
    /// [`log`](Self::log).
    pub fn deliver(&self, tool: &str, success: bool, value: Option<&JsonText>) -> Result<()> {
        let Some(value) = value.filter(|value| success && value.as_str() != "null") else {
            return Ok(());
        };
        // Copied, because a route publishes, which takes the lock again.
        let routes = self.lock().routes.get(tool).cloned().unwrap_or_default();
        routes.iter().try_for_each(|route| route(self, value.as_str()))
    }
}

impl State {
    /// Runs the reducers of an event; returns whether there are any.
    fn reduce(&mut self, event: &dyn Any) -> Result<bool> {
        let Some(reducers) = self.reducers.get(&event.type_id()) else { return Ok(false) };
        // All changes are computed before any is applied, so a reducer that fails or panics changes
        // nothing.
        let mut changed: BTreeMap<&'static str, Slice> = BTreeMap::new();
        for reducer in reducers {
            let name = reducer.slice;
            let slice = changed.remove(name).or_else(|| self.slices.get(name).cloned());
            let mut slice = slice.ok_or(SessionError::NameTaken { name })?;
            (reducer.reduce)(&mut slice, event)?;
            changed.insert(name, slice);
        }
        self.slices.extend(changed);
        Ok(true)
    }

    /// Returns the slice of a type, creating it if necessary.
    fn slice<T: SessionItem>(&mut self) -> Result<&mut Slice> {
        let known = self.slices.get(T::NAME);
        if known.is_none_or(|slice| slice.is_untyped() && !slice.is_of::<T>()) {
            let mut slice = Slice::empty::<T>(T::NAME);
            if let Some(untyped) = known {
                slice.read(&untyped.json()?)?;
                slice.policy = untyped.policy;
                // The items are the same, only typed now. So what was stored of them under this
                // revision is up to date.
                slice.revision = untyped.revision;
            } else if let Some(kept) = self.unclaimed.get(T::NAME) {
                slice.read(kept)?;
                self.unclaimed.remove(T::NAME);
            }
            self.slices.insert(T::NAME, slice);
        }
        let slice = self.slices.get_mut(T::NAME).filter(|slice| slice.is_of::<T>());
        slice.ok_or(SessionError::NameTaken { name: T::NAME })
    }

    /// Returns the slice of a name, creating it without a type if necessary.
    fn slice_named(&mut self, name: &'static str) -> Result<&mut Slice> {
        if !self.slices.contains_key(name) {
            let mut slice = Slice::empty::<UntypedItem>(name);
            if let Some(kept) = self.unclaimed.get(name) {
                slice.read(kept)?;
                self.unclaimed.remove(name);
            }
            self.slices.insert(name, slice);
        }
        self.slices.get_mut(name).ok_or(SessionError::NameTaken { name })
    }
}

#[cfg(test)]
mod tests;
