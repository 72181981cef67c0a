#![doc = include_str!("docs.md")]
#![forbid(unsafe_code)]

mod access;
mod copy;
#[cfg(test)]
mod disk_errors;
mod engine;
mod error;
mod file;
mod header;
mod open;
#[cfg(test)]
mod power_loss;
mod scratch;
mod snapshot;

pub use crate::engine::RedbEngine;
pub use crate::open::{RedbOptions, RedbStore, open};
