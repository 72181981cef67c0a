//! From the schema that a library derives of a Rust type to the one that is advertised.
//!
//! A derived schema says more than a model needs (titles, formats that no standard knows) and
//! less than deserializing insists on (nested objects stay open, integers have no bounds). The
//! normal form says what is parsed: closed at every level, every integer with the bounds of its
//! type (those of 64 bits are judged and not said), alternatives as `anyOf`, documented enums as `enum` with the texts in the description.
//! It is pure over JSON text, and stable byte for byte.
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

/// Why a derived schema cannot be advertised.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeriveError {
    /// The text is no JSON.
    #[error("the derived schema is not JSON")]
    Json(#[from] JsonError),
    /// The arguments of a tool are always an object.
    #[error("expected the schema of an object, found {found}")]
    NoObject {
        /// What was found, in a few words.
        found: String,
    },
    /// A reference leads nowhere within the schema.
    #[error("expected a reference into the schema's own `$defs`, found {reference:?}")]
    Reference {
        /// The reference.
        reference: String,
    },
    /// Flattened enums multiply; there are more alternatives than a model can use.
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
    /// Returns the way out.
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

/// A schema in normal form, with the means to judge arguments by it.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    text: String,
    root: Node,
}

impl Derived {
    /// Brings a derived schema into normal form.
    ///
    /// # Behavior
    /// - `title`, `$schema` and formats that no standard knows go; the bounds that a format such
    ///   as `uint32` implies replace it. Those of 64 bits are judged and not said: JSON
    ///   does not carry such numbers exactly, and some providers refuse schemas with them.
    /// - Every object with named properties is closed; maps stay open.
    /// - `oneOf` becomes `anyOf`, which is what an enum's parser does: the first that fits.
    /// - An enum of constants with texts becomes `enum`, its texts part of the description.
    /// - What is flattened, or is next to a reference, is merged into closed alternatives.
    /// - Definitions without parts of their own are written where they are used; the others stay
    ///   under `$defs`, those that are used, by name.
    /// - Members are in one order, independent of the order they came in; properties keep theirs.
    ///
    /// # Errors
    /// [`DeriveError`] when the text is no JSON, no object's schema, or refers outside itself.
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

    /// Judges arguments, and rewrites integers spelled with a fraction (`3.0`) where the schema
    /// says integer, which JSON Schema takes for one and parsers do not.
    ///
    /// `pattern` and `format` are not judged here: that is for a full validator.
    ///
    /// # Complexity
    /// Each part of the arguments is held against each part of the schema at most twice, however
    /// deep alternatives nest.
    ///
    /// # Errors
    /// All that does not fit, in the order of the arguments, at most 16 entries.
    pub fn admit(&self, arguments: &mut serde_json::Value) -> Result<(), Vec<Mismatch>> {
        admit::admit(&self.root, arguments)
    }
}

#[cfg(test)]
mod tests;
