//! Tools, from their definition to a call that is ready to run.
//!
//! A [`Registry`] contains definitions and their callables; [typed] tools come from functions,
//! structs and by hand. [`hydrate()`] makes of each call of a reply one [`Hydrated`]: ready to run,
//! or refused with the stage, the place and the reason. Nothing has run then, so that policies and
//! people can decide in between. [`dispatch`] runs what may run, each call a transaction, and
//! answers every one. [`select`] finds the few of thousands that fit a request, [`pin`] binds a
//! tool to the definition that was approved.
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
/// The trait of `schemars`, with a derive that finds `schemars` in this crate. A name that is given
/// here hides that of the glob, in its own namespace alone.
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
