//! Planners and the write path: git's verbs over contexts.
#![forbid(unsafe_code)]

pub mod graph;
mod diff;
mod tools;

pub use crate::diff::{ConfigChange, Diff, MessageChange, diff, plain};
pub use crate::tools::{SchemaDiff, ToolChange, ToolDiff, no_schema_diff, tool_diff};
