//! Saying how resources are made.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::sync::Arc;

use super::{CreatedInstances, Instance, ResourceError, Resources, Scope};
use crate::snapshot::{BoxError, Snapshot};

/// How long a resource lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lifetime {
    /// Made once, when it is first asked for; lives as long as the resources.
    Singleton,
    /// Made once for each call that asks for it, and closed with the call.
    PerCall,
    /// Made each time it is asked for, and closed with the call.
    Prototype,
}

/// The functions that make, close and roll back resources of a type.
pub struct Binding<T: ?Sized> {
    value: Option<Arc<T>>,
    erased: ErasedBinding,
}

impl<T: ?Sized + Send + Sync + 'static> Binding<T> {
    fn new<E: Into<BoxError>>(
        lifetime: Lifetime,
        provider: impl Fn(&Scope<'_>) -> Result<Arc<T>, E> + Send + Sync + 'static,
    ) -> Self {
        let erased = ErasedBinding {
            name: type_name::<T>(),
            lifetime,
            make: Box::new(move |scope| {
                Ok(Arc::new(provider(scope).map_err(Into::<BoxError>::into)?))
            }),
            close: None,
            snapshots: None,
            has_views: false,
        };
        Self { value: None, erased }
    }

    /// Binds a value that is there already.
    pub fn value(value: Arc<T>) -> Self {
        let shared = Arc::clone(&value);
        let provider = move |_: &Scope<'_>| Ok::<_, BoxError>(Arc::clone(&shared));
        Self { value: Some(value), ..Self::new(Lifetime::Singleton, provider) }
    }

    /// Makes one when it is first asked for.
    pub fn singleton<E: Into<BoxError>>(
        provider: impl Fn(&Scope<'_>) -> Result<Arc<T>, E> + Send + Sync + 'static,
    ) -> Self {
        Self::new(Lifetime::Singleton, provider)
    }

    /// Makes one for each call that asks.
    pub fn per_call<E: Into<BoxError>>(
        provider: impl Fn(&Scope<'_>) -> Result<Arc<T>, E> + Send + Sync + 'static,
    ) -> Self {
        Self::new(Lifetime::PerCall, provider)
    }

    /// Makes one each time it is asked for.
    pub fn prototype<E: Into<BoxError>>(
        provider: impl Fn(&Scope<'_>) -> Result<Arc<T>, E> + Send + Sync + 'static,
    ) -> Self {
        Self::new(Lifetime::Prototype, provider)
    }

    /// Says how one is closed.
    #[must_use]
    pub fn close(
        mut self,
        close: impl Fn(&T) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.erased.close = Some(Box::new(move |erased| {
            erased.downcast_ref::<Arc<T>>().map_or(Ok(()), |shared| close(shared))
        }));
        self
    }

    /// Lets several turns work on it at the same time, even though it is put back: each of them
    /// changes a view of its own.
    pub(crate) fn with_views(mut self, has_views: bool) -> Self {
        self.erased.has_views = has_views;
        self
    }

    /// Says how it is put back when a call fails. Only singletons are: the others do not outlive
    /// the call.
    #[must_use]
    pub fn snapshots(
        mut self,
        snapshots: impl Fn(&Arc<T>) -> Arc<dyn Snapshot> + Send + Sync + 'static,
    ) -> Self {
        let of = move |erased: &Erased| erased.downcast_ref::<Arc<T>>().map(&snapshots);
        self.erased.snapshots = Some(Box::new(of));
        self
    }
}

/// An `Arc<T>` whose type is not known.
pub(super) type Erased = Arc<dyn Any + Send + Sync>;

type MakeErased = dyn Fn(&Scope<'_>) -> Result<Erased, BoxError> + Send + Sync;
type CloseErased = dyn Fn(&Erased) -> Result<(), BoxError> + Send + Sync;
type SnapshotsOfErased = dyn Fn(&Erased) -> Option<Arc<dyn Snapshot>> + Send + Sync;

/// A binding whose type is not known.
pub(super) struct ErasedBinding {
    pub(super) name: &'static str,
    pub(super) lifetime: Lifetime,
    pub(super) make: Box<MakeErased>,
    pub(super) close: Option<Box<CloseErased>>,
    pub(super) snapshots: Option<Box<SnapshotsOfErased>>,
    has_views: bool,
}

impl ErasedBinding {
    /// Returns whether one turn at a time may work on it.
    pub(super) fn takes_turns(&self) -> bool {
        self.lifetime == Lifetime::Singleton && self.snapshots.is_some() && !self.has_views
    }
}

/// Collects bindings.
#[derive(Default)]
#[must_use]
pub struct ResourcesBuilder {
    bindings: HashMap<TypeId, ErasedBinding>,
    values: Vec<(TypeId, Erased)>,
    duplicate: Option<&'static str>,
}

impl ResourcesBuilder {
    /// Binds a type, which may be a trait object: `Binding::<dyn Clock>::value(..)`.
    pub fn bind<T: ?Sized + Send + Sync + 'static>(mut self, binding: Binding<T>) -> Self {
        let id = TypeId::of::<T>();
        self.values.extend(binding.value.map(|value| (id, Arc::new(value) as Erased)));
        if self.bindings.insert(id, binding.erased).is_some() {
            self.duplicate.get_or_insert(type_name::<T>());
        }
        self
    }

    /// Makes the resources. An instance is made when it is first requested.
    ///
    /// # Errors
    /// [`ResourceError::Duplicate`] when a type is bound twice.
    pub fn build(self) -> Result<Resources, ResourceError> {
        if let Some(name) = self.duplicate {
            return Err(ResourceError::Duplicate { name });
        }
        let mut made = CreatedInstances::default();
        for (id, erased) in self.values {
            if let Some(bound) = self.bindings.get(&id) {
                made.keep(id, Instance::of(bound, erased));
            }
        }
        Ok(Resources::new(self.bindings, made))
    }
}
