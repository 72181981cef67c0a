//! Readers and writers of what other tools record.
//!
//! A reader turns the files of a tool into conversations with their branches; the engine stores
//! them as commits that contain nothing but what was recorded, so that importing again changes
//! nothing. What a file lacks is reported, never made up.
#![forbid(unsafe_code)]

mod ai_sdk;
mod atif;
mod cache;
mod callers;
mod claude_code;
mod codex;
mod detect;
mod document;
mod error;
mod export;
mod facts;
mod gemini_cli;
mod import;
#[cfg(feature = "inspect")]
mod inspect;
#[cfg(any(feature = "databases", feature = "langgraph-postgres"))]
mod langgraph;
mod lines;
mod open_hands;
#[cfg(feature = "databases")]
mod openai_agents;
#[cfg(feature = "python")]
pub mod python;
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
mod writer;

pub use crate::cache::ImportCache;
pub use crate::detect::detect;
pub use crate::error::{Error, Result};
pub use crate::export::{ExportedSession, SessionFormat, UnknownFormat, export_session};
pub use crate::import::{RecordingOptions, import, import_cached};
pub use crate::redact::{redact_draft, redact_tool};
pub use crate::report::{
    Anomalies, AnomalyKind, RecordedBranch, RecordingAnomaly, SessionReport, TokenTotals,
};
pub use crate::source::{SessionFile, SessionFilter, Source, UnknownSource, session_files};
pub use crate::tree::BranchStart;
pub use crate::usage::{AnswerUsage, usage};
