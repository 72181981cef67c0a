//! Repacks: blobs are rewritten smaller, and reads return the same.

use tract_core::store::{RepackPage, RepackStep};
use tract_core::{
    Batch, Blob, Commit, CommitId, ObjectId, RefTarget, RepoName, Store, StoreExt, StoreResult,
};

use crate::Harness;
use crate::fixtures::{advance, batch, branch, done, erasing, push, request};
use crate::suite::Capability;
use crate::suite::Repo;

/// A number of messages that suffices to train a dictionary.
const MESSAGES: usize = 600;

async fn talk(
    store: &dyn Store,
    repo: &RepoName,
    name: &str,
    numbers: std::ops::Range<usize>,
) -> StoreResult<Vec<Commit>> {
    let mut commits: Vec<Commit> = Vec::new();
    for some in numbers.collect::<Vec<_>>().chunks(100) {
        let mut write = batch("commit");
        let before = commits.last().map(Commit::id);
        for number in some {
            let parent = commits.last().map(Commit::id);
            commits.push(push(&mut write, parent, &request(*number)));
        }
        if let Some(last) = commits.last() {
            write.refs.push(advance(name, before, last.id()));
        }
        done(store.apply(repo, write).await)?;
    }
    Ok(commits)
}

/// Runs all steps; returns the sum of their pages.
async fn repack(store: &dyn Store, repo: &RepoName) -> StoreResult<RepackPage> {
    let (mut sum, mut step) = (RepackPage::default(), RepackStep::Train);
    loop {
        let page = store.repack(repo, step).await?;
        sum.blobs += page.blobs;
        sum.written += page.written;
        sum.before += page.before;
        sum.after += page.after;
        sum.unreadable += page.unreadable;
        match page.next {
            Some(next) => step = next,
            None => return Ok(sum),
        }
    }
}

async fn assert_reads(
    store: &dyn Store,
    repo: &RepoName,
    head: CommitId,
    commits: &[Commit],
    from: usize,
) -> StoreResult<()> {
    let walked = store.walk_all(repo, head).await?;
    assert_eq!(walked.iter().rev().collect::<Vec<_>>(), commits.iter().collect::<Vec<_>>());
    for (number, commit) in (from..).zip(commits) {
        let content = commit.content.expect("a message has content");
        let blob = store.blob(repo, content).await?.expect("it is stored");
        assert!(blob.text().is_some_and(|found| found.contains(&request(number))), "{number}");
    }
    assert_eq!(store.check(repo, false).await?, [], "the store is sound");
    Ok(())
}

/// Short blobs, a long one, and blobs that begin like compressed ones.
fn odd_blobs() -> Vec<Blob> {
    let mut blobs: Vec<Blob> = (0xFCu8..=0xFF)
        .flat_map(|first| [vec![first], vec![first, 0xD8, 0xFF, 0xE0, 0, 16], vec![first; 4000]])
        .map(Blob::seal)
        .collect();
    blobs.extend(["", "x", "{}"].map(Blob::seal));
    blobs.push(Blob::seal("a line that comes again and again\n".repeat(50_000)));
    blobs
}

fn linking(blobs: &[Blob]) -> Batch {
    Batch { blobs: blobs.to_vec(), ..batch("blobs") }
}

pub(super) async fn repacked_blobs_read_the_same(harness: Harness) -> StoreResult<()> {
    let (store, repo) = (harness.open()?, harness.repo());
    let commits = talk(&*store, &repo, "main", 0..MESSAGES).await?;
    let head = commits[MESSAGES - 1].id();
    let odd = odd_blobs();
    done(store.apply(&repo, linking(&odd)).await)?;
    let (before, log) =
        (store.stats(&repo).await?, store.ref_log(&repo, &Default::default()).await?);
    let position = store.write_position(&repo).await.ok();

    let sum = repack(&*store, &repo).await?;
    assert_eq!((sum.blobs, sum.unreadable), (before.blobs, 0));
    assert_eq!(sum.before, before.blob_bytes);
    assert!(sum.after * 2 < sum.before, "from {} to {} bytes", sum.before, sum.after);
    let after = store.stats(&repo).await?;
    assert_eq!(after.blob_bytes, sum.after);
    assert_eq!(
        (after.blobs, after.commits, after.refs),
        (before.blobs, before.commits, before.refs)
    );
    assert_eq!(store.ref_log(&repo, &Default::default()).await?, log);
    assert_eq!(store.write_position(&repo).await.ok(), position, "nothing was stored");

    // Stored objects are found, also after they were rewritten.
    done(store.apply(&repo, linking(&odd)).await)?;
    let mut again = batch("commit");
    let parent = commits.first().map(Commit::id);
    push(&mut again, parent, &request(5));
    done(store.apply(&repo, again).await)?;
    assert_eq!(store.stats(&repo).await?.blobs, before.blobs);

    let sum = repack(&*store, &repo).await?;
    assert_eq!((sum.blobs, sum.unreadable), (before.blobs, 0));
    let store = match harness.missing_capabilities().contains(&Capability::Persistent) {
        true => store,
        false => {
            store.close().await?;
            drop(store);
            harness.open()?
        }
    };
    assert_reads(&*store, &repo, head, &commits, 0).await?;
    for blob in &odd {
        assert_eq!(store.blob(&repo, blob.id()).await?.as_ref(), Some(blob));
    }
    let prefix = tract_core::IdPrefix::new(&odd[3].id().to_string()[..12]).expect("digits");
    let found = store.resolve_prefix(&repo, &prefix, 10).await?;
    assert_eq!(found, [ObjectId::Blob(odd[3].id())]);
    Ok(())
}

