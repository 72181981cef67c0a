//! Tools: [typed] ones from functions, structs and by hand.
#![forbid(unsafe_code)]

pub mod typed;

pub use async_trait::async_trait;
pub use tract_core::{
    DynTool, NoParams, RenderedValue, Tool, ToolContext, ToolError, ToolParams, ToolResult,
    ToolSpec, ToolTraits,
};

pub use crate::typed::{Args, Instance, ToolInstance, tool, tool_type};
