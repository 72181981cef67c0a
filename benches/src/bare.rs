//! The baseline: the bare engines that the stores are measured against, for messages of the size
//! of ours.

mod redb;
mod sqlite;

use std::path::Path;

use tract::{Tract, block_on};

use self::redb::BareRedb;
pub use self::sqlite::BareSqlite;

/// The result of a bare engine.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The bytes of one of our messages: its content and its record.
fn sizes(ours: &Tract) -> Outcome<(usize, usize)> {
    let stats = block_on(ours.store().stats(ours.repo().name()))?;
    let content = usize::try_from(stats.blob_bytes / stats.blobs.max(1))?;
    Ok((content, usize::try_from(stats.commit_bytes / stats.commits.max(1))?))
}

/// A number that looks like the first bytes of a hash (the mixer of SplitMix64): evenly spread ones
/// would fill all pages of an index alike, and split them all at once or not at all.
fn scatter(n: u64) -> u64 {
    let mut mixed = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Makes a file of SQLite alone in a folder.
///
/// # Errors
/// Errors of SQLite.
pub fn sqlite(folder: &Path, ours: &Tract) -> Outcome<BareSqlite> {
    let (content, record) = sizes(ours)?;
    BareSqlite::create(&folder.join("floor.db"), content, record)
}

/// A bare engine; errors are its own.
pub trait BareEngine {
    /// Writes messages in one durable transaction.
    fn write(&mut self, messages: u64) -> Outcome<()>;

    /// Writes a message on each of some branches in one durable transaction, as a group of writers
    /// does. The next call continues with the following branches, of `in_all` branches in total.
    fn write_branches(&mut self, branches: u64, in_all: u32) -> Outcome<()>;

    /// Reads and hashes the newest messages: records, then contents. Gives how many rows it read.
    fn walk(&self, messages: u64) -> Outcome<u64>;
}

/// Makes a new file of a scheme's engine in a folder; `None` for engines without a baseline.
///
/// # Errors
/// Errors of the engine.
pub fn create(scheme: &str, folder: &Path, ours: &Tract) -> Outcome<Option<Box<dyn BareEngine>>> {
    Ok(match scheme {
        "sqlite" => Some(Box::new(sqlite(folder, ours)?)),
        "redb" => {
            let (content, record) = sizes(ours)?;
            Some(Box::new(BareRedb::create(&folder.join("floor.redb"), content, record)?))
        }
        _ => None,
    })
}
