//! Typed tools: an async function, a struct, or an implementation of [`Tool`](tract_core::Tool).
//!
//! The attribute [`tool`] turns a function into a tool, whose parameters are the arguments, or a
//! struct, whose fields are the arguments and whose entry is `async fn run(self, ..)`.
//! [`tool_type`] derives the traits that types inside of arguments need. An implementation of
//! `Tool` uses [`Args`] as its parameters. In all three cases the tool accepts exactly what its
//! schema describes: the schema is derived once, converted to [normal form](tract_schema::derive),
//! and validates arguments before they are deserialized.

mod answer;
mod args;
mod closure;
mod instance;
mod return_type;

#[doc(inline)]
pub use tract_macros::{tool, tool_type};

pub(crate) use self::answer::{Answer, rendered};
pub use self::answer::{Failure, RenderableResult};
pub use self::args::{Args, derived, parse};
pub use self::closure::ClosureTool;
pub use self::instance::{Instance, ToolInstance};

/// Items that generated code refers to. They are not part of the public API.
#[doc(hidden)]
pub mod __private {
    pub use async_trait::async_trait;
    pub use schemars;
    pub use serde;
    pub use tract_core::{
        RenderedValue, Tool, ToolContext, ToolError, ToolResult, ToolSpec, ToolTraits,
    };

    pub use super::answer::{
        Fallible, FindRendering, IntoResult, RunReturn, ShownValue, ToolResultParts, failed,
        rendered,
    };
    pub use super::args::Args;
    pub use super::instance::{Entry, Instance, Run, ToolInstance, enter, returned};
    pub use super::return_type::FindSchema;
}
