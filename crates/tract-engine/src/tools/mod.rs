//! Tools of a history: in force at a revision, by name, and between two revisions.

mod diff;

pub use self::diff::{SchemaDiff, ToolChange, ToolDiff, no_schema_diff, tool_diff};
