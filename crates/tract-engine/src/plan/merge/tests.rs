//! The work of a merge grows with the changes of both sides, not with their product.

use tract_core::{CommitId, Draft, RefName, block_on};
use tract_testkit::visits;

use super::super::tests::{Fixture, is_near_linear};
use crate::plan::{Request, Selection};
use crate::{Error, MergeOptions, Refusal, merge_in};

/// A branch at the head of another one.
fn fork(desk: &Fixture) -> Fixture {
    let head = block_on(desk.repo.head_of(&desk.branch)).expect("a branch").expect("a commit");
    block_on(desk.repo.create_branch("side", head)).expect("a new branch");
    let branch = RefName::branch("side").expect("a name");
    Fixture { repo: desk.repo.clone(), branch }
}

/// Returns the number of visits of a merge, and the number of its conflicts.
fn visits_of_merge(desk: &Fixture, side: &Fixture) -> (usize, usize) {
    let source = block_on(side.repo.head_of(&side.branch)).expect("a branch").expect("a commit");
    visits::take();
    let merged = block_on(desk.repo.merge(&desk.branch, source, &MergeOptions::default()));
    let visits = visits::take();
    match merged {
        Ok(_) => (visits, 0),
        Err(Error::Refused(Refusal::Conflicts(conflicts))) => (visits, conflicts.len()),
        Err(error) => panic!("{error}"),
    }
}

fn messages(desk: &Fixture, count: usize) -> Vec<CommitId> {
    desk.write((0..count).map(|n| Draft::user(format!("{n}")).into()).collect())
}

fn summarize(desk: &Fixture, messages: &[CommitId], text: &str) {
    let one = |(n, pair): (usize, &[CommitId])| {
        Request::compress(Selection::Targets(pair.to_vec()), format!("{text} {n}"))
    };
    desk.write(messages.chunks(2).enumerate().map(one).collect());
}

/// Checks that a merge visits each message a few times, and the number of its conflicts. Both
/// numbers are per unit of `size`: the messages that both sides changed, and the conflicts.
fn is_cheap(
    messages_each: usize,
    conflicts_each: usize,
    change: impl Fn(&Fixture, &Fixture, &[CommitId]),
) {
    let visits = |size: usize| {
        let desk = Fixture::new();
        let all = messages(&desk, messages_each * size);
        let side = fork(&desk);
        change(&desk, &side, &all);
        let (visits, conflicts) = visits_of_merge(&desk, &side);
        assert_eq!(conflicts, conflicts_each * size);
        visits
    };
    is_near_linear(visits, 50);
}

#[test]
fn a_merge_of_summaries_on_both_sides_looks_at_each_a_few_times() {
    is_cheap(4, 0, |desk, side, all| {
        let (ours, theirs) = all.split_at(all.len() / 2);
        summarize(desk, ours, "ours");
        summarize(side, theirs, "theirs");
    });
}

#[test]
fn a_merge_of_equal_summaries_looks_at_each_a_few_times() {
    is_cheap(2, 0, |desk, side, all| {
        summarize(desk, all, "same");
        summarize(side, all, "same");
    });
}

#[test]
fn a_merge_with_many_conflicts_looks_at_each_a_few_times() {
    is_cheap(2, 2, |desk, side, all| {
        // Each summary hides a message that the other side changed.
        summarize(side, all, "theirs");
        let edit = |message: &CommitId| Request::edit_text(*message, "changed");
        desk.write(all.iter().map(edit).collect());
    });
}

#[test]
fn the_last_of_many_crossing_merges_visits_as_little_as_the_first() {
    for in_one_write in [false, true] {
        let visits = |merges: usize| {
            let main = Fixture::new();
            messages(&main, 1);
            let side = fork(&main);
            let mut last = 0;
            if in_one_write {
                let mut txn = crate::Txn::new(&main.repo).expect("a write");
                for n in 0..merges {
                    last = cross(&mut txn, [&main.branch, &side.branch], n);
                }
            } else {
                for n in 0..merges {
                    let mut txn = crate::Txn::new(&main.repo).expect("a write");
                    last = cross(&mut txn, [&main.branch, &side.branch], n);
                    let options = crate::WriteOptions::default();
                    let applied = block_on(txn.apply("crossing merges", &options));
                    applied.and_then(crate::repo::batch::require_done).expect("no other writer");
                }
            }
            last
        };
        let (early, late) = (visits(40), visits(400));
        assert!(late <= 2 * early, "{early} visits, then {late} (in one write: {in_one_write})");
    }
}

/// Writes to two branches and merges each into the other as it was. Returns the visits of the
/// second merge.
fn cross(txn: &mut crate::Txn<'_>, [main, side]: [&RefName; 2], n: usize) -> usize {
    let [ours, theirs] = [main, side].map(|branch| {
        let draft = Draft::user(format!("{n} on {branch}"));
        block_on(txn.add(branch, &draft.into())).expect("a message").id()
    });
    let options = MergeOptions::default();
    block_on(merge_in(txn, main, theirs, &options)).expect("no conflict");
    visits::take();
    block_on(merge_in(txn, side, ours, &options)).expect("no conflict");
    visits::take()
}
