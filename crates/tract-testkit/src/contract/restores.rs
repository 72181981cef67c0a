//! Restores: intact copies replace missing objects.

use std::collections::BTreeSet;

use tract_core::store::ObjectCopies;
use tract_core::{Batch, ObjectId, RefName, RepoName, Store, StoreExt, StoreResult};

use crate::Harness;
use crate::fixtures::{
    advance, batch, done, erasing, line, moving, push, push_with_tools, schemas,
};
use crate::suite::{Capability, Repo};

/// A history of three commits, one of them with tools, that is not stored.
fn unstored() -> Batch {
    let tools = schemas(&[r#"{"name":"find"}"#, r#"{"name":"read"}"#]);
    let mut made = batch("commit");
    let first = push(&mut made, None, "one").id();
    let second = push_with_tools(&mut made, Some(first), "two", &tools).id();
    push(&mut made, Some(second), "three");
    made
}

fn copies(batch: &Batch) -> ObjectCopies {
    ObjectCopies {
        commits: batch.commits.clone(),
        blobs: batch.blobs.clone(),
        toolsets: batch.toolsets.clone(),
    }
}

fn sorted(objects: impl IntoIterator<Item = ObjectId>) -> BTreeSet<ObjectId> {
    objects.into_iter().collect()
}

/// Moves a branch to the last commit, and reads everything.
async fn assert_whole(store: &dyn Store, repo: &RepoName, made: &Batch) -> StoreResult<()> {
    let head = made.commits.last().expect("it has commits").id();
    let edit = advance("main", None, head);
    let name = edit.name.clone();
    if store.ref_target(repo, &name).await?.is_none() {
        done(store.apply(repo, moving(vec![edit])).await)?;
    }
    // Rows and places that only a repair writes.
    store.check(repo, true).await?;
    let walked = store.walk_all(repo, head).await?;
    assert!(walked.iter().rev().eq(&made.commits), "the walk gives all of them");
    for commit in &made.commits {
        assert_eq!(store.commit(repo, commit.id()).await?.as_ref(), Some(commit));
    }
    for blob in &made.blobs {
        assert_eq!(store.blob(repo, blob.id()).await?.as_ref(), Some(blob));
    }
    for toolset in &made.toolsets {
        assert_eq!(store.toolsets(repo, &[toolset.id()]).await?, [Some(toolset.clone())]);
    }
    assert_eq!(store.check(repo, false).await?, [], "the store is sound");
    Ok(())
}

pub(super) async fn restored_objects_are_stored((store, repo): Repo) -> StoreResult<()> {
    let made = unstored();
    line(&*store, &repo, "other", None, &["else"]).await?;
    let before = store.write_position(&repo).await.ok();
    let restored = store.restore(&repo, copies(&made)).await?;
    let objects = made.objects().filter(|object| !matches!(object, ObjectId::Tool(_)));
    assert_eq!(sorted(restored), sorted(objects));
    let after = store.write_position(&repo).await.ok();
    if let (Some(before), Some(after)) = (before, after) {
        assert_eq!(before.log, after.log, "no ref moved");
        assert_ne!(before.unlogged, after.unlogged, "objects were stored and no ref moved");
    }
    assert_whole(&*store, &repo, &made).await
}

pub(super) async fn restore_leaves_what_is_whole((store, repo): Repo) -> StoreResult<()> {
    let made = unstored();
    done(store.apply(&repo, made.clone()).await)?;
    let before = store.write_position(&repo).await.ok();
    assert_eq!(store.restore(&repo, copies(&made)).await?, []);
    assert_eq!(store.write_position(&repo).await.ok(), before, "nothing was written");
    assert_whole(&*store, &repo, &made).await
}

pub(super) async fn restored_links_may_come_later((store, repo): Repo) -> StoreResult<()> {
    let made = unstored();
    let all = copies(&made);
    for commit in made.commits.iter().rev() {
        let one = ObjectCopies { commits: vec![commit.clone()], ..ObjectCopies::default() };
        assert_eq!(store.restore(&repo, one).await?, [ObjectId::Commit(commit.id())]);
    }
    let toolsets = ObjectCopies { toolsets: all.toolsets, ..ObjectCopies::default() };
    store.restore(&repo, toolsets).await?;
    let blobs = ObjectCopies { blobs: all.blobs, ..ObjectCopies::default() };
    store.restore(&repo, blobs).await?;
    assert_whole(&*store, &repo, &made).await
}

pub(super) async fn restore_leaves_out_what_was_erased((store, repo): Repo) -> StoreResult<()> {
    if !store.capabilities().erases {
        return Ok(());
    }
    let made = unstored();
    done(store.apply(&repo, made.clone()).await)?;
    let secret = made.blobs[0].id();
    done(store.apply(&repo, erasing(secret)).await)?;
    assert_eq!(store.restore(&repo, copies(&made)).await?, []);
    assert_eq!(store.blob(&repo, secret).await?, None, "it stays erased");
    assert!(store.ref_target(&repo, &RefName::erasure(secret)).await?.is_some());
    Ok(())
}

pub(super) async fn restore_leaves_other_repositories((store, repo): Repo) -> StoreResult<()> {
    let (made, other) = (unstored(), RepoName::new("other").expect("a valid name"));
    line(&*store, &other, "main", None, &["else"]).await?;
    store.restore(&repo, copies(&made)).await?;
    for blob in &made.blobs {
        assert_eq!(store.blob(&other, blob.id()).await?, None);
    }
    assert_eq!(store.stats(&other).await?.commits, 1);
    assert_whole(&*store, &repo, &made).await
}

pub(super) async fn restored_objects_stay(harness: Harness) -> StoreResult<()> {
    let (made, repo) = (unstored(), RepoName::default());
    let store = harness.open()?;
    let claims = store.capabilities();
    if Capability::MultiProcess.is_claimed(claims) {
        let other = harness.open()?;
        assert_eq!(other.commit(&repo, made.commits[0].id()).await?, None);
        store.restore(&repo, copies(&made)).await?;
        assert_whole(&*other, &repo, &made).await?;
        other.close().await?;
    } else {
        store.restore(&repo, copies(&made)).await?;
        assert_whole(&*store, &repo, &made).await?;
    }
    store.close().await?;
    drop(store);
    if Capability::Persistent.is_claimed(claims) {
        assert_whole(&*harness.open()?, &repo, &made).await?;
    }
    Ok(())
}
