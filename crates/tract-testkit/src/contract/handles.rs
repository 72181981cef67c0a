//! Several handles on one store, and one that is never closed.

use tract_core::{
    Applied, Commit, CommitId, Expect, RefTarget, RepoName, Store, StoreExt, StoreResult,
};

use super::races::race;
use crate::Harness;
use crate::fixtures::{appending, branch, done};

/// Appends a message to the main branch.
async fn append(
    store: &dyn Store,
    repo: &RepoName,
    parent: Option<CommitId>,
    text: &str,
) -> StoreResult<Commit> {
    let (writing, _) = appending("main", parent, text);
    let commit = writing.commits[0].clone();
    done(store.apply(repo, writing).await)?;
    Ok(commit)
}

pub(super) async fn two_handles_are_one_store(harness: Harness) -> StoreResult<()> {
    let (one, two, repo) = (harness.open()?, harness.open()?, harness.repo());
    let first = append(&*one, &repo, None, "one").await?;
    assert_eq!(two.commit(&repo, first.id()).await?.as_ref(), Some(&first), "what is new is seen");
    let second = append(&*two, &repo, Some(first.id()), "two").await?;
    // The first handle's knowledge of the branch is outdated.
    let main = Some(RefTarget::Commit(second.id()));
    assert_eq!(one.ref_target(&repo, &branch("main")).await?, main);
    assert_eq!(one.ref_log(&repo, &Default::default()).await?.len(), 2);
    let walked: Vec<CommitId> =
        one.walk_all(&repo, second.id()).await?.iter().map(Commit::id).collect();
    assert_eq!(walked, [second.id(), first.id()]);
    let (stale, _) = appending("main", Some(first.id()), "three");
    let answer = one.apply(&repo, stale).await?;
    let Applied::Conflict(conflict) = answer else { panic!("expected a conflict: {answer:?}") };
    assert_eq!(
        (conflict.found, conflict.expected),
        (main, Expect::Is(RefTarget::Commit(first.id())))
    );
    // Both handles recognize a batch that one of them applied.
    let (again, third) = appending("main", Some(second.id()), "three");
    done(one.apply(&repo, again.clone()).await)?;
    assert_eq!(two.apply(&repo, again).await?, Applied::Already);
    one.close().await?;
    append(&*two, &repo, Some(third), "four").await?;
    assert_eq!(two.check(&repo, false).await?, []);
    Ok(())
}

pub(super) async fn racing_handles_have_one_winner(harness: Harness) -> StoreResult<()> {
    let stores: Vec<_> = (0..3).map(|_| harness.open()).collect::<StoreResult<_>>()?;
    let (repo, main) = (harness.repo(), branch("main"));
    let mut head = None;
    for round in 0..12 {
        let mut winners = Vec::new();
        for (next, answer) in race(&stores, &repo, "main", head) {
            match answer? {
                Applied::Done => winners.push(next),
                Applied::Conflict(_) => {}
                Applied::Already | Applied::Moved(_) => panic!("expected done or conflict"),
            }
        }
        assert_eq!(winners.len(), 1, "round {round}");
        head = winners.pop();
        for store in &stores {
            assert_eq!(store.ref_target(&repo, &main).await?, head.map(RefTarget::Commit));
        }
    }
    Ok(())
}

pub(super) async fn acknowledged_writes_outlive_a_kill(harness: Harness) -> StoreResult<()> {
    let (store, repo) = (harness.open()?, harness.repo());
    let mut acknowledged: Vec<CommitId> = Vec::new();
    for n in 0..5 {
        let text = format!("message {n}");
        let next = append(&*store, &repo, acknowledged.last().copied(), &text).await?;
        acknowledged.push(next.id());
        let killed = harness.as_killed()?;
        let left = killed.open()?;
        let head = left.ref_target(&repo, &branch("main")).await?;
        assert_eq!(
            head,
            acknowledged.last().copied().map(RefTarget::Commit),
            "after {} writes",
            n + 1
        );
        let found = left.walk_all(&repo, next.id()).await?;
        assert!(found.iter().rev().map(Commit::id).eq(acknowledged.iter().copied()));
        let content = next.content.expect("a message has content");
        assert!(left.blob(&repo, content).await?.is_some());
        assert_eq!(left.ref_log(&repo, &Default::default()).await?.len(), acknowledged.len());
        assert_eq!(left.check(&repo, false).await?, []);
    }
    drop(store);
    Ok(())
}
