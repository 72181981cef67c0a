//! Reading history: walks over commits, and data computed from them.
//!
//! The log, diffs, blame, tool turns, cache use and reachability. Nothing here moves a ref; the
//! only writes are derived rows.

pub(crate) mod answer_facts;
pub(crate) mod blame;
pub(crate) mod cache_use;
pub(crate) mod counts;
pub(crate) mod diff;
pub(crate) mod diff_line;
pub(crate) mod facts;
pub mod graph;
pub(crate) mod log;
pub(crate) mod lost;
pub(crate) mod queries;
pub(crate) mod question;
pub(crate) mod reach;
pub(crate) mod received;
pub(crate) mod tool_diff;
pub(crate) mod turns;
