//! The sled store keeps the contract, however writes reach it.

use std::path::Path;

use tract_core::StoreResult;
use tract_core::store::{ThreadedStore, WriteMode};
use tract_store_sled::{SledOptions, SledStore};

fn open(folder: &Path, mode: WriteMode) -> StoreResult<ThreadedStore<SledStore>> {
    let options = SledOptions { create: true, write_mode: mode, ..SledOptions::default() };
    tract_store_sled::open(folder.join("agent.sled"), &options)
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
