//! The redb store keeps the contract, however writes reach it.

use std::path::Path;

use tract_core::StoreResult;
use tract_core::store::{ThreadedStore, WriteMode};
use tract_store_redb::{RedbOptions, RedbStore};

fn open(folder: &Path, mode: WriteMode) -> StoreResult<ThreadedStore<RedbStore>> {
    let options = RedbOptions { create: true, write_mode: mode, ..RedbOptions::default() };
    tract_store_redb::open(folder.join("agent.redb"), &options)
}

tract_testkit::store_suite!(
    thread,
    open = |folder: &std::path::Path| open(folder, WriteMode::Thread),
    lacks = [MultiProcess],
    conversations = tract_testkit::data::recorded
);
tract_testkit::store_suite!(
    in_place,
    open = |folder: &std::path::Path| open(folder, WriteMode::InPlace),
    lacks = [MultiProcess],
    conversations = tract_testkit::data::recorded
);
