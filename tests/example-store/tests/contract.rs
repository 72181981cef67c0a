//! The example store keeps the contract.

use std::path::Path;

tract_testkit::store_suite!(
    journal,
    open = |folder: &Path| tract_example_store::open(&folder.join("agent.journal")),
    lacks = [MultiProcess]
);
