//! Every broken promise is noticed, by the case that is named after it.

use std::path::Path;
use std::sync::Arc;

use tract_testkit::{Capability, Fault, FaultyStore, Outcome, Suite, cases};

#[test]
fn each_fault_is_noticed_by_its_case() {
    let noticed_by = |fault| match fault {
        Fault::DropsAbsent => "blobs_answer_each_key_in_order",
        Fault::SortsToolsets => "toolset_keeps_order_and_repeats",
        Fault::IgnoresUntil => "walk_ends_before_until",
        Fault::IgnoresRows => "walk_ends_before_a_row",
        Fault::LosesPages => "walk_ends_after_limit",
        Fault::FollowsRefs => "symbolic_ref_is_not_followed",
        Fault::IgnoresExpectations => "two_refs_one_stale_moves_none",
        Fault::ForgetsBatches => "lost_ack_then_undo_then_retry_stays_undone",
        Fault::AppliesHalf => "refused_batch_leaves_no_trace",
        Fault::IgnoresLinks => "missing_required_is_refused",
        Fault::MixesRepositories => "repositories_are_apart",
        Fault::KeepsOldRows => "derived_row_is_replaced",
        Fault::LogsBackwards => "log_is_newest_first",
        Fault::ListsUnsorted => "tool_names_sorted_each_once",
        Fault::IgnoresLimit => "prefix_gives_at_most_limit_sorted",
        Fault::LosesWrites => "any_number_of_blobs_in_one_call",
        _ => panic!("a fault without a case: {fault:?}"),
    };
    for fault in Fault::ALL {
        let open = move |_: &Path| Ok(FaultyStore::new(Arc::new(tract_core::memory()), fault));
        let suite = Suite::new(open).lacks(Capability::ALL);
        let name = noticed_by(fault);
        let case = cases().iter().find(|case| case.name == name).expect("the case exists");
        let outcome = case.run(&suite);
        assert!(matches!(outcome, Outcome::Broken(_)), "{fault:?} in {name}: {outcome:?}");
    }
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
