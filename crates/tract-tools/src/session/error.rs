//! Errors of sessions.

/// An error of a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Two types have the same name.
    #[error("expected one type for the slice {name:?}, found two: give each a NAME of its own")]
    NameTaken {
        /// The name.
        name: &'static str,
    },
    /// Stored items or a tool's value do not have the type of the slice.
    #[error("expected items of the slice {name:?}, found something else: {source}")]
    Shape {
        /// The slice.
        name: String,
        /// The reader's error.
        source: serde_json::Error,
    },
    /// Another turn works on the session, and did not finish while this one waited.
    #[error("{by} is working on this session")]
    Held {
        /// The other turn.
        by: String,
    },
    /// An item cannot be written as JSON.
    #[error("an item of the slice {name:?} has no JSON form: {source}")]
    NoJson {
        /// The slice.
        name: String,
        /// The serializer's error.
        source: serde_json::Error,
    },
}

impl SessionError {
    /// Returns the stable code of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NameTaken { .. } => "name_taken",
            Self::Shape { .. } => "shape",
            Self::Held { .. } => "held",
            Self::NoJson { .. } => "invalid_json",
        }
    }
}

impl From<SessionError> for tract_core::ToolError {
    fn from(error: SessionError) -> Self {
        Self::other("the session could not take up what the tool said").caused_by(error)
    }
}
