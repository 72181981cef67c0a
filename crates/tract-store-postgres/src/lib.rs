#![doc = include_str!("docs.md")]
#![forbid(unsafe_code)]

mod append;
mod apply;
mod args;
mod check;
mod erase;
mod error;
mod functions;
mod group;
mod hold;
mod link;
mod log;
mod migrate;
mod options;
mod portions;
mod queue;
mod read;
mod reader;
mod repair;
mod restore;
mod schema;
#[cfg(test)]
#[path = "../tests/all/server.rs"]
mod server;
mod space;
mod stats;
mod steps;
mod store;
mod sweep;
#[cfg(feature = "tls")]
mod tls;
mod tools;
mod walk;
mod wipe;

pub use crate::options::PostgresOptions;
pub use crate::reader::{DatabaseReader, DatabaseRow};
pub use crate::store::{PostgresStore, open};
