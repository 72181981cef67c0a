//! Bindings, which define how resources are created and closed.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::sync::Arc;

use super::{CreatedInstances, Instance, ResourceError, Resources, Scope};
use crate::snapshot::{BoxError, Snapshot};

/// The lifetime of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lifetime {
    /// Created once, on first use; lives as long as the resources.
    Singleton,
    /// Created once for each call that requests it, and closed with the call.
    PerCall,
    /// Created for each request, and closed with the call.
    Prototype,
}

/// The functions that create, close and roll back resources of a type.
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

    /// Binds an existing value.
    pub fn value(value: Arc<T>) -> Self {
        let shared = Arc::clone(&value);
        let provider = move |_: &Scope<'_>| Ok::<_, BoxError>(Arc::clone(&shared));
        Self { value: Some(value), ..Self::new(Lifetime::Singleton, provider) }
    }

    /// Binds a type that is created once, on first use.
    pub fn singleton<E: Into<BoxError>>(
        provider: impl Fn(&Scope<'_>) -> Result<Arc<T>, E> + Send + Sync + 'static,
    ) -> Self {
        Self::new(Lifetime::Singleton, provider)
    }

    /// Binds a type that is created once for each call that requests it.
    pub fn per_call<E: Into<BoxError>>(
        provider: impl Fn(&Scope<'_>) -> Result<Arc<T>, E> + Send + Sync + 'static,
    ) -> Self {
        Self::new(Lifetime::PerCall, provider)
    }

    /// Binds a type that is created for each request.
    pub fn prototype<E: Into<BoxError>>(
        provider: impl Fn(&Scope<'_>) -> Result<Arc<T>, E> + Send + Sync + 'static,
    ) -> Self {
        Self::new(Lifetime::Prototype, provider)
    }

    /// Sets the function that closes an instance.
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

    /// Allows several turns to use it concurrently although it is restored when a call fails: each
    /// of them changes its own view.
    pub(crate) fn with_views(mut self, has_views: bool) -> Self {
        self.erased.has_views = has_views;
        self
    }

    /// Sets the snapshots that restore it when a call fails. Only used for singletons, because
    /// other resources do not outlive the call.
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

/// A type-erased `Arc<T>`.
pub(super) type Erased = Arc<dyn Any + Send + Sync>;

type MakeErased = dyn Fn(&Scope<'_>) -> Result<Erased, BoxError> + Send + Sync;
type CloseErased = dyn Fn(&Erased) -> Result<(), BoxError> + Send + Sync;
type SnapshotsOfErased = dyn Fn(&Erased) -> Option<Arc<dyn Snapshot>> + Send + Sync;

/// A type-erased binding.
pub(super) struct ErasedBinding {
    pub(super) name: &'static str,
    pub(super) lifetime: Lifetime,
    pub(super) make: Box<MakeErased>,
    pub(super) close: Option<Box<CloseErased>>,
    pub(super) snapshots: Option<Box<SnapshotsOfErased>>,
    has_views: bool,
}

impl ErasedBinding {
    /// Returns whether only one turn at a time may use it.
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

    /// Creates the resources. Each instance is created on first use.
    ///
    /// # Errors
    /// [`ResourceError::Duplicate`] if a type is bound twice.
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
