//! Why a resource is not available.

use tract_core::ToolError;

use crate::snapshot::BoxError;

/// Why a resource is not available, or could not be closed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// Nothing is bound to the type.
    #[error("expected a resource of type {name}, found none bound")]
    Unbound {
        /// The type.
        name: &'static str,
    },
    /// Two providers are bound to one type.
    #[error("expected one binding of {name}, found two")]
    Duplicate {
        /// The type.
        name: &'static str,
    },
    /// A resource needs itself.
    #[error("resources need each other: {}", path.join(" → "))]
    Cycle {
        /// The types, from the first to itself again.
        path: Vec<&'static str>,
    },
    /// A resource that outlives calls needs one that does not.
    #[error("{outer} outlives calls and needs {name}, which is created for each call")]
    Captive {
        /// The one that outlives calls.
        outer: &'static str,
        /// The one made for each call.
        name: &'static str,
    },
    /// A resource that is made for each call was asked for outside of one.
    #[error("{name} is created for each call, and no call is running")]
    NoCall {
        /// The type.
        name: &'static str,
    },
    /// Its provider failed.
    #[error("the provider of {name} failed: {source}")]
    Provider {
        /// The type.
        name: &'static str,
        /// Why.
        source: BoxError,
    },
    /// A provider asked the resources rather than the scope that it was given.
    #[error("a provider used {name} outside of its scope")]
    Reentrant {
        /// The type.
        name: &'static str,
    },
    /// They were closed.
    #[error("expected open resources, found them closed")]
    Closed,
    /// It could not be closed.
    #[error("{name} could not be closed: {source}")]
    Close {
        /// The type.
        name: &'static str,
        /// Why.
        source: BoxError,
    },
}

impl ResourceError {
    /// Returns the stable word for the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unbound { .. } => "resource_unbound",
            Self::Duplicate { .. } => "resource_duplicate",
            Self::Cycle { .. } => "resource_cycle",
            Self::Captive { .. } => "resource_captive",
            Self::NoCall { .. } => "resource_no_call",
            Self::Provider { .. } => "resource_provider",
            Self::Reentrant { .. } => "resource_reentrant",
            Self::Closed => "resource_closed",
            Self::Close { .. } => "resource_close",
        }
    }

    /// Returns the ways out.
    pub fn notes(&self) -> Vec<String> {
        let note = match self {
            Self::Unbound { .. } => "bind it when the resources are built",
            Self::Duplicate { .. } => "bind it once, or wrap one of the two in a type of its own",
            Self::Cycle { .. } => "let one of them get the other when it is used",
            Self::Captive { .. } => "make the outer one for each call too",
            Self::NoCall { .. } => "ask for it through the context of a call",
            Self::Reentrant { .. } => "ask the scope: `scope.get::<T>()`",
            Self::Provider { .. } | Self::Closed | Self::Close { .. } => return Vec::new(),
        };
        vec![note.to_owned()]
    }
}

impl From<ResourceError> for ToolError {
    fn from(error: ResourceError) -> Self {
        Self::other("the tool cannot run here: something that it needs is not available")
            .operator(error.to_string())
            .caused_by(error)
    }
}
