//! Each check of the laws is seen to fail: a check that cannot fail checks nothing.

use tract::compile::{Row, View, inverse};
use tract::core::Change;
use tract::{CommitId, Draft, block_on};

use super::checks::{Sources, accepted, covered, print, same, undone};
use super::portable;
use crate::walks::{exported, memory};

#[track_caller]
fn broken(result: Result<(), String>, wanted: &str) {
    let broken = result.expect_err("a planted fault is noticed");
    assert!(broken.contains(wanted), "{wanted:?} not in {broken:?}");
}

fn id(n: u8) -> CommitId {
    CommitId::from_bytes([n; 32])
}

#[test]
fn other_bodies_are_noticed() {
    let tract = memory();
    let [one, two] = ["one", "two"].map(|text| block_on(tract.user(text)).unwrap().id());
    let [mut found, expected] = [one, two].map(|head| print(tract.repo(), Some(head)).unwrap());
    broken(same("x", &found, &expected), "view id");
    found.view_id = expected.view_id.clone();
    broken(same("x", &found, &expected), "commits");
    found.facts = expected.facts.clone();
    broken(same("x", &found, &expected), "openai");
    found.bodies = expected.bodies.clone();
    same("x", &found, &expected).unwrap();
}

#[test]
fn a_body_that_a_provider_refuses_is_noticed() {
    let tract = memory();
    block_on(async {
        tract.user("go").await.unwrap();
        tract.commit(Draft::assistant("").call("c1", "f", "{}")).await.unwrap();
        tract.tool_result("c1", "done").await.unwrap();
    });
    let mut print = print(tract.repo(), block_on(tract.head()).unwrap()).unwrap();
    accepted(&print).unwrap();
    for (_, text) in &mut print.bodies {
        *text = text.replace("c1\",\"content\"", "c2\",\"content\"");
    }
    broken(accepted(&print), "c1");
}

#[test]
fn a_wrong_inverse_is_noticed() {
    let tract = memory();
    let first = block_on(tract.user("one")).unwrap();
    let edit = block_on(tract.edit(&first, "two")).unwrap();
    let history = block_on(tract.repo().fold(Some(first.id()))).unwrap();
    let changes = block_on(tract.repo().changes(&edit)).unwrap();
    undone(history.view(), &edit, &changes, inverse).unwrap();
    broken(undone(history.view(), &edit, &changes, Change::clone), "does not fold");
    // A view that is not the parent's.
    let row = Row { slot: id(1), key: 0, version: id(1), mark: None, answers: None };
    let other = View::from_parts([row], None, 1);
    broken(undone(&other, &edit, &changes, inverse), "not there");
    // An inverse that folds, and restores something else.
    let elsewhere = |change: &Change| match inverse(change) {
        Change::Version { slot, from, .. } => Change::Version { slot, from, to: from },
        other => other,
    };
    broken(undone(history.view(), &edit, &changes, elsewhere), "for [");
}

#[test]
fn a_message_next_to_its_summary_is_noticed() {
    let sources = Sources::from([(id(9), vec![id(1), id(2)]), (id(8), vec![id(9), id(3)])]);
    covered(&[id(8), id(4)], &sources).unwrap();
    covered(&[id(9), id(3)], &sources).unwrap();
    broken(covered(&[id(9), id(2)], &sources), "next to");
    broken(covered(&[id(8), id(1)], &sources), "next to");
    broken(covered(&[id(1), id(1)], &sources), "two rows");
    let twice = Sources::from([(id(9), vec![id(1)]), (id(8), vec![id(1)])]);
    broken(covered(&[id(8), id(9)], &twice), "lies under");
}

#[test]
fn a_stream_that_lost_or_changed_something_is_noticed() {
    let tract = memory();
    block_on(async {
        tract.user("one").await.unwrap();
        tract.assistant("two").await.unwrap();
    });
    let lines = exported(tract.repo());
    portable(&tract, &memory(), &lines).unwrap();
    for lost in 0..lines.len() {
        let mut less = lines.clone();
        less.remove(lost);
        assert!(portable(&tract, &memory(), &less).is_err(), "without {}", lines[lost]);
    }
    let mut changed = lines;
    for line in &mut changed {
        *line = line.replace("two", "2wo");
    }
    broken(portable(&tract, &memory(), &changed), "line");
}
