//! Telemetry: spans of model calls, agent runs, tools, compiles and store writes, for `tracing`.
//!
//! The names are in [`names`], and always compiled. The spans themselves need the feature
//! `telemetry`; without it no function here does anything and no `tracing` is linked. The crates of
//! tract call these functions, so that there is one place for each span.
//!
//! Prompts, answers, arguments and results are left out, unless [`capture_content`] turns them on:
//! [`names::TRACT_COMMIT`] names the commit that contains them.

#[cfg(feature = "telemetry")]
mod content;
mod model_call;
pub mod names;
mod span;

use std::sync::atomic::{AtomicBool, Ordering};

pub use self::model_call::{FirstPiece, ModelCall, ModelDescription};
pub use self::span::{
    AttributeValue, Span, ToolCallInfo, agent_run, compile, store_write, tool_call,
};

static CAPTURES_CONTENT: AtomicBool = AtomicBool::new(false);

/// Turns content in spans on or off, for the whole process; off by default.
pub fn capture_content(on: bool) {
    CAPTURES_CONTENT.store(on, Ordering::Relaxed);
}

/// Returns whether spans have content.
pub fn captures_content() -> bool {
    cfg!(feature = "telemetry") && CAPTURES_CONTENT.load(Ordering::Relaxed)
}
