//! A recording proxy: it forwards the traffic between an agent and its model byte for byte, and
//! records a copy as branches.
//!
//! # Behavior
//! - Forwarding comes first: every chunk is forwarded as it arrives. Recording works on a copy of
//!   bounded size. An exchange that does not fit, or that the store rejects, is counted; it never
//!   delays or changes a request.
//! - A request continues the conversation that has the longest recorded prefix of its messages.
//!   Headers that name a session or a subagent take precedence. A rewind becomes a branch.
//! - Only the headers in [`STORED_HEADERS`] are stored: no key reaches the store.
//! - It listens on loopback, under a path that cannot be guessed, and forwards only to configured
//!   upstreams.
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
pub use crate::upstream::{BaseVariable, Route, Upstream, base_variables, routes};
