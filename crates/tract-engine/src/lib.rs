//! Planners and the write path: git's verbs over contexts.
#![forbid(unsafe_code)]

mod branch;
mod error;
mod fetch;
mod merge;
pub mod graph;
mod diff;
pub mod plan;
mod repo;
mod apply;
mod export;
mod import;
mod log;
mod overlay;
mod reach;
mod revision;
mod stats;
mod time;
mod tools;
mod txn;
mod undo;
mod write;
mod verify;

pub use crate::diff::{ConfigChange, Diff, MessageChange, diff, plain};
pub use crate::tools::{SchemaDiff, ToolChange, ToolDiff, no_schema_diff, tool_diff};
pub use crate::error::{Error, Result};
pub use crate::plan::Refusal;
pub use crate::repo::{Repo, RepoOptions};
pub use crate::export::{Export, ExportOptions, export};
pub use crate::import::{
    Conversation, ImportAnomaly, ImportAnomalyKind, ImportOptions, ImportStatus, Imported, Importer,
    import,
};
pub use crate::verify::{OnVerify, VerifyOptions, VerifyProgress, VerifyReport, verify};
pub use crate::txn::Txn;
pub use crate::write::WriteOptions;
pub use crate::branch::{Branch, FIRST_BRANCH};
pub use crate::merge::{MergeOptions, Merged};
pub use crate::revision::Marks;
pub use crate::undo::{RefMove, Undone};
pub use crate::apply::{
    ApplyEvent, ApplyOptions, ApplyReport, LineError, StreamLine, apply_stream,
    number_lines, read_lines,
};
pub use crate::log::{LogLine, LogPage, describe, log, log_all, one_line};
pub use crate::stats::{Stats, stats};
