//! Telemetry: spans of model calls, agent runs, tools, compiles and store writes, for `tracing`.
//!
//! The names are in [`names`] and always compiled. The spans need the feature `telemetry`: without
//! it the functions here do nothing, and `tracing` is not linked. All crates of tract call these
//! functions, so that each span is defined in one place.
//!
//! Prompts, answers, arguments and results are left out unless [`capture_content`] enables them:
//! the span has the id of the commit that contains them ([`names::TRACT_COMMIT`]).

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

/// Enables or disables content in spans, for the whole process; disabled by default.
pub fn capture_content(on: bool) {
    CAPTURES_CONTENT.store(on, Ordering::Relaxed);
}

/// Returns whether spans contain content.
pub fn captures_content() -> bool {
    cfg!(feature = "telemetry") && CAPTURES_CONTENT.load(Ordering::Relaxed)
}
