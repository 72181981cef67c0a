//! Imports and exports the recordings of other tools.
//!
//! A reader turns the files of a tool into conversations with their branches; the engine stores
//! them as commits that contain only recorded data, so that importing again changes nothing. Data
//! that a file lacks is reported, never made up.
#![forbid(unsafe_code)]

mod ai_sdk;
mod aider;
mod atif;
mod cache;
mod callers;
mod chatgpt;
mod claude_ai;
mod claude_code;
mod codex;
mod copilot_cli;
#[cfg(feature = "databases")]
mod cursor;
mod damage;
mod dataset;
mod detect;
mod document;
mod error;
mod export;
mod facts;
mod gemini_cli;
mod goose;
mod import;
#[cfg(feature = "inspect")]
mod inspect;
mod items;
mod langchain;
#[cfg(any(feature = "databases", feature = "langgraph-postgres"))]
mod langgraph;
mod line_reader;
mod lines;
mod listing;
mod mini_swe_agent;
mod misfits;
mod nodes;
mod object;
mod open_hands;
#[cfg(feature = "databases")]
mod openai_agents;
mod opencode;
mod pydantic_ai;
#[cfg(feature = "python")]
pub mod python;
mod qwen_code;
mod readers;
mod recording;
mod redact;
mod report;
mod responses;
mod source;
#[cfg(any(feature = "databases", feature = "python"))]
mod sqlite;
mod swe_agent;
mod tree;
mod usage;
mod values;
mod vscode_chat;
mod writer;

pub use crate::cache::ImportCache;
pub use crate::damage::{records_of_line, reject_other_encodings};
pub use crate::detect::{FileKind, UnknownFile, detect, recognize};
pub use crate::error::{Error, Result};
pub use crate::export::{ExportedSession, SessionFormat, UnknownFormat, export_session};
pub use crate::import::{RecordingOptions, import, import_cached};
pub use crate::items::{FrameworkItem, ItemFormat, read_item};
pub use crate::listing::session_files;
pub use crate::readers::{Source, UnknownSource};
pub use crate::redact::{redact_draft, redact_tool};
pub use crate::report::{
    Anomalies, AnomalyKind, RecordedBranch, RecordingAnomaly, SessionReport, TokenTotals,
};
pub use crate::source::{SessionFile, SessionFilter};
pub use crate::tree::BranchStart;
pub use crate::usage::{
    AnswerUsage, UsageCost, branch_usage, cost_of_cache_miss, cost_of_usage, usage,
};
