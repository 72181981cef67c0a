//! Every broken promise is noticed, and every case notices one.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use tract_testkit::{Capability, Fault, FaultyStore, Outcome, Suite, cases};

/// A case that fails, or not, on a store with a fault.
fn outcome(name: &str, fault: Fault) -> Outcome {
    let open = move |_: &Path| Ok(FaultyStore::new(Arc::new(tract_core::memory()), fault));
    let suite = Suite::new(open).lacks(Capability::ALL);
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
    // Its switch is a store that forgets, such as the one in memory.
    assert_eq!(never, ["reopened_store_shows_all"]);
    let forgets = Suite::new(|_: &Path| Ok(tract_core::memory()));
    let case = cases().iter().find(|case| case.name == never[0]).expect("it is there");
    assert!(matches!(case.run(&forgets), Outcome::Broken(_)));
}

#[test]
fn names_are_unique_and_a_lack_is_reported_by_name() {
    let mut names: Vec<_> = cases().iter().map(|case| case.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    let suite = Suite::new(|_: &Path| Ok(tract_core::memory())).lacks(Capability::ALL);
    let case = cases().iter().find(|case| case.needs.is_some()).expect("reopening needs it");
    assert_eq!(case.run(&suite), Outcome::Lacks(Capability::Persistent));
}
