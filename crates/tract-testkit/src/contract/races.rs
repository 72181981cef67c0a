//! Several writers at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use tract_core::{
    Applied, CommitId, RefTarget, RepoName, Store, StoreErrorKind, StoreExt, StoreResult, block_on,
};

use crate::fixtures::{advance, appending, batch, branch, done, line, push};
use crate::suite::Repo;

/// Appends to a branch from several handles concurrently; returns each write with its answer.
pub(super) fn race(
    stores: &[Arc<dyn Store>],
    repo: &RepoName,
    branch: &str,
    head: Option<CommitId>,
) -> Vec<(CommitId, StoreResult<Applied>)> {
    let barrier = &Barrier::new(stores.len());
    thread::scope(|scope| {
        let race = |(writer, store): (usize, &'_ Arc<dyn Store>)| {
            let store = Arc::clone(store);
            scope.spawn(move || {
                let (writing, next) = appending(branch, head, &format!("writer {writer}"));
                barrier.wait();
                (next, block_on(store.apply(repo, writing)))
            })
        };
        let writers: Vec<_> = stores.iter().enumerate().map(race).collect();
        writers.into_iter().map(|writer| writer.join().expect("no panic")).collect()
    })
}

pub(super) async fn racing_writers_have_one_winner((store, repo): Repo) -> StoreResult<()> {
    for round in 0..20 {
        let name = format!("round-{round}");
        let answers = race(&vec![Arc::clone(&store); 4], &repo, &name, None);
        let target = store.ref_target(&repo, &branch(&name)).await?;
        let mut winners = 0;
        for (commit, answer) in answers {
            let stored = store.commit(&repo, commit).await?.is_some();
            match answer? {
                Applied::Done => {
                    winners += 1;
                    assert_eq!(target, Some(RefTarget::Commit(commit)));
                    assert!(stored);
                }
                Applied::Conflict(conflict) => {
                    assert_eq!(conflict.found, target);
                    assert!(!stored, "who loses leaves nothing");
                }
                Applied::Already | Applied::Moved(_) => panic!("expected done or conflict"),
            }
        }
        assert_eq!(winners, 1, "round {round}");
    }
    Ok(())
}

pub(super) async fn racing_appends_lose_nothing((store, repo): Repo) -> StoreResult<()> {
    const WRITERS: usize = 4;
    const EACH: usize = 25;
    line(&*store, &repo, "main", None, &["root"]).await?;
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, repo) = (&store, &repo);
            scope.spawn(move || {
                let mut stored = 0;
                while stored < EACH {
                    let head = block_on(store.ref_target(repo, &branch("main")));
                    let head = head.expect("the branch can be read").and_then(|to| to.commit());
                    let (writing, _) = appending("main", head, &format!("{writer}: {stored}"));
                    match block_on(store.apply(repo, writing)) {
                        Ok(Applied::Done) => stored += 1,
                        Ok(Applied::Conflict(_)) => {}
                        Err(error) if error.kind == StoreErrorKind::Busy => {}
                        other => panic!("expected done or conflict, found {other:?}"),
                    }
                }
            });
        }
    });
    let head = store.ref_target(&repo, &branch("main")).await?.and_then(|to| to.commit());
    let walked = store.walk_all(&repo, head.expect("the branch is there")).await?;
    assert_eq!(walked.len(), WRITERS * EACH + 1);
    assert_eq!(store.ref_log(&repo, &Default::default()).await?.len(), WRITERS * EACH + 1);
    assert_eq!(store.check(&repo, false).await?, []);
    Ok(())
}

pub(super) async fn branches_do_not_conflict((store, repo): Repo) -> StoreResult<()> {
    let root = line(&*store, &repo, "main", None, &["root"]).await?.remove(0).id();
    let heads: Vec<_> = thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (store, repo) = (&store, &repo);
                scope.spawn(move || -> StoreResult<_> {
                    let (name, mut at, mut head) = (format!("branch-{writer}"), None, root);
                    for n in 0..25 {
                        let mut writing = batch("commit");
                        let next = push(&mut writing, Some(head), &format!("{writer}: {n}")).id();
                        writing.refs.push(advance(&name, at, next));
                        done(block_on(store.apply(repo, writing)))?;
                        (at, head) = (Some(next), next);
                    }
                    Ok(head)
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().expect("no conflict")).collect()
    });
    for head in heads {
        assert_eq!(store.walk_all(&repo, head?).await?.len(), 26);
    }
    assert_eq!(store.check(&repo, false).await?, []);
    Ok(())
}

pub(super) async fn readers_see_whole_batches((store, repo): Repo) -> StoreResult<()> {
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| -> StoreResult<usize> {
            let mut seen = 0;
            while !finished.load(Ordering::Acquire) || seen == 0 {
                let refs = block_on(store.refs(&repo, &[branch("main")]))?;
                let Some(head) = refs.into_iter().flatten().next().and_then(|to| to.commit())
                else {
                    continue;
                };
                // The target of the ref is there, with everything below it.
                let walked = block_on(store.walk_all(&repo, head))?;
                assert_eq!(walked.len() % 3, 0, "half a batch");
                for commit in walked.iter().take(3) {
                    let content = commit.content.expect("messages have content");
                    block_on(store.require_blob(&repo, content))?;
                }
                seen += 1;
            }
            Ok(seen)
        });
        let mut head = None;
        for n in 0..60 {
            let mut writing = batch("commit");
            let mut next = head;
            for part in 0..3 {
                next = Some(push(&mut writing, next, &format!("{n}.{part}")).id());
            }
            writing.refs.push(advance("main", head, next.expect("three were made")));
            done(block_on(store.apply(&repo, writing)))?;
            head = next;
        }
        finished.store(true, Ordering::Release);
        reader.join().expect("the reader sees nothing odd").map(drop)
    })
}
