//! Version control for the context of LLM agents.
//!
//! Every message, tool definition, call and result is an immutable commit, named by its hash.
//! Branch it, edit it, summarise it, take that back, verify it, and compile it into the exact
//! request that a provider accepts, with the tools that were active at that point.
//!
#![cfg_attr(feature = "engine", doc = include_str!("docs.md"))]
//!
//! # Features
//! - Stores: `sqlite` (default); `memory:` is always there. [`store::open`] takes a url.
//! - Layers: `compile` (the `compile` module), `hooks` (the `hooks` module), `engine` (default;
//!   needs both: `Tract`, `OpenOptions`, imports and the forms of the providers).
#![forbid(unsafe_code)]

mod error;
pub mod store;

pub use crate::error::{Error, Result};
pub use tract_core::{
    Artifact, Blob, Body, By, Commit, CommitId, CommitRecord, Content, Draft, JsonText, Kind,
    Limits, Message, Op, Origin, Part, Priority, RefName, RefTarget, RepoName, Role, Store,
    ToolAnswer, ToolCall, ToolId, ToolSchema, block_on, time,
};

/// Everything of `tract-core`: objects, the border for stores, ports.
pub use tract_core as core;

#[cfg(feature = "compile")]
pub use tract_compile as compile;
#[cfg(feature = "hooks")]
pub use tract_hooks as hooks;
