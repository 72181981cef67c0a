//! From Rust to a tool: an async function, a struct, or [`Tool`](tract_core::Tool) by hand.
//!
//! The attribute [`tool`] makes a tool of a function (its parameters are the arguments) or of a
//! struct (its fields are, and `async fn run(self, ..)` is its entry); [`tool_type`] derives what a
//! type inside of arguments needs. A tool written by hand takes [`Args`] as its parameters. All
//! three advertise exactly what they parse: the schema is derived once, brought into [normal
//! form](tract_schema::derive), and arguments are judged by it before they are deserialized.

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
