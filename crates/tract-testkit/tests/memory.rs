//! The store in memory keeps the contract.

use std::path::Path;

tract_testkit::store_suite!(
    memory,
    open = |_: &Path| Ok(tract_kv::memory()),
    lacks = [Durable, Persistent, MultiProcess],
    conversations = tract_testkit::data::recorded
);

#[test]
fn later_batches_of_a_group_see_earlier_ones_and_a_refused_one_leaves_no_trace() {
    assert!(!tract_testkit::blocking::groups_are_whole(tract_kv::memory(), |store| store));
}
