//! The floor: the bare engines that the stores measure themselves against, for messages of the size
//! of ours.

use std::path::Path;

use tract::{Tract, block_on};
use tract_store_redb::BareRedb;
use tract_store_sqlite::BareSqlite;

/// What one of our messages takes in bytes: its content, its record.
fn sizes(ours: &Tract) -> (usize, usize) {
    let stats = block_on(ours.store().stats(ours.repo().name())).unwrap();
    let content = (stats.blob_bytes / stats.blobs.max(1)) as usize;
    (content, (stats.commit_bytes / stats.commits.max(1)) as usize)
}

pub(crate) fn sqlite(folder: &Path, ours: &Tract) -> BareSqlite {
    let (content, record) = sizes(ours);
    BareSqlite::create(&folder.join("floor.db"), content, record).unwrap()
}

pub(crate) fn redb(folder: &Path, ours: &Tract) -> BareRedb {
    let (content, record) = sizes(ours);
    BareRedb::create(&folder.join("floor.redb"), content, record).unwrap()
}
