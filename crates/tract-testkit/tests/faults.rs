//! Every broken promise is noticed, and every case notices one.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use tract_testkit::{Capability, Fault, FaultyStore, Outcome, Suite, cases};

/// A case that fails, or not, on a store with a fault.
fn outcome(name: &str, fault: Fault) -> Outcome {
    let open = move |_: &Path| Ok(FaultyStore::new(Arc::new(tract_kv::memory()), fault));
    let has = [
        Capability::CollectsGarbage,
        Capability::Erases,
        Capability::Repacks,
        Capability::Restores,
    ];
    let lacks = Capability::ALL.into_iter().filter(|lack| !has.contains(lack));
    let suite = Suite::new(open).lacks(lacks);
    let case = cases().iter().find(|case| case.name == name);
    case.unwrap_or_else(|| panic!("there is no case {name}")).run(&suite)
}

#[test]
fn each_fault_is_noticed_by_its_cases() {
    let unnoticed: Vec<_> = Fault::ALL
        .iter()
        .flat_map(|fault| fault.breaks().iter().map(move |name| (*fault, *name)))
        .filter(|(fault, name)| !matches!(outcome(name, *fault), Outcome::Broken(_)))
        .collect();
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
    assert!(Fault::ALL.iter().all(|fault| !fault.breaks().is_empty()));
}

#[test]
fn each_case_fails_under_some_fault() {
    let broken: BTreeSet<&str> =
        Fault::ALL.iter().flat_map(|fault| fault.breaks().iter().copied()).collect();
    let never: Vec<&str> =
        cases().iter().map(|case| case.name).filter(|name| !broken.contains(name)).collect();
    // Their switch is a store that claims what it cannot do, such as the one in memory: to open it
    // again, or a second time, or after a kill, gives another one.
    let claiming = [
        "two_handles_are_one_store",
        "racing_handles_have_one_winner",
        "acknowledged_writes_outlive_a_kill",
        "sweeps_are_seen_by_every_handle",
        "swept_objects_stay_gone",
        "erased_blobs_stay_gone",
        "erasures_are_seen_by_every_handle",
        "reopened_store_shows_all",
    ];
    assert_eq!(never, claiming);
    let claims = Suite::new(|_: &Path| Ok(tract_kv::memory()));
    for case in cases().iter().filter(|case| claiming.contains(&case.name)) {
        assert!(matches!(case.run(&claims), Outcome::Broken(_)), "{}", case.name);
    }
}

#[test]
fn names_are_unique_and_a_lack_is_reported_by_name() {
    let mut names: Vec<_> = cases().iter().map(|case| case.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    let suite = Suite::new(|_: &Path| Ok(tract_kv::memory())).lacks(Capability::ALL);
    for case in cases().iter().filter(|case| case.needs.is_some()) {
        assert_eq!(Some(case.run(&suite)), case.needs.map(Outcome::Lacks), "{}", case.name);
    }
}
