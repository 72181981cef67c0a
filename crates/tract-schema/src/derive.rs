//! Converts the schema that a library derives from a Rust type into the one that is advertised.
//!
//! A derived schema contains more than a model needs (titles, non-standard formats) and less than
//! deserialization requires (nested objects are open, integers have no bounds). The normal form
//! describes exactly what is accepted: objects are closed at every level, every integer has the
//! bounds of its type (64-bit bounds are enforced but not advertised), alternatives are an `anyOf`,
//! and documented enums are an `enum` with the texts in the description. The conversion is a pure
//! function of the JSON text, and its output is stable byte for byte.
//!
//! ```
//! use tract_schema::derive::Derived;
//! let derived = Derived::new(
//!     r#"{"title":"City","type":"object","properties":{"days":{"type":"integer","format":"uint8","minimum":0,"maximum":255}},"required":["days"]}"#,
//! )?;
//! assert_eq!(
//!     derived.text(),
//!     r#"{"type":"object","properties":{"days":{"type":"integer","minimum":0,"maximum":255}},"required":["days"],"additionalProperties":false}"#
//! );
//! let mut arguments = serde_json::json!({"days": 300, "dys": 1});
//! let faults = derived.admit(&mut arguments).unwrap_err();
//! assert_eq!(faults[0].to_string(), "days: expected at most 255, found 300");
//! assert_eq!(faults[1].to_string(), "expected one of `days`, found `dys`; did you mean `days`?");
//! # Ok::<(), tract_schema::derive::DeriveError>(())
//! ```

mod admit;
mod alternatives;
mod definitions;
mod normal;
mod values;

use tract_core::json::JsonError;

pub use self::admit::Mismatch;
pub(crate) use self::values::has_type;
#[cfg(feature = "validate")]
pub(crate) use self::values::{article, unique};
use crate::tree::Node;

/// The error of a derived schema that cannot be advertised.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeriveError {
    /// The text is not JSON.
    #[error("the derived schema is not JSON")]
    Json(#[from] JsonError),
    /// The root is not the schema of an object, which the arguments of a tool always are.
    #[error("expected the schema of an object, found {found}")]
    NoObject {
        /// A short description of the schema found.
        found: String,
    },
    /// A reference points outside of the schema.
    #[error("expected a reference into the schema's own `$defs`, found {reference:?}")]
    Reference {
        /// The reference.
        reference: String,
    },
    /// There are too many alternatives for a model to use; flattened enums multiply them.
    #[error("expected at most {most} alternatives of one object, found more")]
    Alternatives {
        /// The limit.
        most: usize,
    },
    /// The schema is nested too deeply.
    #[error("expected at most {most} levels, found more")]
    Depth {
        /// The limit.
        most: usize,
    },
}

impl DeriveError {
    /// Returns a hint on how to fix the error.
    pub fn note(&self) -> &'static str {
        match self {
            Self::Json(_) => "derive the schema, or write it as JSON text",
            Self::NoObject { .. } => "arguments are a struct with named fields",
            Self::Reference { .. } => "name the type in the struct, or inline its schema",
            Self::Alternatives { .. } => "flatten fewer enums into one struct",
            Self::Depth { .. } => "nest fewer types without names",
        }
    }
}

/// A schema in normal form, which can validate arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    text: String,
    root: Node,
}

impl Derived {
    /// Converts a derived schema into normal form.
    ///
    /// # Behavior
    /// - `title`, `$schema` and non-standard formats are removed. A format such as `uint32` is
    ///   replaced by its bounds. 64-bit bounds are enforced but not advertised: JSON does not
    ///   represent such numbers exactly, and some providers reject schemas with them.
    /// - Every object with named properties is closed; maps stay open.
    /// - `oneOf` becomes `anyOf`, which matches the parser of an enum: the first variant that fits.
    /// - An enum of constants with texts becomes `enum`, with the texts in the description.
    /// - Flattened parts, and members next to a reference, are merged into closed alternatives.
    /// - Definitions of scalars are inlined. Of the others, the used ones stay under `$defs`,
    ///   sorted by name.
    /// - Members are written in a fixed order, regardless of the input's order; properties keep
    ///   theirs.
    ///
    /// # Errors
    /// [`DeriveError`] if the text is not JSON, not the schema of an object, or has external
    /// references.
    pub fn new(schema: &str) -> Result<Self, DeriveError> {
        let root = normal::normalize(Node::parse(schema)?)?;
        let mut advertised = root.clone();
        normal::advertise(&mut advertised);
        Ok(Self { text: advertised.write(), root })
    }

    /// Returns the schema as JSON text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Validates arguments. Also rewrites integers written with a fraction (`3.0`) where the schema
    /// requires an integer: JSON Schema accepts them, but parsers do not.
    ///
    /// `pattern` and `format` are not checked; use a full validator for these.
    ///
    /// # Complexity
    /// Each part of the arguments is checked against each part of the schema at most twice, no
    /// matter how deeply alternatives are nested.
    ///
    /// # Errors
    /// All mismatches, in the order of the arguments, up to 16.
    pub fn admit(&self, arguments: &mut serde_json::Value) -> Result<(), Vec<Mismatch>> {
        admit::admit(&self.root, arguments)
    }
}

#[cfg(test)]
mod tests;
