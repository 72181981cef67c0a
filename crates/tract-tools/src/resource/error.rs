//! Errors of resources.

use tract_core::ToolError;

use crate::snapshot::BoxError;

/// The error of a resource that is not available, or could not be closed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// The type is not bound.
    #[error("expected a resource of type {name}, found none bound")]
    Unbound {
        /// The type.
        name: &'static str,
    },
    /// Two providers are bound to the same type.
    #[error("expected one binding of {name}, found two")]
    Duplicate {
        /// The type.
        name: &'static str,
    },
    /// A resource depends on itself.
    #[error("resources need each other: {}", path.join(" → "))]
    Cycle {
        /// The types, from the first one back to itself.
        path: Vec<&'static str>,
    },
    /// A resource that outlives calls depends on one that does not.
    #[error("{outer} outlives calls and needs {name}, which is created for each call")]
    Captive {
        /// The one that outlives calls.
        outer: &'static str,
        /// The one that is created for each call.
        name: &'static str,
    },
    /// A resource that is created for each call was requested outside of a call.
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
        /// The provider's error.
        source: BoxError,
    },
    /// A provider used the resources rather than its scope.
    #[error("a provider used {name} outside of its scope")]
    Reentrant {
        /// The type.
        name: &'static str,
    },
    /// They were closed.
    #[error("expected open resources, found them closed")]
    Closed,
    /// An instance could not be closed.
    #[error("{name} could not be closed: {source}")]
    Close {
        /// The type.
        name: &'static str,
        /// The error of closing.
        source: BoxError,
    },
}

impl ResourceError {
    /// Returns the stable code of the variant.
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

    /// Returns hints for fixing it.
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
