//! Tools of a history: in force at a revision, by name, and between two revisions.

mod diff;
mod own;
mod query;

pub use self::diff::{SchemaDiff, ToolChange, ToolDiff, no_schema_diff, tool_diff};
