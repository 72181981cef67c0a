//! The index gives what the walk gives, and that is what the view says.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tract_core::{CommitId, Priority, block_on};
use tract_engine::{Repo, ToolQuery, ToolTurn};

use super::{indexed, turns};
use crate::fixture::histories;
use crate::random::{Run, action};

/// What the view says: each row with calls, and the rows that answer it.
fn seen(repo: &Repo, head: CommitId) -> BTreeMap<CommitId, Vec<CommitId>> {
    let history = block_on(repo.fold(Some(head))).unwrap();
    let mut turns = BTreeMap::new();
    for row in history.view().rows() {
        let content = block_on(repo.content_of(row.version)).unwrap();
        if content.calls().count() > 0 {
            turns.entry(row.slot).or_insert_with(Vec::new);
        }
    }
    let mut answers: Vec<_> =
        history.view().rows().filter_map(|row| Some((row.answers?, row.slot))).collect();
    answers.sort();
    for (call, slot) in answers {
        turns.entry(call.slot).or_default().push(slot);
    }
    turns
}

fn found(repo: &Repo, head: CommitId, hidden: bool) -> Vec<ToolTurn> {
    turns(repo, Some(head), &ToolQuery { hidden, ..ToolQuery::default() })
}

proptest! {
    #![proptest_config(histories(60))]

    #[test]
    fn the_index_gives_what_the_walk_gives(
        actions in prop::collection::vec(action(), 10..60),
        every in 1u64..9,
    ) {
        let mut run = Run::on(indexed(every));
        for action in &actions {
            run.act(action);
        }
        let (repo, heads) = (&run.desk().repo, &run.commits);
        let by_index: Vec<_> = heads
            .iter()
            .map(|head| (found(repo, *head, false), found(repo, *head, true)))
            .collect();
        for (head, (shown, _)) in heads.iter().zip(&by_index) {
            let shown: BTreeMap<_, _> =
                shown.iter().map(|turn| (turn.call, turn.result_ids())).collect();
            prop_assert_eq!(shown, seen(repo, *head), "at {}", head);
        }
        for head in heads {
            // Each by a handle that has read nothing.
            let ends = run.desk().cold().repo;
            let whole = block_on(repo.fold(Some(*head))).unwrap();
            prop_assert_eq!(block_on(ends.counts(Some(*head))).unwrap(), whole.counts());
            let shown = whole.view().rows().filter(|row| {
                whole.fact(row.slot).is_some_and(|fact| fact.is_shown())
            });
            let numbers: BTreeMap<_, _> =
                shown.zip(1..).map(|(row, number)| (row.version, number)).collect();
            for (version, number) in block_on(ends.recent_numbers(*head)).unwrap() {
                prop_assert_eq!(numbers.get(&version), Some(&number), "at {}", head);
            }
        }
        let report = block_on(tract_engine::verify(repo, &Default::default())).unwrap();
        prop_assert!(report.clean, "{:?}", report.damage);
        block_on(repo.store().drop_derived(repo.name())).unwrap();
        let walks = &run.desk().cold().repo;
        for (head, by_index) in heads.iter().zip(&by_index) {
            prop_assert_eq!(&(found(walks, *head, false), found(walks, *head, true)), by_index);
        }
    }
}

#[test]
fn a_skipped_turn_is_a_turn() {
    let desk = indexed(1);
    let call = desk.call("c1");
    let skipped = desk.mark(call, Priority::Skip);
    assert_eq!(found(&desk.repo, skipped, false).len(), 1);
}
