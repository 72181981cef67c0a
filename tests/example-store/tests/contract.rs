//! The example stores keep the contract, as far as each claims to.

use std::path::Path;

use tract_example_store::{LocalStore, RemoteStore};

tract_testkit::store_suite!(
    journal,
    open = |folder: &Path| tract_example_store::open(&folder.join("agent.journal")),
    lacks = [MultiProcess]
);

tract_testkit::store_suite!(
    local,
    open = |_folder: &Path| Ok(LocalStore::start()),
    lacks = [Durable, Persistent, MultiProcess, CollectsGarbage, Erases, Repacks, Restores]
);

tract_testkit::store_suite!(
    remote,
    open = |_folder: &Path| RemoteStore::start(),
    lacks = [Durable, Persistent, MultiProcess, CollectsGarbage, Erases, Repacks, Restores]
);
