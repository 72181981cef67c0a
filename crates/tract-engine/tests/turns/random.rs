//! The index gives what the walk gives, and that is what the view says.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use tract_core::{CommitId, Draft, Priority, RefName, block_on};
use tract_engine::plan::{Request, Selection};
use tract_engine::{MergeOptions, Repo, ToolQuery, ToolTurn};

use super::{cold, repo};

#[derive(Clone, Debug)]
enum Act {
    Say,
    Call(u8, u8),
    Answer(u8, bool),
    Orphan(u8),
    Edit(Index),
    Squeeze(Index, u8),
    Revert(Index),
    Fork(Index),
    Merge(Index),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => Just(Act::Say),
        5 => (1u8..4, 0u8..4).prop_map(|(count, id)| Act::Call(count, id)),
        7 => (0u8..6, any::<bool>()).prop_map(|(id, failed)| Act::Answer(id, failed)),
        1 => (0u8..6).prop_map(Act::Orphan),
        3 => any::<Index>().prop_map(Act::Edit),
        2 => (any::<Index>(), 1u8..4).prop_map(|(at, rows)| Act::Squeeze(at, rows)),
        2 => any::<Index>().prop_map(Act::Revert),
        1 => any::<Index>().prop_map(Act::Fork),
        2 => any::<Index>().prop_map(Act::Merge),
    ]
}

/// Carries acts out; those that are refused do nothing. Returns all heads there were.
fn history(repo: &Repo, acts: &[Act]) -> Vec<CommitId> {
    let mut branches = vec![RefName::branch("main").unwrap()];
    let mut heads = Vec::new();
    for (n, act) in acts.iter().enumerate() {
        let branch = branches[n * 7 % branches.len()].clone();
        let head = block_on(repo.head_of(&branch)).unwrap();
        let line = block_on(repo.line(head)).unwrap();
        let slots: Vec<CommitId> = line.view().rows().map(|row| row.slot).collect();
        let request = match act {
            Act::Say => Request::Append(Draft::user(format!("user {n}"))),
            Act::Call(count, id) => {
                let calls = (0..*count).fold(Draft::assistant(""), |draft, k| {
                    draft.call(format!("c{}", id + k), format!("t{k}"), "{}")
                });
                Request::Append(calls)
            }
            Act::Answer(id, failed) => {
                let draft = Draft::tool_result(format!("c{id}"), format!("out {n}"));
                Request::Append(draft.is_error(*failed))
            }
            Act::Orphan(id) => {
                Request::Import(Draft::tool_result(format!("c{id}"), "odd").tool_name("odd"))
            }
            Act::Edit(at) if !slots.is_empty() => {
                Request::edit_text(*at.get(&slots), format!("edit {n}"))
            }
            Act::Squeeze(at, rows) if !slots.is_empty() => {
                let from = at.index(slots.len());
                let to = (from + usize::from(*rows)).min(slots.len() - 1);
                let select = Selection::Range { from: Some(slots[from]), to: Some(slots[to]) };
                Request::compress(select, "sum")
            }
            Act::Revert(at) if !heads.is_empty() => Request::revert([*at.get(&heads)]),
            Act::Fork(at) if !heads.is_empty() => {
                let name = format!("b{n}");
                branches.push(block_on(repo.create_branch(&name, *at.get(&heads))).unwrap());
                continue;
            }
            Act::Merge(at) if !heads.is_empty() => {
                let options = MergeOptions::new();
                let merged = block_on(repo.merge(&branch, *at.get(&heads), &options));
                if merged.is_ok() {
                    heads.extend(block_on(repo.head_of(&branch)).unwrap());
                }
                continue;
            }
            Act::Edit(_) | Act::Squeeze(..) | Act::Revert(_) | Act::Fork(_) | Act::Merge(_) => {
                continue;
            }
        };
        if let Ok(commit) = block_on(repo.write_one(&branch, request)) {
            heads.push(commit.id());
        }
    }
    heads
}

/// What the view says: each row with calls, and the rows that answer it.
fn seen(repo: &Repo, head: CommitId) -> BTreeMap<CommitId, Vec<CommitId>> {
    let line = block_on(repo.line(Some(head))).unwrap();
    let mut turns = BTreeMap::new();
    for row in line.view().rows() {
        let content = block_on(repo.content_of(row.version)).unwrap();
        if content.calls().count() > 0 {
            turns.entry(row.slot).or_insert_with(Vec::new);
        }
    }
    let mut answers: Vec<_> =
        line.view().rows().filter_map(|row| Some((row.answers?, row.slot))).collect();
    answers.sort();
    for (call, slot) in answers {
        turns.entry(call.slot).or_default().push(slot);
    }
    turns
}

fn found(repo: &Repo, head: CommitId, hidden: bool) -> Vec<ToolTurn> {
    let query = ToolQuery::new().hidden(hidden);
    block_on(repo.find_tool_turns(Some(head), &query)).unwrap().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_index_gives_what_the_walk_gives(
        acts in prop::collection::vec(act(), 10..60),
        every in 1u64..9,
    ) {
        let repo = repo(every);
        let heads = history(&repo, &acts);
        let by_index: Vec<_> = heads
            .iter()
            .map(|head| (found(&repo, *head, false), found(&repo, *head, true)))
            .collect();
        for (head, (shown, _)) in heads.iter().zip(&by_index) {
            let shown: BTreeMap<_, _> =
                shown.iter().map(|turn| (turn.call, turn.result_ids())).collect();
            prop_assert_eq!(shown, seen(&repo, *head), "at {}", head);
        }
        let report = block_on(tract_engine::verify(&repo, &Default::default())).unwrap();
        prop_assert!(report.clean, "{:?}", report.damage);
        block_on(repo.store().drop_derived(repo.name())).unwrap();
        let walks = cold(&repo);
        for (head, by_index) in heads.iter().zip(&by_index) {
            prop_assert_eq!(&(found(&walks, *head, false), found(&walks, *head, true)), by_index);
        }
    }
}

#[test]
fn a_skipped_turn_is_a_turn() {
    let repo = repo(1);
    let branch = RefName::branch("main").unwrap();
    let call = Draft::assistant("").call("c1", "t", "{}");
    let made = block_on(repo.append(&branch, call)).unwrap();
    block_on(repo.annotate(&branch, &[made.id()], Priority::Skip)).unwrap();
    assert_eq!(found(&repo, block_on(repo.head_of(&branch)).unwrap().unwrap(), false).len(), 1);
}
