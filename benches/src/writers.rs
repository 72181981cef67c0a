//! Many tasks on one branch through one handle, next to as many tasks on a branch each: the same
//! messages, the same store, the same run.

use std::sync::Arc;

use tract::{OpenOptions, Store, Tract, block_on};

use crate::stores::url;
use crate::table::{Table, at_once, median};

const TASKS: usize = 200;
const ROUNDS: usize = 5;

/// Writes `each` messages by each task, and gives how many were stored in a second.
fn rate(runtime: &tokio::runtime::Runtime, each: usize, branch_of: impl Fn(usize) -> Tract) -> f64 {
    let branches: Vec<Tract> = (0..TASKS).map(branch_of).collect();
    // The branches exist before the clock runs.
    for branch in &branches {
        block_on(branch.user("it begins")).unwrap();
    }
    let tasks = branches.into_iter().enumerate().map(|(task, tract)| async move {
        for n in 0..each {
            tract.user(format!("task {task} says {n}")).await.unwrap();
        }
    });
    (TASKS * each) as f64 / at_once(runtime, tasks).1.as_secs_f64()
}

fn measure(table: &mut Table, quick: bool, name: &str, store: Arc<dyn Store>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let tract = block_on(OpenOptions::new().open_store(store)).unwrap();
    let each = if quick { 5 } else { 25 };
    let (mut one, mut separate) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let on = |branch: String| tract.on(&branch).unwrap();
        one.push(rate(&runtime, each, |_| on(format!("one-{round}"))));
        separate.push(rate(&runtime, each, |task| on(format!("own-{round}-{task}"))));
    }
    let (one, separate) = (median(one), median(separate));
    let what = format!("{name}: durable commits of {TASKS} tasks on one branch, all stored");
    let note = "a branch for each task";
    table.compare(what, "a second", [one, separate], note, "≥ 0.7", one / separate >= 0.7);
}

pub(crate) fn run(table: &mut Table, quick: bool) {
    let mut engines = vec!["sqlite", "redb"];
    if cfg!(feature = "sled") {
        engines.push("sled");
    }
    for engine in engines {
        let folder = tempfile::tempdir().unwrap();
        let store = block_on(tract::store::open(&url(engine, folder.path()))).unwrap();
        measure(table, quick, engine, store);
    }
    #[cfg(feature = "postgres")]
    if let Some(store) = crate::postgres::own_store() {
        measure(table, quick, "postgres", Arc::new(store));
    }
}
