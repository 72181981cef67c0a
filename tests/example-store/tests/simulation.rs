//! Many clients on an example store, in an order that a seed determines.

use std::path::Path;
use std::sync::Arc;

use tract_testkit::scaled;
use tract_testkit::simulation::Simulation;

#[test]
fn many_clients_on_the_journal() {
    let open = |folder: &Path| -> tract_core::StoreResult<Arc<dyn tract_core::Store>> {
        Ok(Arc::new(tract_example_store::open(&folder.join("agent.journal"))?))
    };
    if let Err(failure) = Simulation::new(open).search(0..scaled(2_000, 0.05, 50) as u64) {
        panic!("{failure}");
    }
}
