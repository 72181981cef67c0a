//! Errors of tools that cannot be registered.

use tract_schema::{DefinitionError, SchemaError};

/// An error of a tool that cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// It is not a definition.
    #[error("definition {place}: {source}")]
    Definition {
        /// Its position among the given ones, from 1.
        place: usize,
        /// The error.
        source: DefinitionError,
    },
    /// Two tools have the same name.
    #[error("the name {name:?} is given to {count} tools, expected one")]
    DuplicateName {
        /// The name.
        name: String,
        /// Number of tools that have it.
        count: usize,
    },
    /// Two tools have the same id.
    #[error("the id {id:?} is given to {count} tools, expected one")]
    DuplicateId {
        /// The id.
        id: String,
        /// Number of tools that have it.
        count: usize,
    },
    /// The schema of a tool is missing, and no mode was set for that.
    #[error("tool {name:?}: expected a schema of its arguments, found none")]
    NoSchema {
        /// The tool's name.
        name: String,
    },
    /// Some provider rejects the name.
    #[error("tool {name:?}: expected a name of 1 to 64 letters, digits, _ and -")]
    Name {
        /// The name.
        name: String,
        /// A name that all providers accept.
        suggestion: String,
    },
    /// The tool violates the strict profile, which is enabled.
    #[error("tool {name:?}: {why}")]
    Strict {
        /// The tool's name.
        name: String,
        /// The expected and the actual content.
        why: String,
    },
    /// The schema cannot be compiled.
    #[error("tool {name:?}: {source}")]
    Schema {
        /// The tool's name.
        name: String,
        /// The error.
        source: SchemaError,
    },
}

impl RegisterError {
    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Definition { source, .. } => source.code(),
            Self::DuplicateName { .. } => "duplicate_name",
            Self::DuplicateId { .. } => "duplicate_id",
            Self::NoSchema { .. } => "no_schema",
            Self::Name { .. } => "bad_name",
            Self::Strict { .. } => "not_strict",
            Self::Schema { .. } => "bad_schema",
        }
    }

    /// Returns hints for fixing it.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::Definition { source, .. } => source.notes(),
            Self::DuplicateName { .. } => {
                vec!["rename one, or build with `.shared_names()` and call by id".to_owned()]
            }
            Self::DuplicateId { .. } => vec!["give each tool an id of its own".to_owned()],
            Self::NoSchema { .. } => vec![
                "write \"parameters\":{\"type\":\"object\"} for a tool without arguments, or say \
                 what may be done without one: `.no_schema(mode)`"
                    .to_owned(),
            ],
            Self::Name { suggestion, .. } => vec![format!("{suggestion:?} would do")],
            Self::Strict { .. } => vec![
                "change the tool, or build without `.strict()`: providers accept more".to_owned(),
            ],
            Self::Schema { source, .. } => source.notes(),
        }
    }
}

/// All errors in the tools of a registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct RegistryError(pub Vec<RegisterError>);

impl RegistryError {
    /// Returns hints for fixing the errors, without duplicates.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.0.iter().flat_map(RegisterError::notes).collect();
        let mut seen = std::collections::HashSet::new();
        notes.retain(|note| seen.insert(note.clone()));
        notes
    }
}
