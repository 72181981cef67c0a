//! Errors that report an object as missing, which others may have deleted.

use tract_compile::CompileError;
use tract_core::{ObjectId, StoreErrorKind};

use super::Error;

/// Returns the object that is missing or seems damaged: it was collected as garbage while it was
/// unreachable, or erased, here or elsewhere. `None` for errors of another kind.
pub(crate) fn gone(error: &Error) -> Option<ObjectId> {
    match error {
        Error::Store(error) | Error::Compile(CompileError::Store(error)) => match &error.kind {
            StoreErrorKind::Missing { object } | StoreErrorKind::Erased { object } => Some(*object),
            _ => None,
        },
        Error::Compile(
            CompileError::Missing { object, .. } | CompileError::MissingTool { object },
        )
        | Error::Missing(object)
        | Error::Damaged { object: Some(object), .. } => Some(*object),
        Error::Collected { object } => Some(*object),
        Error::Erased(erasure) => Some(ObjectId::Blob(erasure.blob)),
        _ => None,
    }
}

/// Returns whether an error reports a missing or damaged object.
pub(crate) fn is_gone(error: &Error) -> bool {
    gone(error).is_some()
}
