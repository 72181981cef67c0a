//! Walking first parents.

use tract_core::store::{BlobKey, Walk, WalkPage};
use tract_core::{
    Batch, Commit, CommitId, DerivedKind, RepoName, Store, StoreErrorKind, StoreExt, StoreResult,
};

use crate::fixtures::{
    advance, appending, batch, deriving, done, line, moving, push, record, row, seal,
};
use crate::suite::Repo;

fn ids(page: &WalkPage) -> Vec<CommitId> {
    page.entries.iter().map(|entry| entry.commit.id()).collect()
}

/// Follows first parents with one read each.
async fn following(
    store: &dyn Store,
    repo: &RepoName,
    head: CommitId,
) -> StoreResult<Vec<CommitId>> {
    let (mut found, mut next) = (Vec::new(), Some(head));
    while let Some(id) = next {
        found.push(id);
        next = store.require_commit(repo, id).await?.parent();
    }
    Ok(found)
}

async fn ten(store: &dyn Store, repo: &RepoName) -> StoreResult<Vec<CommitId>> {
    let texts: Vec<String> = (0..10).map(|n| format!("message {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let commits = line(store, repo, "main", None, &texts).await?;
    Ok(commits.iter().map(Commit::id).collect())
}

pub(super) async fn walk_equals_following_parents((store, repo): Repo) -> StoreResult<()> {
    let line = ten(&*store, &repo).await?;
    for head in &line {
        let page = store.walk(&repo, Walk::from(*head)).await?;
        assert_eq!(ids(&page), following(&*store, &repo, *head).await?);
        for entry in &page.entries {
            assert_eq!(Some(&entry.commit), store.commit(&repo, entry.commit.id()).await?.as_ref());
        }
    }
    Ok(())
}

pub(super) async fn walk_ends_at_the_root((store, repo): Repo) -> StoreResult<()> {
    let line = ten(&*store, &repo).await?;
    let page = store.walk(&repo, Walk::from(line[9])).await?;
    assert_eq!(page.entries.len(), 10);
    assert_eq!((page.next, page.stopped), (None, None));
    let exact = store.walk(&repo, Walk { limit: 10, ..Walk::from(line[9]) }).await?;
    assert_eq!(
        (exact.entries.len(), exact.next),
        (10, None),
        "a full page at the root is the last"
    );
    Ok(())
}

pub(super) async fn walk_ends_before_until((store, repo): Repo) -> StoreResult<()> {
    let line = ten(&*store, &repo).await?;
    let until = |until: CommitId| Walk { until: Some(until), ..Walk::from(line[9]) };
    let page = store.walk(&repo, until(line[6])).await?;
    assert_eq!((ids(&page), page.next), (vec![line[9], line[8], line[7]], None));
    let page = store.walk(&repo, until(line[9])).await?;
    assert_eq!((ids(&page), page.next), (vec![], None));
    let page = store.walk(&repo, Walk { limit: 3, ..until(line[6]) }).await?;
    assert_eq!((page.entries.len(), page.next), (3, None), "nothing is left before `until`");
    let elsewhere = store.walk(&repo, until(CommitId::from_bytes([1; 32]))).await?;
    assert_eq!(elsewhere.entries.len(), 10, "what is not on the line ends nothing");
    Ok(())
}

pub(super) async fn walk_ends_before_a_row((store, repo): Repo) -> StoreResult<()> {
    let line = ten(&*store, &repo).await?;
    let rows = [
        row(DerivedKind::Snapshot, line[2], "two"),
        row(DerivedKind::Snapshot, line[6], "six"),
        row(DerivedKind::Turn, line[8], "other kind"),
    ];
    done(store.apply(&repo, deriving(rows)).await)?;
    let walk = |head: CommitId| Walk { stop_at: Some(DerivedKind::Snapshot), ..Walk::from(head) };
    let page = store.walk(&repo, walk(line[9])).await?;
    assert_eq!(ids(&page), [line[9], line[8], line[7]]);
    assert_eq!((page.stopped, page.next), (Some((line[6], "six".into())), None));
    let page = store.walk(&repo, walk(line[6])).await?;
    assert_eq!((ids(&page), page.stopped), (vec![], Some((line[6], "six".into()))));
    let page = store.walk(&repo, walk(line[5])).await?;
    assert_eq!(page.stopped, Some((line[2], "two".into())));
    let page = store.walk(&repo, walk(line[1])).await?;
    assert_eq!((ids(&page), page.stopped), (vec![line[1], line[0]], None));
    // A branch that forks below the row does not meet it; one that forks above does.
    let fork = self::line(&*store, &repo, "fork", Some(line[4]), &["a", "b"]).await?;
    let page = store.walk(&repo, walk(fork[1].id())).await?;
    assert_eq!(ids(&page), [fork[1].id(), fork[0].id(), line[4], line[3]]);
    assert_eq!(page.stopped, Some((line[2], "two".into())));
    let page = store.walk(&repo, Walk { limit: 3, ..walk(line[9]) }).await?;
    assert_eq!(
        (page.entries.len(), page.next.or(page.stopped.map(|(id, _)| id))),
        (3, Some(line[6]))
    );
    Ok(())
}

pub(super) async fn walk_ends_after_limit((store, repo): Repo) -> StoreResult<()> {
    let line = ten(&*store, &repo).await?;
    for limit in 1..12 {
        let (mut walked, mut next) = (Vec::new(), Some(line[9]));
        while let Some(head) = next {
            let page = store.walk(&repo, Walk { limit, ..Walk::from(head) }).await?;
            assert!(page.entries.len() <= limit && !page.entries.is_empty(), "limit {limit}");
            assert!(page.next.is_none() || page.entries.len() == limit, "limit {limit}");
            walked.extend(ids(&page));
            next = page.next;
        }
        assert!(walked.iter().eq(line.iter().rev()), "limit {limit}");
    }
    Ok(())
}

pub(super) async fn walk_pages_join_while_others_write((store, repo): Repo) -> StoreResult<()> {
    let line = ten(&*store, &repo).await?;
    let (mut walked, mut next, mut tip) = (Vec::new(), Some(line[9]), line[9]);
    while let Some(head) = next {
        let page = store.walk(&repo, Walk { limit: 3, ..Walk::from(head) }).await?;
        walked.extend(ids(&page));
        next = page.next;
        // Another writer extends the history, and forks off at the position of the walk.
        let (mut writing, commit) = appending("main", Some(tip), "more");
        if let Some(at) = next {
            push(&mut writing, Some(at), "a fork");
        }
        done(store.apply(&repo, writing).await)?;
        tip = commit;
    }
    assert!(walked.iter().eq(line.iter().rev()));
    Ok(())
}

pub(super) async fn walk_of_unknown_head_is_missing((store, repo): Repo) -> StoreResult<()> {
    let absent = CommitId::from_bytes([1; 32]);
    for is_empty in [true, false] {
        if !is_empty {
            ten(&*store, &repo).await?;
        }
        let error = store.walk(&repo, Walk::from(absent)).await.expect_err("it is not stored");
        let object = tract_core::ObjectId::Commit(absent);
        assert_eq!(error.kind, StoreErrorKind::Missing { object });
        let nothing = Walk { until: Some(absent), ..Walk::from(absent) };
        assert!(store.walk(&repo, nothing).await?.entries.is_empty(), "nothing is read");
    }
    Ok(())
}

pub(super) async fn walk_of_forks((store, repo): Repo) -> StoreResult<()> {
    // A tree in which each commit may continue any earlier one, chosen by a fixed sequence.
    let mut commits: Vec<CommitId> = Vec::new();
    let mut random = 7u64;
    for _ in 0..60 {
        let mut writing = batch("commit");
        for _ in 0..5 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let parent = match commits.len() {
                0 => None,
                count if random >> 62 == 0 => commits.get((random >> 33) as usize % count).copied(),
                _ => commits.last().copied(),
            };
            commits.push(push(&mut writing, parent, "text").id());
        }
        done(store.apply(&repo, writing).await)?;
    }
    for head in commits.iter().step_by(7) {
        let line = following(&*store, &repo, *head).await?;
        for limit in [1, 7, 1000] {
            let (mut walked, mut next) = (Vec::new(), Some(*head));
            while let Some(head) = next {
                let page = store.walk(&repo, Walk { limit, ..Walk::from(head) }).await?;
                assert!(page.entries.len() <= limit);
                walked.extend(ids(&page));
                next = page.next;
            }
            assert_eq!(walked, line, "limit {limit}");
        }
        let (until, before) = line.split_last().expect("the head is on its line");
        let page = store.walk(&repo, Walk { until: Some(*until), ..Walk::from(*head) }).await?;
        assert_eq!((ids(&page).as_slice(), page.next), (before, None));
    }
    assert_eq!(store.check(&repo, false).await?, []);
    Ok(())
}

pub(super) async fn walk_20000_deep((store, repo): Repo) -> StoreResult<()> {
    let mut writing = batch("import");
    let mut commits: Vec<Commit> = Vec::new();
    for n in 0..20_000 {
        let (record, content) =
            record(commits.last().map(Commit::id), &format!("message {}", n % 50));
        writing.blobs.push(content);
        commits.push(seal(record));
    }
    writing.commits = commits.clone();
    let head = commits[19_999].id();
    done(store.apply(&repo, writing).await)?;
    let walked = store.walk_all(&repo, head).await?;
    assert!(walked.iter().eq(commits.iter().rev()));
    Ok(())
}

pub(super) async fn walk_hints_lead_to_content((store, repo): Repo) -> StoreResult<()> {
    let line = ten(&*store, &repo).await?;
    let page = store.walk(&repo, Walk::from(line[9])).await?;
    let keys: Vec<BlobKey> = page
        .entries
        .iter()
        .filter_map(|entry| Some(BlobKey { id: entry.commit.content?, hint: entry.content }))
        .collect();
    let found = store.blobs(&repo, &keys).await?;
    let texts: Vec<_> = found.iter().flatten().filter_map(|blob| blob.text()).collect();
    assert_eq!(texts.len(), 10);
    for (n, text) in texts.iter().rev().enumerate() {
        assert_eq!(*text, format!("\"message {n}\""));
    }
    Ok(())
}

pub(super) async fn two_branches_one_tip((store, repo): Repo) -> StoreResult<()> {
    let line = ten(&*store, &repo).await?;
    done(store.apply(&repo, moving(vec![advance("other", None, line[9])])).await)?;
    let mut heads = Vec::new();
    for name in ["main", "other"] {
        let mut tip = line[9];
        for text in ["a", "b", "c"] {
            let (writing, commit) = appending(name, Some(tip), text);
            done(store.apply(&repo, writing).await)?;
            tip = commit;
        }
        heads.push(tip);
    }
    for head in heads {
        let page = store.walk(&repo, Walk::from(head)).await?;
        assert_eq!(ids(&page), following(&*store, &repo, head).await?);
        assert_eq!(page.entries.len(), 13);
    }
    Ok(())
}

pub(super) async fn undo_then_append((store, repo): Repo) -> StoreResult<()> {
    let line = ten(&*store, &repo).await?;
    done(store.apply(&repo, moving(vec![advance("main", Some(line[9]), line[5])])).await)?;
    let (writing, commit) = appending("main", Some(line[5]), "instead");
    done(store.apply(&repo, writing).await)?;
    let mut expected = vec![commit];
    expected.extend(line[..=5].iter().rev());
    assert_eq!(ids(&store.walk(&repo, Walk::from(commit)).await?), expected);
    assert_eq!(store.walk_all(&repo, line[9]).await?.len(), 10, "what was left is still there");
    Ok(())
}

pub(super) async fn time_and_order_of_writing_do_not_matter(
    (store, repo): Repo,
) -> StoreResult<()> {
    let mut chain: Vec<(Commit, tract_core::Blob)> = Vec::new();
    for n in 0..12i64 {
        let parent = chain.last().map(|(commit, _)| commit.id());
        let (mut record, content) = record(parent, &format!("message {n}"));
        record.created_at = Some(1_000 - n);
        chain.push((seal(record), content));
    }
    // Pieces of the history arrive one by one, each continuing the stored ones; some arrive twice.
    for piece in [0..3, 1..7, 6..8, 0..12] {
        let (commits, blobs) = chain[piece].iter().cloned().unzip();
        done(store.apply(&repo, Batch { commits, blobs, ..batch("import") }).await)?;
    }
    let page = store.walk(&repo, Walk::from(chain[11].0.id())).await?;
    assert!(ids(&page).into_iter().eq(chain.iter().rev().map(|(commit, _)| commit.id())));
    assert_eq!(store.stats(&repo).await?.commits, 12);
    Ok(())
}
