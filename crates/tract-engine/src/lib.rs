//! Planners and the write path: git's verbs over contexts.
#![forbid(unsafe_code)]

mod error;
pub mod graph;
mod diff;
pub mod plan;
mod repo;
mod tools;

pub use crate::diff::{ConfigChange, Diff, MessageChange, diff, plain};
pub use crate::tools::{SchemaDiff, ToolChange, ToolDiff, no_schema_diff, tool_diff};
pub use crate::error::{Error, Result};
pub use crate::plan::Refusal;
pub use crate::repo::{Repo, RepoOptions};
