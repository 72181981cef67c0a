#![doc = include_str!("docs.md")]
#![forbid(unsafe_code)]

mod copy;
mod engine;
mod error;
mod flush;
mod open;
mod options;

pub use crate::engine::SledEngine;
pub use crate::open::{SledStore, open};
pub use crate::options::SledOptions;
