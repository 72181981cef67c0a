//! The imports that most programs need: `use tract::prelude::*;`.

pub use crate::{
    Commit, CommitId, Compiled, Draft, Params, Priority, RequestForms, Revision, Tract,
};
#[cfg(feature = "tools")]
pub use crate::{JsonSchema, Tool, ToolContext, ToolError, ToolResult};
