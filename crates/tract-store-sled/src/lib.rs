#![doc = include_str!("docs.md")]
#![forbid(unsafe_code)]

mod copy;
mod engine;
mod error;
mod flush;
mod open;

pub use crate::engine::SledEngine;
pub use crate::open::{SledOptions, SledStore, open};
