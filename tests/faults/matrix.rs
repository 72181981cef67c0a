//! The faults that a process survives.

use tract::core::{StoreError, StoreErrorKind, StoreResult};
use tract::run::Stop;
use tract::tools::snapshot::BoxError;
use tract::{OpenOptions, Tract, block_on};
use tract_testkit::{Call, WatchedStore};

use super::agent::{BranchContents, Fixture};
use super::places::StoreLocation;
use super::trap::{Fault, Stage, arm, disarm, spring};
use crate::walks::assert_clean;

/// Runs into a fault where starts are written down.
pub(super) fn at_starts(call: Call<'_>) -> StoreResult<()> {
    let refused = |error: BoxError| {
        StoreError::new(StoreErrorKind::Engine, "watched", "apply", error.to_string())
    };
    match call {
        Call::Apply { batch, .. } if batch.note.what == "start" => {
            spring(Stage::Start, "c2").map_err(refused)
        }
        _ => Ok(()),
    }
}

/// The fault cannot happen there: a reducer says what becomes of its slice, and has no way to fail
/// but by a panic.
fn impossible(stage: Stage, fault: Fault) -> bool {
    (stage, fault) == (Stage::Invoked, Fault::Error)
}

/// What is over when the call has succeeded comes too late for it: the next one does not run.
fn too_late(stage: Stage, fault: Fault) -> bool {
    let after = matches!(stage, Stage::Note | Stage::CleanUp | Stage::Deliver | Stage::Invoked);
    let returned = matches!(stage, Stage::Handler | Stage::Provider);
    (after || returned) && matches!(fault, Fault::Timeout | Fault::Cancel)
}

fn on(tract: &Tract, stage: Stage, fault: Fault) -> Tract {
    tract.on(&format!("{}-{fault:?}", stage.word())).unwrap()
}

/// Runs the three calls into the fault, and looks at what the process itself knows.
fn run(tract: &Tract, stage: Stage, fault: Fault) {
    let what = format!("{stage:?} × {fault:?}");
    let desk = Fixture::new(&on(tract, stage, fault), stage, None);
    arm(stage, fault, &desk.clock, &desk.token);
    let report = block_on(desk.agent.run("go")).unwrap();
    assert!(!disarm(), "{what}: nothing ran into the trap");
    let of_host = matches!(stage, Stage::Start | Stage::Snapshot);
    match (fault, &report.stop) {
        (Fault::Cancel, Stop::Cancelled) | (Fault::Timeout, Stop::Ended { .. }) => {}
        (Fault::Error | Fault::Panic, Stop::Ended { code: "host", .. }) if of_host => {}
        (Fault::Error | Fault::Panic, Stop::Answered) if !of_host => {}
        (_, stop) => panic!("{what}: {stop:?}"),
    }
    let left = BranchContents::of(&on(tract, stage, fault));
    assert_eq!(desk.changed(), left.succeeded(), "{what}: what failed is put back");
}

/// Looks at what the branch contains, as another process finds it.
fn look(tract: &Tract, stage: Stage, fault: Fault) -> BranchContents {
    let what = format!("{stage:?} × {fault:?}");
    let tract = on(tract, stage, fault);
    let left = BranchContents::of(&tract);
    let ids: Vec<&str> = left.answers.iter().map(|answer| &*answer.call).collect();
    assert_eq!(ids, ["c1", "c2", "c3"], "{what}: one answer for each call, in order");
    let ended = matches!(fault, Fault::Timeout | Fault::Cancel)
        || matches!(stage, Stage::Start | Stage::Snapshot);
    let expected = match (too_late(stage, fault), ended) {
        (true, _) => vec!["c1", "c2"],
        (false, true) => vec!["c1"],
        (false, false) => vec!["c1", "c3"],
    };
    assert_eq!(left.succeeded(), expected, "{what}");
    assert_eq!(left.noted, expected, "{what}: state before, and the events of the successes");
    assert_eq!(left.delivered, expected, "{what}: and gave");
    let failed = left.answers.iter().filter(|answer| answer.is_error);
    let failed: Vec<_> = failed.filter(|answer| !answer.text.starts_with("not executed")).collect();
    assert_eq!(failed.len(), 1, "{what}: exactly one failed answer in {:?}", left.answers);
    for answer in &left.answers {
        assert!(!answer.text.contains("secret"), "{what}: the model reads {}", answer.text);
    }
    // The branch is as good as any: a run continues from there.
    let before = if ended { 5 } else { 6 };
    assert_eq!(left.roles.len(), before, "{what}: {:?}", left.roles);
    if ended {
        let report = block_on(Fixture::new(&tract, stage, None).agent.run(None)).unwrap();
        assert_eq!((report.stop, report.text.as_str()), (Stop::Answered, "done"), "{what}");
        assert_eq!(BranchContents::of(&tract).answers, left.answers, "{what}: nothing ran again");
    }
    left
}

#[test]
fn every_stage_and_every_fault_leave_the_state_before_and_one_failed_answer() {
    let folder = tempfile::tempdir().unwrap();
    let combinations: Vec<(Stage, Fault)> = Stage::ALL
        .into_iter()
        .flat_map(|stage| Fault::SURVIVED.map(|fault| (stage, fault)))
        .filter(|(stage, fault)| !impossible(*stage, *fault))
        .collect();
    assert_eq!(combinations.len(), 39);
    let mut in_memory: Option<Vec<BranchContents>> = None;
    for place in StoreLocation::all(folder.path()) {
        let tract = place.fast();
        let watched = WatchedStore::new(tract.store().clone(), at_starts);
        let trapped = block_on(OpenOptions::new().open_store(watched)).unwrap();
        for (stage, fault) in &combinations {
            run(&trapped, *stage, *fault);
        }
        drop(tract);
        place.close(trapped);
        let again = place.fast();
        let left: Vec<BranchContents> =
            combinations.iter().map(|(stage, fault)| look(&again, *stage, *fault)).collect();
        assert_clean(&again, place.name());
        place.close(again);
        let first = in_memory.get_or_insert_with(|| left.clone());
        assert_eq!(*first, left, "{}: as in memory", place.name());
        println!("{}: {} combinations", place.name(), combinations.len());
    }
}
