//! The interface for validating arguments against a schema, with errors that a model can act on.

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

/// Options for compiling a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValidateOptions {
    /// Whether `format` is checked. By default it is only an annotation, as in Draft 2020-12.
    pub formats: bool,
    /// The limits on the schema.
    pub limits: SchemaLimits,
}

/// Compiles schemas into validators. [`JsonSchema`](crate::JsonSchema) is the built-in
/// implementation, with the feature `validate`.
pub trait SchemaCompiler: Send + Sync {
    /// Returns the name, for provenance records.
    fn name(&self) -> &str;

    /// Returns the version, for provenance records.
    fn version(&self) -> &str;

    /// Compiles a schema, given as text.
    ///
    /// # Behavior
    /// - A schema without `$schema`, or with an unknown one, is Draft 2020-12.
    /// - Nothing outside of the text is read.
    ///
    /// # Errors
    /// [`SchemaError`] if the text is not a valid schema, or exceeds a limit.
    fn compile(
        &self,
        schema: &str,
        options: &ValidateOptions,
    ) -> Result<Arc<dyn Validator>, SchemaError>;
}

/// Validates arguments against one schema.
pub trait Validator: Send + Sync {
    /// Checks a value.
    ///
    /// # Behavior
    /// - The work is bounded for any schema and value: a value that takes more than
    ///   [`SchemaLimits::steps`] steps or [`SchemaLimits::time`] to check is rejected with the
    ///   keyword `work` or `deadline`.
    ///
    /// # Errors
    /// The errors, in the order of the schema; only some of them if there are many, each described
    /// in a few words. An empty list rejects the value as well.
    fn validate(&self, value: &Value) -> Result<(), Vec<Invalid>>;

    /// Checks a value as [`validate`](Self::validate) does, and returns the number of steps taken,
    /// including reads after it was stopped. The default implementation does not count and returns
    /// 0.
    fn validate_counting(&self, value: &Value) -> (Result<(), Vec<Invalid>>, u64) {
        (self.validate(value), 0)
    }

    /// Returns corrections made to read the schema, such as an unknown `$schema`.
    fn notes(&self) -> &[String] {
        &[]
    }
}

/// The error of a schema that cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// It is not JSON.
    #[error("the schema is not JSON: {message}")]
    Json {
        /// The expected input and the position.
        message: String,
    },
    /// It is not a valid schema, or the validator does not support it.
    #[error("{path}: {message}")]
    Schema {
        /// The path from the schema's root `/`.
        path: String,
        /// A description of the error.
        message: String,
    },
    /// It exceeds a limit and is not run.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

impl SchemaError {
    /// Returns hints on how to fix the error.
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

/// One violation of a schema by a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Invalid {
    /// The keyword that is violated, such as `type`.
    pub keyword: String,
    /// The path in the value, from its root `/`, such as `/edits/0/line`.
    pub path: String,
    /// A description of the expected value.
    pub expected: String,
    /// A description of the value found.
    pub found: String,
    /// The JSON types that are allowed, if the type is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<&'static str>,
    /// The name or value that was probably meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

impl Invalid {
    /// Creates a violation.
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
