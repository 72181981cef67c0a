#![doc = include_str!("docs.md")]
#![forbid(unsafe_code)]

mod check;
mod compressed;
mod erase;
mod error;
#[cfg(test)]
mod full_disk;
mod insert;
mod known;
mod log;
mod memory;
mod migrate;
mod moves;
mod open_files;
mod options;
mod read;
mod repack;
mod restore;
mod schema;
mod side_files;
mod stats;
mod steps;
mod store;
mod sweep;
mod tools;
mod uri;
mod wal;
mod walk;
mod write;

pub use crate::options::SqliteOptions;
pub use crate::store::{SqliteStore, open};
