//! Differences between a translation and the original.

use std::fmt;

use serde::Serialize;

/// The kind of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LossKind {
    /// It was left out: the target does not support it.
    LeftOut,
    /// It was written in another way.
    Changed,
    /// The target requires a member that was not given.
    Added,
    /// The target cannot express it.
    NotExpressible,
}

/// One difference between a translation and the original definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// The kind of loss.
    pub kind: LossKind,
    /// The location: a member of the definition, or a path in its schema.
    pub path: String,
    /// A description with the reason.
    pub message: String,
}

impl Loss {
    pub(crate) fn new(kind: LossKind, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, path: path.into(), message: message.into() }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.kind {
            LossKind::LeftOut => "left out",
            LossKind::Changed => "changed",
            LossKind::Added => "added",
            LossKind::NotExpressible => "not expressible",
        };
        write!(f, "{}: {word}: {}", self.path, self.message)
    }
}