pub(super) async fn repack_leaves_other_repositories((store, repo): Repo) -> StoreResult<()> {
    let other = RepoName::new("other").expect("a valid name");
    let commits = talk(&*store, &repo, "main", 0..MESSAGES).await?;
    let others = talk(&*store, &other, "main", 300..900).await?;
    let before = store.stats(&other).await?.blob_bytes;
    repack(&*store, &repo).await?;
    assert_eq!(store.stats(&other).await?.blob_bytes, before);
    assert_reads(&*store, &repo, commits[MESSAGES - 1].id(), &commits, 0).await?;
    assert_reads(&*store, &other, others[599].id(), &others, 300).await?;
    repack(&*store, &other).await?;
    assert_reads(&*store, &other, others[599].id(), &others, 300).await
}

pub(super) async fn others_write_between_the_steps_of_a_repack(
    harness: Harness,
) -> StoreResult<()> {
    let (store, repo) = (harness.open()?, harness.repo());
    let writer = match harness.missing_capabilities().contains(&Capability::MultiProcess) {
        true => std::sync::Arc::clone(&store),
        false => harness.open()?,
    };
    let commits = talk(&*store, &repo, "main", 0..MESSAGES).await?;
    let (mut step, mut steps) = (RepackStep::Train, 0);
    let mut written = Vec::new();
    loop {
        let from = 1000 + 10 * steps;
        written.push((from, talk(&*writer, &repo, &format!("b{steps}"), from..from + 10).await?));
        // Two concurrent repacks: each trains a dictionary, and neither removes the other's.
        if steps == 1 {
            repack(&*writer, &repo).await?;
        }
        let page = store.repack(&repo, step).await?;
        steps += 1;
        match page.next {
            Some(next) => step = next,
            None => break,
        }
    }
    assert!(steps >= 4, "it has steps, {steps} were seen");
    assert_reads(&*writer, &repo, commits[MESSAGES - 1].id(), &commits, 0).await?;
    for (from, commits) in written {
        assert_reads(&*store, &repo, commits[9].id(), &commits, from).await?;
    }
    Ok(())
}

pub(super) async fn repack_that_was_cut_short_begins_again((store, repo): Repo) -> StoreResult<()> {
    let commits = talk(&*store, &repo, "main", 0..MESSAGES).await?;
    for cut in 1..4 {
        let mut step = RepackStep::Train;
        for _ in 0..cut {
            match store.repack(&repo, step).await?.next {
                Some(next) => step = next,
                None => break,
            }
        }
        assert_reads(&*store, &repo, commits[MESSAGES - 1].id(), &commits, 0).await?;
    }
    let sum = repack(&*store, &repo).await?;
    assert_eq!(sum.unreadable, 0);
    assert_reads(&*store, &repo, commits[MESSAGES - 1].id(), &commits, 0).await
}

pub(super) async fn wiped_store_reads_what_was_packed_with_what_is_erased(
    harness: Harness,
) -> StoreResult<()> {
    if harness.missing_capabilities().contains(&Capability::Erases) {
        return Ok(());
    }
    let (store, repo) = (harness.open()?, harness.repo());
    let commits = talk(&*store, &repo, "main", 0..MESSAGES).await?;
    repack(&*store, &repo).await?;
    let secret = commits[100].content.expect("a message has content");
    done(store.apply(&repo, erasing(secret)).await)?;
    // A stale dictionary is skipped until a wipe or a repack removes it.
    let packed = store.stats(&repo).await?.blob_bytes;
    store.wipe().await?;
    assert!(
        store.stats(&repo).await?.blob_bytes > packed,
        "without their dictionary they are longer"
    );
    let mut left = commits.clone();
    left.remove(100);
    for commit in &left {
        let content = commit.content.expect("a message has content");
        assert!(store.blob(&repo, content).await?.is_some());
    }
    assert_eq!(store.check(&repo, false).await?, [], "the store is sound");
    let sum = repack(&*store, &repo).await?;
    assert_eq!(sum.unreadable, 0);
    assert!(store.stats(&repo).await?.blob_bytes < 2 * packed);
    let refs = store.refs(&repo, &[branch("main")]).await?;
    assert_eq!(refs, [commits.last().map(|last| RefTarget::Commit(last.id()))]);
    Ok(())
}

pub(super) async fn repack_of_nothing_is_done_at_once((store, repo): Repo) -> StoreResult<()> {
    let sum = repack(&*store, &repo).await?;
    assert_eq!((sum.blobs, sum.written), (0, 0));
    Ok(())
}
