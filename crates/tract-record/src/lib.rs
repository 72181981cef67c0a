//! A recording proxy: it forwards the traffic between an agent and its model byte for byte, and
//! records a copy as branches.
//!
//! # Behavior
//! - Bytes first: every chunk is forwarded as it comes. Recording works on a copy with a bounded size;
//!   an exchange that does not fit or that the store rejects is counted, and never delays or changes a
//!   request.
//! - A request continues the conversation whose recorded messages are its longest beginning. Headers
//!   that name a session or a subagent decide first. A rewind becomes a branch.
//! - Of headers only [`STORED_HEADERS`] are kept: no key reaches the store.
//! - It listens on loopback, under a path that cannot be guessed, and forwards to configured upstreams
//!   alone.
#![forbid(unsafe_code)]

mod calls;
mod capture;
mod chain;
mod conversations;
mod counts;
mod decode;
mod error;
mod header;
mod lull;
mod proxy;
mod read;
mod recorder;
mod report;
mod responses;
mod turn;
mod upstream;
#[cfg(test)]
mod wire_rules;
mod write;

pub use crate::counts::Reason;
pub use crate::error::{Error, Result};
pub use crate::header::STORED_HEADERS;
pub use crate::proxy::{Proxy, ProxyOptions};
pub use crate::recorder::{Recorder, RecorderHandle, RecorderOptions};
pub use crate::report::{LAST_REPORT, RecordAnomaly, RecordReport, WrittenBranch, last_report};
pub use crate::upstream::{BASE_VARIABLES, BaseVariable, Route, Upstream, routes};
