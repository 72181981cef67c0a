//! Typed resources that tools share: databases, clients, a filesystem.
//!
//! They are bound by type, created on first use, and closed in the reverse order of their creation.
//!
//! ```
//! use std::sync::Arc;
//! use tract_tools::resource::{Binding, ResourceError, Resources};
//!
//! struct Config { url: String }
//! struct Client { url: String }
//! let resources = Resources::builder()
//!     .bind(Binding::value(Arc::new(Config { url: "http://localhost".into() })))
//!     .bind(Binding::singleton(|scope| {
//!         let config = scope.get::<Config>()?;
//!         Ok::<_, ResourceError>(Arc::new(Client { url: config.url.clone() }))
//!     }).close(|_client| Ok(())))
//!     .build()?;
//! assert_eq!(resources.get::<Client>()?.url, "http://localhost");
//! assert!(resources.close().is_empty(), "nothing failed to close");
//! # Ok::<(), ResourceError>(())
//! ```

mod build;
mod error;
mod gate;

use std::any::{TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::build::{Binding, Lifetime, ResourcesBuilder};
use self::build::{Erased, ErasedBinding};
pub use self::error::ResourceError;
use self::gate::Gate;
use crate::panics::guarded;
use crate::snapshot::{AddedState, BoxError, SavedState, Snapshot, restore_all, snapshot_all};

type Result<T, E = ResourceError> = std::result::Result<T, E>;

/// An instance created from a binding.
struct Instance {
    /// Its state for rollback, if it is a singleton. Dropped first.
    added: Option<AddedState>,
    erased: Erased,
}

impl Instance {
    fn of(bound: &ErasedBinding, erased: Erased) -> Self {
        let of = bound.snapshots.as_ref().filter(|_| bound.lifetime == Lifetime::Singleton);
        let state = of.and_then(|of| of(&erased));
        Self { added: state.map(|state| AddedState { born: None, state }), erased }
    }
}

/// The instances, in the order in which they were created.
#[derive(Default)]
struct CreatedInstances {
    by_type: HashMap<TypeId, usize>,
    in_order: Vec<(TypeId, Instance)>,
    closed: bool,
}

impl CreatedInstances {
    fn get(&self, id: TypeId) -> Option<Erased> {
        let (_, instance) = self.in_order.get(*self.by_type.get(&id)?)?;
        Some(Arc::clone(&instance.erased))
    }

    fn states(&mut self) -> impl Iterator<Item = &mut AddedState> {
        self.in_order.iter_mut().filter_map(|(_, instance)| instance.added.as_mut())
    }

    /// Stores an instance that later requests return.
    fn keep(&mut self, id: TypeId, instance: Instance) {
        self.by_type.insert(id, self.in_order.len());
        self.in_order.push((id, instance));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Data under these locks is consistent after each statement, so it is usable after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The resources of a host. As a [`Snapshot`] they restore every singleton that supports it.
pub struct Resources {
    bindings: HashMap<TypeId, ErasedBinding>,
    made: Mutex<CreatedInstances>,
    making: Gate,
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<&str> = self.bindings.values().map(|bound| bound.name).collect();
        names.sort_unstable();
        f.debug_struct("Resources").field("bound", &names).finish_non_exhaustive()
    }
}

impl Resources {
    /// Returns a builder for binding types.
    pub fn builder() -> ResourcesBuilder {
        ResourcesBuilder::default()
    }

    fn new(bindings: HashMap<TypeId, ErasedBinding>, made: CreatedInstances) -> Self {
        Self { bindings, made: Mutex::new(made), making: Gate::default() }
    }

    /// Returns the resource of a type, creating it on first use.
    ///
    /// # Errors
    /// [`ResourceError`]; [`ResourceError::NoCall`] for a type that is created for each call.
    pub fn get<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        typed(self.find(None, TypeId::of::<T>(), type_name::<T>())?)
    }

    /// Returns the resource of a type, if one is bound.
    ///
    /// # Errors
    /// As [`get`](Self::get), except that an unbound type is `None`.
    pub fn get_optional<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Option<Arc<T>>> {
        optional(self.get::<T>())
    }

    /// Returns whether a type is bound.
    pub fn has<T: ?Sized + 'static>(&self) -> bool {
        self.bindings.contains_key(&TypeId::of::<T>())
    }

    /// Returns whether only one turn at a time may use them, because some of them are restored when
    /// a call fails.
    pub(crate) fn take_turns(&self) -> bool {
        self.bindings.values().any(ErasedBinding::takes_turns)
    }

    /// Closes all instances in the reverse order of their creation, even if some fail. No resource
    /// is available afterwards. Returns the errors.
    pub fn close(&self) -> Vec<ResourceError> {
        close(&self.bindings, &self.made)
    }

    fn find(&self, call: Option<&CallResources>, id: TypeId, name: &'static str) -> Result<Erased> {
        // Fast path without the gate: most resources exist already.
        if let Some(found) = self.ready(call, id)? {
            return Ok(found);
        }
        // Only one thread creates resources, so that a singleton is not created twice; `resolve`
        // looks again behind the gate. A provider that uses these resources rather than its scope
        // would wait for itself, so it gets an error.
        let _making = self.making.enter().ok_or(ResourceError::Reentrant { name })?;
        Scope { resources: self, call, path: None }.resolve(id, name)
    }

    fn ready(&self, call: Option<&CallResources>, id: TypeId) -> Result<Option<Erased>> {
        let made = lock(&self.made);
        if made.closed {
            return Err(ResourceError::Closed);
        }
        if let Some(found) = made.get(id) {
            return Ok(Some(found));
        }
        drop(made);
        let Some(call) = call else { return Ok(None) };
        let made = lock(&call.made);
        if made.closed { Err(ResourceError::Closed) } else { Ok(made.get(id)) }
    }
}

