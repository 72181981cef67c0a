//! Tool schemas as data: detects a schema's provider shape, reads it, translates it for other
//! providers, and compares two of them.
//!
//! A schema as given is authoritative and never changed. Everything here reads its text and creates
//! copies, with every number and every key of the parameters preserved.
//!
//! ```
//! use tract_schema::{Dialect, Lowered, Shape, ToolView, lower};
//! let given = r#"{"name":"add","description":"Adds.","input_schema":{"type":"object"}}"#;
//! assert_eq!(ToolView::parse(given)?.shape, Shape::Anthropic);
//! let Lowered::Tool { text, .. } = lower(given, Dialect::OpenAi)? else { unreachable!() };
//! assert_eq!(
//!     text,
//!     r#"{"type":"function","function":{"name":"add","description":"Adds.","parameters":{"type":"object","properties":{}},"strict":false}}"#
//! );
//! # Ok::<(), tract_core::json::JsonError>(())
//! ```
#![forbid(unsafe_code)]

mod accepted;
mod allowance;
mod closed;
mod definition;
pub mod derive;
mod dialect;
mod diff;
mod google;
pub mod limits;
mod lint;
mod loss;
mod lower;
mod name;
mod param;
mod raise;
mod raw;
mod shape;
mod strict;
mod translate;
mod tree;
mod validate;

pub use crate::allowance::{StrictAllowance, StrictCost};
pub use crate::closed::{ClosedSchema, closed};
pub use crate::definition::kind as kind_of;
pub use crate::definition::{Definition, DefinitionError, DefinitionErrorKind, ParametersForm};
pub use crate::dialect::Dialect;
pub use crate::diff::{Change, ChangeKind, diff, diff_lines};
pub use crate::limits::{LimitError, SchemaLimits, SchemaMeasure, measure};
pub use crate::lint::{Finding, Level, LintOptions, lint, lint_definition, lint_with};
pub use crate::loss::{Loss, LossKind};
pub use crate::lower::{
    Lowered, is_accepted_as_recorded, lower, lower_as, lower_recorded_as, with_required_members,
};
pub use crate::name::{Aliases, MAX_NAME, accepts, alias, suggestion};
pub use crate::param::{Param, ParamKind, params};
pub use crate::raise::{RaisedArguments, raise};
pub use crate::raw::RawJson;
pub use crate::shape::{Shape, ToolView};
pub use crate::strict::{Strict, to_strict};
pub use crate::translate::{
    Target, Translation, strict_violation, translate, translate_as, translate_within,
};
#[cfg(feature = "validate")]
pub use crate::validate::JsonSchema;
pub use crate::validate::{Invalid, SchemaCompiler, SchemaError, ValidateOptions, Validator};
