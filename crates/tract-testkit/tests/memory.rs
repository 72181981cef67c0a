//! The store in memory keeps the contract.

use std::path::Path;

tract_testkit::store_suite!(
    memory,
    open = |_: &Path| Ok(tract_kv::memory()),
    lacks = [Durable, Persistent, MultiProcess],
    conversations = tract_testkit::data::recorded
);
