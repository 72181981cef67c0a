//! Tools, from their definition to the answers of their calls.
//!
//! A [`Registry`] contains definitions and the code that runs them; [typed] tools are written as
//! functions, as structs, or by hand. [`hydrate()`] turns each call of a reply into a [`Hydrated`]:
//! ready to run, or refused with the stage, the place and the reason. It runs nothing, so policies
//! and people can decide first. [`dispatch`] runs the calls, each as a transaction, and answers
//! every one. [`select`] finds the few tools of thousands that fit a request, and [`pin`] binds a
//! tool to its approved definition.
#![forbid(unsafe_code)]

mod blocking;
pub mod budget;
mod cancel;
mod compiled;
pub mod dispatch;
pub mod event;
pub mod example;
pub mod fs;
pub mod hydrate;
/// Re-exports `schemars`, with a derive that finds `schemars` through this crate. The explicit name
/// shadows that of the glob in the macro namespace only, so the trait remains visible.
mod json_schema {
    pub use schemars::*;
    pub use tract_macros::JsonSchema;
}
mod panics;
pub mod pin;
pub mod planning;
pub mod policy;
pub mod prompt;
mod queue;
pub mod registry;
pub mod resource;
pub mod select;
pub mod session;
pub mod snapshot;
mod strict;
pub mod typed;

pub use async_trait::async_trait;
pub use tract_core::{
    DynTool, NoParams, RenderedValue, Tool, ToolContext, ToolError, ToolParams, ToolResult,
    ToolSpec, ToolTraits,
};

pub use crate::blocking::blocking;
pub use crate::dispatch::{CallContext, Dispatcher, Turn};
pub use crate::event::{Event, EventType};
pub use crate::example::{Example, ToolExample};
pub use crate::hydrate::{
    Call, HydrateOptions, Hydrated, IntoCalls, Invocation, Provenance, Repair, RepairRequest,
    Stage, StageError, hydrate, hydrate_repairing, hydrate_with, sent_in,
};
pub use crate::json_schema::JsonSchema;
pub use crate::planning::{Plan, Planning, Strategy};
pub use crate::policy::{Decision, Policy, PolicyRequest};
pub use crate::prompt::{Bindings, Prompt, RenderedPrompt, Section};
pub use crate::registry::{
    Lookup, NoSchema, RegisterError, Registered, Registry, RegistryBuilder, RegistryError,
};
pub use crate::session::{Session, SessionError, SessionItem, SliceOp};
pub use crate::typed::{Args, Instance, ToolInstance, tool, tool_type};
