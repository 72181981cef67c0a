//! Version control for the context of LLM agents.
//!
//! Every message, tool definition, call and result is an immutable commit, identified by its hash.
//! Branch the history, edit, summarize, revert and verify it, and compile it into the exact request
//! that a provider accepts, with the tools active at that point.
//!
#![cfg_attr(feature = "engine", doc = include_str!("docs.md"))]
//!
//! # Features
//! - Stores: `sqlite` (default), `redb`, `postgres` and `postgres-tls`, `sled` (experimental);
//!   `memory:` is always there. [`store::open`] takes a URL.
//! - Layers: `compile` (the `compile` module), `hooks` (the `hooks` module), `engine` (default;
//!   needs both: `Tract`, `OpenOptions`, imports and the forms of the providers), `tools` (the
//!   `tools` module: `#[tool]` and `#[tool_type]`, registries, hydration with a validator,
//!   selection), `import` (readers for recordings of other tools, in the `import` module), `run`
//!   (the `run` module: agents), `mcp` (the `mcp` module: tools of MCP servers), `serve` (the
//!   `serve` module: recorded conversations as an MCP server), `view` (the `view` module: recorded
//!   conversations as pages), `record` (the `recording` module: a recording proxy), `http` (the
//!   `models` module: clients for models; both need a tokio runtime).
//! - `full`: all of them.
//!
//! A method of [`Tract`] whose feature is off does not compile, and the error names the feature.
#![forbid(unsafe_code)]

#[cfg(feature = "engine")]
mod branches;
#[cfg(feature = "engine")]
mod chat;
#[cfg(feature = "engine")]
mod context;
#[cfg(feature = "engine")]
mod drafts;
mod error;
#[cfg(feature = "engine")]
mod handle;
#[cfg(feature = "engine")]
mod history;
#[cfg(feature = "engine")]
pub mod import;
#[cfg(all(feature = "engine", not(all(feature = "run", feature = "tools"))))]
mod missing;
#[cfg(feature = "engine")]
mod open;
mod password;
#[cfg(feature = "engine")]
mod pending;
#[cfg(all(feature = "engine", feature = "tools"))]
mod pins;
#[cfg(feature = "engine")]
pub mod prelude;
#[cfg(feature = "engine")]
mod rebase;
#[cfg(feature = "engine")]
mod record;
#[cfg(feature = "engine")]
mod remotes;
#[cfg(feature = "engine")]
mod revision;
#[cfg(feature = "run")]
mod runs;
#[cfg(feature = "engine")]
mod search;
#[cfg(feature = "engine")]
mod sessions;
pub mod store;
#[cfg(feature = "engine")]
mod tools_of;
#[cfg(feature = "engine")]
mod turns;

pub use crate::error::{Error, Result};
#[cfg(all(feature = "engine", feature = "tools"))]
pub use crate::pins::ToolPins;
#[cfg(feature = "engine")]
pub use crate::{
    branches::{Branches, Tags},
    drafts::IntoDraft,
    handle::Tract,
    open::{OpenOptions, open},
    pending::PendingApprovals,
    remotes::Remotes,
    revision::Revision,
    tools_of::ToolsOf,
    turns::ToolTurns,
};
pub use tract_core::{
    Artifact, AuthorKind, Blob, Body, CancellationToken, ChatModel, Commit, CommitId, CommitRecord,
    Content, Draft, JsonText, Kind, Limits, Message, ModelError, Op, Origin, Part, Priority,
    RefName, RefTarget, Reply, ReplyDelta, RepoName, RequestMap, RequestTool, Role, StopReason,
    Store, ToolAnswer, ToolCall, ToolId, ToolSchema, block_on, time,
};

/// Everything in `tract-core` (objects, the store interfaces, ports), and stores over key-value
/// engines, including the in-memory one (`tract-kv`).
pub mod core {
    pub use tract_core::*;
    pub use tract_kv as kv;
    pub use tract_kv::{MemoryStore, memory};
}

#[cfg(feature = "compile")]
pub use tract_compile as compile;
#[cfg(feature = "compile")]
pub use tract_compile::Compiled;
#[cfg(feature = "hooks")]
pub use tract_hooks as hooks;

/// The engine behind the handles: functions over a [`Repo`](tract_engine::Repo).
#[cfg(feature = "engine")]
pub mod engine {
    pub use tract_engine::plan::{
        ConflictKind, Details, MergeConflict, NewContent, OpenCall, Request, Resolution,
        ResolutionKind, ResolvableConflict, Selection,
    };
    pub use tract_engine::*;
}

/// The forms of providers: compiles a context to a request, and reads a reply.
#[cfg(feature = "engine")]
pub mod forms {
    pub use tract_providers::{
        Api, Dialect, Form, FormError, FormOptions, Miss, Params, PrefixHash, PrefixSource,
        ReplyError, RequestForms, api_of, compile_form, compile_recorded, read_reply, why_miss,
    };
}

/// Costs of tokens, from tables of list prices.
#[cfg(feature = "engine")]
pub mod prices {
    pub use tract_providers::{PriceBasis, PriceError, PriceTable, TokenAmounts};
}

/// Clients for models of all providers, and for servers with the same APIs.
#[cfg(feature = "http")]
pub mod models {
    pub use tract_providers::http::{ApiKey, HttpModel, HttpModelBuilder, Retry, RetryPolicy};
}

/// Tool schemas as data: shapes, names, translation between providers, comparison.
#[cfg(any(feature = "engine", feature = "tools"))]
pub use tract_schema as schema;

#[cfg(feature = "tools")]
pub use tract_core::{Tool, ToolContext, ToolError, ToolResult};
/// Tools: typed ones from functions and structs, registries, and validation of a model's calls.
#[cfg(feature = "tools")]
pub use tract_tools as tools;
#[cfg(feature = "tools")]
pub use tract_tools::{JsonSchema, tool, tool_type};

#[cfg(feature = "engine")]
pub use tract_core::IntoSchema;
#[cfg(feature = "engine")]
pub use tract_engine::{ChatOptions, ChatReply};
#[cfg(feature = "engine")]
pub use tract_providers::{Params, RequestForms};

/// Agents that run on a branch, stop, continue, and can be replayed.
#[cfg(feature = "run")]
pub use tract_run as run;

/// The tools of MCP servers.
#[cfg(feature = "mcp")]
pub use tract_mcp as mcp;

/// Recorded conversations as pages: a local web viewer, and one HTML file.
#[cfg(feature = "view")]
pub use tract_view as view;

/// A recording proxy: traffic between agents and models as branches.
#[cfg(feature = "record")]
pub use tract_record as recording;

/// Recorded conversations as an MCP server.
#[cfg(feature = "serve")]
pub use tract_serve as serve;
