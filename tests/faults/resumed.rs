//! Continues where a run broke off, and what must then hold for every reason.

use std::collections::BTreeMap;
use std::path::Path;

use tract::run::Stop;
use tract::{Draft, Tract, block_on};

use super::agent::{BranchContents, Fixture};
use super::trap::Stage;

/// What became of each call, in one letter: `d`one, `n`ot executed, `i`nterrupted, `f`ailed.
pub(super) fn fates(left: &BranchContents) -> String {
    let fate = |text: &str| match text {
        text if text.starts_with("done") => 'd',
        text if text.starts_with("not executed") => 'n',
        text if text.starts_with("interrupted, outcome unknown") => 'i',
        _ => 'f',
    };
    left.answers.iter().map(|answer| fate(&answer.text)).collect()
}

/// How often each call has left its trace.
fn traced(path: &Path) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
        *times.entry(line.to_owned()).or_default() += 1;
    }
    times
}

/// Runs again from the branch as it is, as another process does.
pub(super) fn continued(tract: &Tract, stage: Stage, traces: &Path, what: &str) -> BranchContents {
    let before = BranchContents::of(tract);
    let began = traced(traces);
    let desk = Fixture::new(tract, stage, Some(traces.to_owned()));
    let draft = before.roles.is_empty().then(|| Draft::user("go"));
    let said_all = before.roles.last().is_some_and(|role| role == "assistant");
    if !(said_all && before.answers.len() == 3) {
        let report = block_on(desk.agent.run(draft)).unwrap();
        assert_eq!((report.stop, report.text.as_str()), (Stop::Answered, "done"), "{what}");
    }
    let left = BranchContents::of(tract);
    let roles = ["user", "assistant", "tool", "tool", "tool", "assistant"];
    assert_eq!(left.roles, roles, "{what}: a whole conversation");
    let ids: Vec<&str> = left.answers.iter().map(|answer| &*answer.call).collect();
    assert_eq!(ids, ["c1", "c2", "c3"], "{what}: one answer for each call");
    // What failed never reached the state, and what succeeded did, once.
    assert_eq!(left.noted, left.succeeded(), "{what}");
    assert_eq!(left.delivered, left.succeeded(), "{what}");
    let now = traced(traces);
    for (answer, tool) in left.answers.iter().zip([stage.first_tool(), "act", "act"]) {
        let times = |all: &BTreeMap<String, usize>| all.get(&answer.call).copied().unwrap_or(0);
        assert!(times(&now) <= 1, "{what}: {} happened {} times", answer.call, times(&now));
        if answer.text.starts_with("not executed") && tool == "act" {
            assert_eq!(times(&began), 0, "{what}: {} is said not to have run", answer.call);
        }
    }
    left
}
