//! Random objects and writes are what they claim to be.

use proptest::prelude::*;
use tract_core::{Applied, Commit, CommitId, Content, RepoName, Step, StoreExt, block_on, memory};
use tract_core::{Store, StoreResult};
use tract_testkit::strategies;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn content_goes_through_its_blob(content in strategies::content()) {
        let blob = content.to_blob().expect("it has a canonical form");
        let back = Content::from_blob(&content.kind(), &blob).expect("it is of that kind");
        prop_assert_eq!(back.to_blob().expect("again"), blob);
    }

    #[test]
    fn histories_are_lines(history in strategies::history()) {
        for step in history {
            let line = step.to_line().expect("each step has a line");
            prop_assert_eq!(Step::parse(&line).expect("which can be read"), step);
        }
    }

    #[test]
    fn every_walk_follows_first_parents(batches in strategies::batches()) {
        let store = memory();
        let repo = RepoName::default();
        let commits: Vec<Commit> = batches.iter().flat_map(|b| b.commits.clone()).collect();
        for batch in batches {
            prop_assert_eq!(block_on(store.apply(&repo, batch)).expect("it goes through"), Applied::Done);
        }
        for commit in &commits {
            let walked = block_on(store.walk_all(&repo, commit.id())).expect("it is stored");
            let walked: Vec<CommitId> = walked.iter().map(Commit::id).collect();
            prop_assert_eq!(walked, following(&commits, commit.id()));
        }
        let damage: StoreResult<_> = block_on(store.check(&repo, false));
        prop_assert_eq!(damage.expect("it can be checked"), []);
    }
}

fn following(commits: &[Commit], head: CommitId) -> Vec<CommitId> {
    let mut line = vec![head];
    while let Some(parent) = commits
        .iter()
        .find(|commit| Some(&commit.id()) == line.last())
        .and_then(|commit| commit.parent())
    {
        line.push(parent);
    }
    line
}
