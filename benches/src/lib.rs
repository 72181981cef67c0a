//! The baselines that stores are measured against, and the measurements of one engine on this machine.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod bare;
pub mod engine;