impl Drop for Resources {
    fn drop(&mut self) {
        for error in self.close() {
            tracing::warn!(target: "tract::resource", %error, "not closed");
        }
    }
}

fn typed<T: ?Sized + Send + Sync + 'static>(erased: Erased) -> Result<Arc<T>> {
    let shared = erased.downcast_ref::<Arc<T>>().map(Arc::clone);
    shared.ok_or(ResourceError::Unbound { name: type_name::<T>() })
}

fn optional<T: ?Sized>(found: Result<Arc<T>>) -> Result<Option<Arc<T>>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(ResourceError::Unbound { name }) if name == type_name::<T>() => Ok(None),
        Err(error) => Err(error),
    }
}

fn close(
    bindings: &HashMap<TypeId, ErasedBinding>,
    made: &Mutex<CreatedInstances>,
) -> Vec<ResourceError> {
    let in_order = {
        let mut made = lock(made);
        made.closed = true;
        made.by_type.clear();
        std::mem::take(&mut made.in_order)
    };
    let mut errors = Vec::new();
    // Newest first, so that a resource is closed before those that it was made from. The lock is
    // free, because a close handler may ask for resources; it gets an error.
    for (id, instance) in in_order.into_iter().rev() {
        let Some(bound) = bindings.get(&id) else { continue };
        let closed = guarded(|| {
            let closed = bound.close.as_ref().map_or(Ok(()), |close| close(&instance.erased));
            drop(instance);
            closed
        });
        errors.extend(closed.err().map(|source| ResourceError::Close { name: bound.name, source }));
    }
    errors
}

impl Snapshot for Resources {
    fn name(&self) -> &str {
        "resources"
    }

    fn snapshot(&self) -> Result<SavedState, BoxError> {
        snapshot_all(lock(&self.made).states())
    }

    fn restore(&self, saved: SavedState) -> Result<(), BoxError> {
        restore_all(lock(&self.made).states(), saved)
    }
}

/// The scope from which a provider gets the resources that it depends on.
pub struct Scope<'a> {
    resources: &'a Resources,
    call: Option<&'a CallResources>,
    path: Option<&'a DependencyLink<'a>>,
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("path", &self.names()).finish_non_exhaustive()
    }
}

/// A resource that is being created, and the one that requested it.
struct DependencyLink<'a> {
    id: TypeId,
    name: &'static str,
    lifetime: Lifetime,
    outer: Option<&'a DependencyLink<'a>>,
}

