//! Readers of what other tools recorded.
//!
//! A reader turns the files of a tool into conversations with their branches; the engine stores
//! them as commits that contain nothing but what was recorded, so that importing again changes
//! nothing. What a file lacks is reported, never made up.
#![forbid(unsafe_code)]

pub mod claude_code;
mod error;
mod lines;
#[cfg(feature = "python")]
pub mod python;
mod report;
mod tree;
mod writer;

pub use crate::error::{Error, Result};
pub use crate::report::{
    Anomalies, AnomalyKind, RecordedBranch, RecordingAnomaly, SessionReport, TokenTotals,
};
pub use crate::tree::BranchStart;
