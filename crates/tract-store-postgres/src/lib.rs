#![doc = include_str!("docs.md")]
#![forbid(unsafe_code)]

mod apply;
mod args;
mod check;
mod error;
mod link;
mod log;
mod migrate;
mod options;
mod read;
mod repair;
mod schema;
mod stats;
mod store;
#[cfg(feature = "tls")]
mod tls;
mod tools;
mod walk;

pub use crate::options::PostgresOptions;
pub use crate::store::{PostgresStore, open};
