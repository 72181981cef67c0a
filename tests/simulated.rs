//! Many clients on stores with files and on the server, in an order that a seed determines.

use std::path::Path;
use std::sync::Arc;

use tract::core::Store;
use tract_testkit::simulation::Simulation;
use tract_testkit::{figure, scaled};

use crate::backends::{self, Backend};

fn simulate(backend: &'static Backend, schedules: usize) {
    let open = move |folder: &Path| -> tract::core::StoreResult<Arc<dyn Store>> {
        Ok(backend.bare(folder, "agent"))
    };
    let schedules = scaled(schedules, 0.02, 10) as u64;
    match Simulation::new(open).search(0..schedules) {
        Ok(calls) => {
            let text = format!("{schedules} schedules, {calls} store calls");
            figure("simulation", backend.name, &text);
        }
        Err(failure) => panic!("{}: {failure}", backend.name),
    }
}

#[test]
fn many_clients_on_sqlite() {
    simulate(backends::named("sqlite"), 5_000);
}

#[test]
fn many_clients_on_redb() {
    simulate(backends::named("redb"), 2_000);
}

#[test]
fn many_clients_on_postgres() {
    if let Some(backend) = backends::all().find(|backend| backend.name == "postgres") {
        simulate(backend, 500);
    }
}
