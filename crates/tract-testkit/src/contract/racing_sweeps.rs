//! Sweeps next to writers that need what they delete.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tract_core::store::{ListKind, ObjectListing, Sweep, SweepAnswer};
use tract_core::{
    Applied, Batch, CommitId, ObjectId, RefTarget, RepoName, Store, StoreErrorKind, StoreExt,
    StoreResult, block_on,
};

use crate::Harness;
use crate::fixtures::{advance, batch, done, moving, push, record};
use crate::suite::Capability;

const WRITERS: usize = 3;

/// A handle of its own where the store may have several.
fn opened(harness: &Harness, shared: &Arc<dyn Store>) -> StoreResult<Arc<dyn Store>> {
    match harness.missing_capabilities().contains(&Capability::MultiProcess) {
        true => Ok(Arc::clone(shared)),
        false => harness.open(),
    }
}

pub(super) async fn sweeps_and_racing_writers_lose_nothing(harness: Harness) -> StoreResult<()> {
    let (store, repo) = (harness.open()?, harness.repo());
    let rounds = crate::scaled(500, 0.06, 12);
    let writing = AtomicUsize::new(WRITERS);
    let (lines, swept) = thread::scope(|scope| -> StoreResult<(Vec<Vec<CommitId>>, usize)> {
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let own = opened(&harness, &store)?;
            let (repo, writing) = (&repo, &writing);
            writers.push(scope.spawn(move || {
                let line = block_on(write(&*own, repo, writer, rounds));
                writing.fetch_sub(1, Ordering::AcqRel);
                line
            }));
        }
        let own = opened(&harness, &store)?;
        let (repo, writing) = (&repo, &writing);
        let sweeper = scope.spawn(move || {
            let mut swept = 0;
            while writing.load(Ordering::Acquire) > 0 {
                swept += block_on(collect(&*own, repo))?;
            }
            // What the last round left.
            Ok(swept + block_on(collect(&*own, repo))?)
        });
        let lines: StoreResult<Vec<Vec<CommitId>>> =
            writers.into_iter().map(|writer| writer.join().expect("no panic")).collect();
        let swept: StoreResult<usize> = sweeper.join().expect("no panic");
        Ok((lines?, swept?))
    })?;
    assert!(swept > 0, "there was garbage");
    for line in lines {
        let head = *line.last().expect("a line has commits");
        let walked = store.walk_all(&repo, head).await?;
        let ids: Vec<CommitId> = walked.iter().rev().map(|commit| commit.id()).collect();
        assert_eq!(ids, line, "nothing of a branch is lost");
        for commit in walked {
            let content = commit.content.expect("a message has content");
            assert!(store.blob(&repo, content).await?.is_some(), "{content} is there");
        }
    }
    assert_eq!(store.check(&repo, false).await?, [], "the store is sound");
    Ok(())
}

/// Appends to a branch, and leaves garbage behind whose contents it needs soon after.
async fn write(
    store: &dyn Store,
    repo: &RepoName,
    writer: usize,
    rounds: usize,
) -> StoreResult<Vec<CommitId>> {
    let (name, side) = (format!("writer-{writer}"), format!("side-{writer}"));
    let mut line: Vec<CommitId> = Vec::new();
    for round in 0..rounds {
        let text = format!("said by all in round {round}");
        // Garbage: a commit that no ref leads to any more.
        let mut writing = batch("commit");
        let left = push(&mut writing, None, &format!("{writer} leaves {round}")).id();
        writing.blobs.push(record(None, &text).1);
        writing.refs.push(advance(&side, None, left));
        done(store.apply(repo, writing).await)?;
        let mut back = advance(&side, Some(left), left);
        back.to = None;
        done(store.apply(repo, moving(vec![back])).await)?;
        // It relies on a content that may be swept at any moment, and then brings it.
        let head = line.last().copied();
        let mut writing = batch("commit");
        let next = push(&mut writing, head, &text).id();
        writing.refs.push(advance(&name, head, next));
        let relying = Batch { blobs: Vec::new(), ..writing.clone() };
        match store.apply(repo, relying).await {
            Ok(answer) => assert_eq!(answer, Applied::Done),
            Err(error) if matches!(error.kind, StoreErrorKind::Missing { .. }) => {
                done(store.apply(repo, writing).await)?;
            }
            Err(error) => return Err(error),
        }
        line.push(next);
    }
    Ok(line)
}

/// Deletes what no branch leads to, and says how many objects.
async fn collect(store: &dyn Store, repo: &RepoName) -> StoreResult<usize> {
    let position = store.write_position(repo).await?;
    let mut marked: HashSet<ObjectId> = HashSet::new();
    for (_, target) in store.list_refs(repo, "heads/").await? {
        let RefTarget::Commit(head) = target else { continue };
        for commit in store.walk_all(repo, head).await? {
            marked.insert(ObjectId::Commit(commit.id()));
            marked.extend(commit.linked_blobs().map(ObjectId::Blob));
        }
    }
    let mut objects = Vec::new();
    for kind in [ListKind::Commits, ListKind::Blobs] {
        let mut after = 0;
        loop {
            let page = store.list_objects(repo, ObjectListing { kind, after, limit: 64 }).await?;
            let listed = page.objects.into_iter().map(|(object, _)| object);
            objects.extend(listed.filter(|object| !marked.contains(object)));
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
    }
    let count = objects.len();
    if count == 0 {
        return Ok(0);
    }
    // All abandoned commits are roots, so they may go in any order, before their contents.
    match store.sweep(repo, Sweep { position, objects, tools: Vec::new() }).await? {
        SweepAnswer::Done => Ok(count),
        SweepAnswer::Moved(_) => Ok(0),
    }
}