impl<'a> Scope<'a> {
    /// Returns the resource of a type.
    ///
    /// # Errors
    /// [`ResourceError`]; [`ResourceError::Cycle`] if the type depends, directly or indirectly, on
    /// the one that is being created.
    pub fn get<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        typed(self.resolve(TypeId::of::<T>(), type_name::<T>())?)
    }

    /// Returns the resource of a type, if one is bound.
    ///
    /// # Errors
    /// As [`get`](Self::get), except that an unbound type is `None`.
    pub fn get_optional<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Option<Arc<T>>> {
        optional(self.get::<T>())
    }

    fn links(&self) -> impl Iterator<Item = &'a DependencyLink<'a>> {
        std::iter::successors(self.path, |link| link.outer)
    }

    fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = self.links().map(|link| link.name).collect();
        names.reverse();
        names
    }

    fn resolve(&self, id: TypeId, name: &'static str) -> Result<Erased> {
        let bound = self.resources.bindings.get(&id).ok_or(ResourceError::Unbound { name })?;
        if self.links().any(|link| link.id == id) {
            let mut path = self.names();
            path.drain(..path.iter().position(|step| *step == name).unwrap_or(0));
            path.push(name);
            return Err(ResourceError::Cycle { path });
        }
        let outlives = self.links().find(|link| link.lifetime == Lifetime::Singleton);
        if let (Lifetime::PerCall, Some(outer)) = (bound.lifetime, outlives) {
            return Err(ResourceError::Captive { outer: outer.name, name });
        }
        if bound.lifetime != Lifetime::Prototype
            && let Some(found) = self.resources.ready(self.call, id)?
        {
            return Ok(found);
        }
        // The dependencies of a singleton live as long as the singleton, not as long as the call.
        let of_call = self.call.filter(|_| outlives.is_none());
        let home = match (bound.lifetime, of_call) {
            (Lifetime::Singleton, _) | (Lifetime::Prototype, None) => &self.resources.made,
            (Lifetime::PerCall | Lifetime::Prototype, Some(call)) => &call.made,
            (Lifetime::PerCall, None) => return Err(ResourceError::NoCall { name }),
        };
        let link = DependencyLink { id, name, lifetime: bound.lifetime, outer: self.path };
        let inner = Scope { path: Some(&link), ..*self };
        let made = guarded(|| {
            let mut instance = Instance::of(bound, (bound.make)(&inner)?);
            // The initial state: a rollback to a snapshot that is older than the resource restores
            // it.
            if let Some(AddedState { state, born }) = &mut instance.added {
                *born = Some(state.snapshot()?);
            }
            Ok(instance)
        });
        // Errors of dependencies are reported as they are, not as a failure of this provider.
        let instance = made.map_err(|source| match source.downcast::<ResourceError>() {
            Ok(own) if !matches!(*own, ResourceError::Provider { .. }) => *own,
            Ok(own) => ResourceError::Provider { name, source: own },
            Err(source) => ResourceError::Provider { name, source },
        })?;
        let erased = Arc::clone(&instance.erased);
        let mut home = lock(home);
        match bound.lifetime {
            Lifetime::Singleton | Lifetime::PerCall => home.keep(id, instance),
            // Stored only to be closed; later requests do not return it.
            Lifetime::Prototype if bound.close.is_some() => home.in_order.push((id, instance)),
            Lifetime::Prototype => {}
        }
        Ok(erased)
    }
}

/// The resources that one call sees: those of the host, and those created for the call alone.
pub struct CallResources {
    resources: Option<Arc<Resources>>,
    made: Mutex<CreatedInstances>,
}

impl fmt::Debug for CallResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallResources").field("resources", &self.resources).finish_non_exhaustive()
    }
}

impl CallResources {
    /// Creates the view of one call on the resources.
    pub fn new(resources: Option<Arc<Resources>>) -> Self {
        Self { resources, made: Mutex::default() }
    }

    /// Returns the resource of a type, creating it on first use.
    ///
    /// # Errors
    /// [`ResourceError`]; [`ResourceError::Closed`] after the call has ended.
    pub fn get<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        let name = type_name::<T>();
        let resources = self.resources.as_ref().ok_or(ResourceError::Unbound { name })?;
        if lock(&self.made).closed {
            return Err(ResourceError::Closed);
        }
        typed(resources.find(Some(self), TypeId::of::<T>(), name)?)
    }

    /// Returns the resource of a type, if one is bound.
    ///
    /// # Errors
    /// As [`get`](Self::get), except that an unbound type is `None`.
    pub fn get_optional<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Option<Arc<T>>> {
        optional(self.get::<T>())
    }

    /// Returns whether the resource of a type exists and is shared by all calls.
    pub(crate) fn is_singleton<T: ?Sized + 'static>(&self) -> bool {
        let made = self.resources.as_ref().map(|resources| lock(&resources.made));
        made.is_some_and(|made| made.get(TypeId::of::<T>()).is_some())
    }

    /// Closes the resources created for the call alone, in the reverse order of their creation.
    /// Returns the errors.
    pub fn close(&self) -> Vec<ResourceError> {
        let resources = self.resources.iter();
        resources.flat_map(|resources| close(&resources.bindings, &self.made)).collect()
    }
}

impl Drop for CallResources {
    fn drop(&mut self) {
        for error in self.close() {
            tracing::warn!(target: "tract::resource", %error, "not closed");
        }
    }
}

#[cfg(test)]
mod tests;
