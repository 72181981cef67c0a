//! The SQLite store keeps the contract, however writes reach it.

use std::path::Path;

use tract_core::StoreResult;
use tract_core::store::{ThreadedStore, WriteMode};
use tract_store_sqlite::{SqliteOptions, SqliteStore};

fn open(folder: &Path, mode: WriteMode) -> StoreResult<ThreadedStore<SqliteStore>> {
    let options = SqliteOptions { create: true, write_mode: mode, ..SqliteOptions::default() };
    tract_store_sqlite::open(folder.join("agent.db"), &options)
}

tract_testkit::store_suite!(
    thread,
    open = |folder: &std::path::Path| open(folder, WriteMode::Thread),
    lacks = [],
    conversations = tract_testkit::data::recorded
);
tract_testkit::store_suite!(
    in_place,
    open = |folder: &std::path::Path| open(folder, WriteMode::InPlace),
    lacks = [],
    conversations = tract_testkit::data::recorded
);
