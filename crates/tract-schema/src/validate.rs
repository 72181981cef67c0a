//! The port through which arguments are held against a schema, and what it says when they do not
//! fit.

#[cfg(feature = "validate")]
mod describe;
#[cfg(feature = "validate")]
mod engine;
#[cfg(feature = "validate")]
mod meter;
#[cfg(feature = "validate")]
mod pattern;

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

#[cfg(feature = "validate")]
pub use self::engine::JsonSchema;
use crate::limits::{LimitError, SchemaLimits};

/// How schemas are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValidateOptions {
    /// Whether `format` is asserted, or only an annotation, as Draft 2020-12 has it.
    pub formats: bool,
    /// What a schema may cost.
    pub limits: SchemaLimits,
}

impl ValidateOptions {
    /// Asserts formats.
    #[must_use]
    pub fn formats(mut self) -> Self {
        self.formats = true;
        self
    }

    /// Sets what a schema may cost.
    #[must_use]
    pub fn limits(mut self, limits: SchemaLimits) -> Self {
        self.limits = limits;
        self
    }
}

/// Makes validators: the port. [`JsonSchema`](crate::JsonSchema) is the one that comes with the
/// feature `validate`.
pub trait SchemaCompiler: Send + Sync {
    /// Returns the name that provenance records.
    fn name(&self) -> &str;

    /// Returns the version that provenance records.
    fn version(&self) -> &str;

    /// Makes a validator of a schema's text.
    ///
    /// # Behavior
    /// - A schema without `$schema`, or with an unknown one, is Draft 2020-12.
    /// - Nothing outside of the text is read.
    ///
    /// # Errors
    /// [`SchemaError`] when it is not a schema, or one that must not be run.
    fn compile(
        &self,
        schema: &str,
        options: &ValidateOptions,
    ) -> Result<Arc<dyn Validator>, SchemaError>;
}

/// Holds arguments against one schema.
pub trait Validator: Send + Sync {
    /// Checks a value.
    ///
    /// # Behavior
    /// - The work is bounded, for any schema and value: a value that costs more to check than
    ///   [`SchemaLimits::steps`] or takes longer than [`SchemaLimits::time`] is refused, with the
    ///   keyword `work` or `deadline`.
    ///
    /// # Errors
    /// All that is wrong, in the order of the schema; a few of them where there are very many, each
    /// in a few words. An empty list refuses the value as well.
    fn validate(&self, value: &Value) -> Result<(), Vec<Invalid>>;

    /// Checks a value as [`validate`](Self::validate) does, and counts the steps that it took, reads after
    /// it was stopped included. 0 where a validator does not count, which is the default.
    fn validate_counting(&self, value: &Value) -> (Result<(), Vec<Invalid>>, u64) {
        (self.validate(value), 0)
    }

    /// Returns what was put right to read the schema, such as an unknown `$schema`.
    fn notes(&self) -> &[String] {
        &[]
    }
}

/// Why there is no validator for a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// It is no JSON.
    #[error("the schema is not JSON: {message}")]
    Json {
        /// What was expected, and where.
        message: String,
    },
    /// It is not a schema, or one that the validator cannot run.
    #[error("{path}: {message}")]
    Schema {
        /// Where, from the schema's root `/`.
        path: String,
        /// What is wrong.
        message: String,
    },
    /// It is refused before it is run.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

impl SchemaError {
    /// Returns the way out.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::Json { .. } => Vec::new(),
            Self::Schema { message, .. } if message.contains("regex") => {
                vec!["patterns have no look-around and no back-references here".to_owned()]
            }
            Self::Schema { .. } => vec!["tract tools lint FILE shows what is wrong".to_owned()],
            Self::Limit(error) => error.notes(),
        }
    }
}

/// One way in which a value does not fit its schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Invalid {
    /// The schema's keyword that does not hold, such as `type`.
    pub keyword: String,
    /// Where in the value, from its root `/`: `/edits/0/line`.
    pub path: String,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
    /// The JSON types that would do, where the type is what is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<&'static str>,
    /// What was probably meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

impl Invalid {
    /// States one.
    pub fn new(
        keyword: impl Into<String>,
        path: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let (keyword, path) = (keyword.into(), path.into());
        let (expected, found) = (expected.into(), found.into());
        Self { keyword, path, expected, found, types: Vec::new(), nearest: None }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found {}", self.expected, self.found)?;
        match &self.nearest {
            Some(nearest) => write!(f, "; did you mean {nearest:?}?"),
            None => Ok(()),
        }
    }
}
