use std::collections::HashSet;

use proptest::prelude::*;
use tract_core::{CommitId, block_on};
use tract_engine::{FetchOptions, MergeOptions, Repo, fetch};

use crate::fixture::{branch, chain, counted, head, read, repo, repo_in, say};

fn ancestors(repo: &Repo, head: CommitId) -> HashSet<CommitId> {
    let (mut open, mut seen) = (vec![head], HashSet::new());
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            let commit = block_on(repo.require_commit(id)).expect("it is there");
            open.extend(commit.parents.iter().copied());
        }
    }
    seen
}

#[test]
fn a_branch_is_ahead_and_behind_where_a_remote_has_it() {
    let (ours, theirs) = (repo(), repo());
    chain(&theirs, "main", 200);
    block_on(fetch(&ours, &theirs, "team", &FetchOptions::default())).expect("it is fetched");
    let at = block_on(ours.resolve("team/main~150")).expect("a commit");
    block_on(ours.create_branch("main", at)).expect("it is made");
    for n in 0..70 {
        say(&ours, "main", &format!("mine {n}"));
    }
    let tracking = block_on(ours.tracking(&branch("main"))).expect("it is read");
    assert_eq!(tracking.len(), 1);
    assert_eq!((tracking[0].remote.as_str(), tracking[0].counts.ahead), ("team", 70));
    assert_eq!(tracking[0].counts.behind, 150);
    assert!(block_on(ours.tracking(&branch("none"))).expect("it is read").is_empty());
}

#[test]
fn the_shared_part_of_a_long_chain_is_not_read() {
    let repo = repo();
    let ids = chain(&repo, "main", 6000);
    let (store, counts) = counted(repo.store(), usize::MAX);
    let counted = repo_in(store);
    let found = block_on(counted.ahead_behind(ids[5999], ids[5989])).expect("it is read");
    assert_eq!((found.ahead, found.behind), (10, 0));
    assert!(read(&counts.calls) <= 4, "{counts:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Counted against sets of all ancestors, on random histories with merges.
    #[test]
    fn distances_are_those_of_the_sets_of_ancestors(steps in prop::collection::vec((0..4usize, 0..4usize), 1..40)) {
        let repo = repo();
        say(&repo, "b0", "first");
        let first = head(&repo, &branch("b0")).expect("a head");
        for n in 1..4 {
            block_on(repo.create_branch(&format!("b{n}"), first)).expect("it is made");
        }
        for (n, (at, other)) in steps.into_iter().enumerate() {
            let (at, other) = (branch(&format!("b{at}")), branch(&format!("b{other}")));
            let source = head(&repo, &other).expect("a head");
            if at == other {
                say(&repo, at.branch_name().expect("a branch"), &format!("step {n}"));
            } else {
                block_on(repo.merge(&at, source, &MergeOptions::default())).expect("it merges");
            }
        }
        let heads: Vec<CommitId> =
            (0..4).filter_map(|n| head(&repo, &branch(&format!("b{n}")))).collect();
        for ours in &heads {
            for theirs in &heads {
                let found = block_on(repo.ahead_behind(*ours, *theirs)).expect("it is read");
                let (mine, yours) = (ancestors(&repo, *ours), ancestors(&repo, *theirs));
                prop_assert_eq!(found.ahead, mine.difference(&yours).count());
                prop_assert_eq!(found.behind, yours.difference(&mine).count());
            }
        }
    }
}
