//! Sweeps: lists objects, and deletes unreachable ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};
use std::thread;

use tract_core::store::{
    ListKind, LogQuery, ObjectListing, Sweep, SweepAnswer, Walk, WritePosition,
};
use tract_core::{
    Applied, Batch, Blob, BlobId, Commit, CommitId, DerivedKind, ObjectId, RefTarget, RepoName,
    Store, StoreErrorKind, StoreExt, StoreResult, ToolRow, block_on,
};

use crate::Harness;
use crate::fixtures::{
    advance, appending, batch, deriving, done, line, moving, push, push_with_tools, record, row,
    schemas, seal, storing, toolset,
};
use crate::suite::Capability;
use crate::suite::Repo;

async fn listed(
    store: &dyn Store,
    repo: &RepoName,
    kind: ListKind,
    limit: usize,
) -> StoreResult<Vec<(ObjectId, u64)>> {
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let page = store.list_objects(repo, ObjectListing { kind, after, limit }).await?;
        found.extend(page.objects);
        match page.next {
            Some(next) => after = next,
            None => return Ok(found),
        }
    }
}

fn contents(commits: &[Commit]) -> Vec<BlobId> {
    commits.iter().filter_map(|commit| commit.content).collect()
}

/// Lists commits, the last one first, and then their contents: the order in which they may be
/// deleted.
fn with_contents(commits: &[Commit]) -> Vec<ObjectId> {
    let ids = commits.iter().rev().map(|commit| ObjectId::Commit(commit.id()));
    ids.chain(contents(commits).into_iter().map(ObjectId::Blob)).collect()
}

async fn swept(store: &dyn Store, repo: &RepoName, objects: Vec<ObjectId>) -> StoreResult<()> {
    let position = store.write_position(repo).await?;
    let sweep = Sweep { position, objects, tools: Vec::new() };
    assert_eq!(store.sweep(repo, sweep).await?, SweepAnswer::Done);
    Ok(())
}

/// Deletes a branch, and returns the commits that became unreachable.
async fn abandoned(
    store: &dyn Store,
    repo: &RepoName,
    from: Option<CommitId>,
    texts: &[&str],
) -> StoreResult<Vec<Commit>> {
    let commits = line(store, repo, "gone", from, texts).await?;
    let head = commits.last().map(Commit::id).expect("a line has commits");
    let mut edit = advance("gone", Some(head), head);
    edit.to = None;
    done(store.apply(repo, moving(vec![edit])).await)?;
    Ok(commits)
}

async fn assert_sound(store: &dyn Store, repo: &RepoName) -> StoreResult<()> {
    assert_eq!(store.check(repo, false).await?, [], "the store is sound");
    Ok(())
}

pub(super) async fn listing_gives_every_object_once((store, repo): Repo) -> StoreResult<()> {
    let tools = schemas(&[r#"{"name":"find"}"#, r#"{"name":"read"}"#]);
    let commits = line(&*store, &repo, "main", None, &["one", "two", "three"]).await?;
    let mut writing = batch("commit");
    let last = push_with_tools(&mut writing, commits.last().map(Commit::id), "four", &tools);
    writing.blobs.push(Blob::seal("a document"));
    done(store.apply(&repo, writing.clone()).await)?;
    let mut expected: BTreeMap<ObjectId, u64> = BTreeMap::new();
    for commit in commits.iter().chain([&last]) {
        expected.insert(ObjectId::Commit(commit.id()), 0);
    }
    for id in contents(&commits) {
        expected.insert(ObjectId::Blob(id), 0);
    }
    for blob in &writing.blobs {
        expected.insert(ObjectId::Blob(blob.id()), blob.bytes().len() as u64);
    }
    expected.insert(ObjectId::Toolset(toolset(&tools).id()), 0);
    for limit in [1, 2, 1000] {
        let mut found = Vec::new();
        for kind in [ListKind::Commits, ListKind::Toolsets, ListKind::Blobs] {
            found.extend(listed(&*store, &repo, kind, limit).await?);
        }
        let sizes: BTreeMap<ObjectId, u64> = found.iter().copied().collect();
        assert_eq!(found.len(), sizes.len(), "each once");
        assert_eq!(sizes.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (object, size) in &expected {
            assert!(sizes.get(object) >= Some(&(*size).max(1)), "{object} has bytes");
        }
    }
    let other = RepoName::new("other").expect("a valid name");
    assert_eq!(listed(&*store, &other, ListKind::Commits, 9).await?, []);
    Ok(())
}

pub(super) async fn position_counts_every_write((store, repo): Repo) -> StoreResult<()> {
    assert_eq!(store.write_position(&repo).await?, WritePosition::default());
    let head = line(&*store, &repo, "main", None, &["one"]).await?;
    let logged = store.write_position(&repo).await?;
    let newest = store.ref_log(&repo, &LogQuery { limit: 1, ..LogQuery::default() }).await?;
    assert_eq!(newest.first().map(|entry| entry.seq), Some(logged.log));
    done(store.apply(&repo, storing([Blob::seal("ahead of its ref")])).await)?;
    let unlogged = store.write_position(&repo).await?;
    assert_eq!(unlogged.log, logged.log);
    assert_ne!(unlogged.unlogged, logged.unlogged, "an object was stored and no ref moved");
    let row = row(DerivedKind::Snapshot, head[0].id(), "row");
    done(store.apply(&repo, deriving([row])).await)?;
    assert_eq!(store.write_position(&repo).await?, unlogged, "derived rows are no objects");
    Ok(())
}

/// A collection that follows only the log would miss these objects and the objects they link to.
pub(super) async fn unreached_objects_count_as_unlogged((store, repo): Repo) -> StoreResult<()> {
    let head = line(&*store, &repo, "main", None, &["one"]).await?[0].id();
    // A batch reaches the new targets of its refs, with all objects below them.
    let tools = schemas(&[r#"{"name":"find"}"#]);
    let mut reached = batch("commit");
    let parent = push_with_tools(&mut reached, Some(head), "two", &tools).id();
    let next = push(&mut reached, Some(parent), "three").id();
    reached.refs.push(advance("main", Some(head), next));
    let document =
        Blob::seal(format!("{{\"keeps\":\"{}\"}}", push(&mut reached, None, "four").id()));
    let mut pin = advance("unused", None, next);
    pin.name = tract_core::RefName::new("pins/one").expect("a valid name");
    pin.to = Some(RefTarget::Blob(document.id()));
    reached.blobs.push(document);
    reached.refs.push(pin);
    let before = store.write_position(&repo).await?;
    done(store.apply(&repo, reached).await)?;
    let logged = store.write_position(&repo).await?;
    assert_ne!(logged.log, before.log);
    assert_eq!(logged.unlogged, before.unlogged, "all of it is reached");
    // A commit of another history, a document without a ref, a toolset: none is reachable.
    let mut last = next;
    for brings in ["a commit", "a document", "a list of tools", "a commit before it"] {
        let mut writing = batch("commit");
        let moved = push(&mut writing, Some(last), brings).id();
        match brings {
            "a commit" => drop(push(&mut writing, Some(head), "of another line")),
            "a document" => writing.blobs.push(Blob::seal("that no ref names")),
            "a list of tools" => {
                let tools = schemas(&[r#"{"name":"read"}"#]);
                writing.blobs.extend(tools.iter().map(tract_core::ToolSchema::blob));
                writing.toolsets.push(toolset(&tools));
            }
            _ => {
                let child = push(&mut writing, Some(moved), "its child").id();
                assert_ne!(child, moved);
            }
        }
        writing.refs.push(advance("main", Some(last), moved));
        let before = store.write_position(&repo).await?;
        done(store.apply(&repo, writing).await)?;
        let after = store.write_position(&repo).await?;
        assert_ne!(after.log, before.log, "a ref moved");
        assert_ne!(after.unlogged, before.unlogged, "{brings} is not reached");
        last = moved;
    }
    assert_sound(&*store, &repo).await
}

pub(super) async fn commits_without_parents_are_reported((store, repo): Repo) -> StoreResult<()> {
    line(&*store, &repo, "main", None, &["one"]).await?;
    let gone = abandoned(&*store, &repo, None, &["two", "three", "four"]).await?;
    // Another child of the second commit starts a history of its own.
    let mut fork = batch("commit");
    let forked = push(&mut fork, Some(gone[1].id()), "five");
    done(store.apply(&repo, fork).await)?;
    assert_sound(&*store, &repo).await?;
    swept(&*store, &repo, vec![ObjectId::Commit(gone[1].id())]).await?;
    let damage = store.check(&repo, false).await?;
    for child in [gone[2].id(), forked.id()] {
        let named = damage.iter().filter(|damage| damage.object == Some(ObjectId::Commit(child)));
        assert!(
            named.clone().any(|damage| !damage.derived),
            "{child} lacks its parent: {damage:?}"
        );
    }
    swept(&*store, &repo, vec![ObjectId::Commit(gone[2].id())]).await?;
    swept(&*store, &repo, vec![ObjectId::Commit(forked.id())]).await?;
    assert_sound(&*store, &repo).await
}

pub(super) async fn swept_objects_are_gone((store, repo): Repo) -> StoreResult<()> {
    let kept = line(&*store, &repo, "main", None, &["one", "two"]).await?;
    let gone = abandoned(&*store, &repo, kept.first().map(Commit::id), &["three", "four"]).await?;
    let of = |commit: &Commit| row(DerivedKind::Turn, commit.id(), commit.id().to_hex());
    let rows: Vec<_> = gone.iter().chain(&kept).map(of).collect();
    done(store.apply(&repo, deriving(rows)).await)?;
    swept(&*store, &repo, with_contents(&gone)).await?;
    let ids: Vec<CommitId> = gone.iter().map(Commit::id).collect();
    assert_eq!(store.commits(&repo, &ids).await?, [None, None]);
    for id in contents(&gone) {
        assert_eq!(store.blob(&repo, id).await?, None);
    }
    assert_eq!(store.derived(&repo, DerivedKind::Turn, &ids).await?, [None, None]);
    for commit in &kept {
        assert_eq!(store.commit(&repo, commit.id()).await?.as_ref(), Some(commit));
        let row = store.derived(&repo, DerivedKind::Turn, &[commit.id()]).await?;
        assert_eq!(row, [Some(commit.id().to_hex().into())]);
    }
    for id in contents(&kept) {
        assert!(store.blob(&repo, id).await?.is_some(), "what is not named stays");
    }
    let walked = store.walk_all(&repo, kept[1].id()).await?;
    assert_eq!(walked, [kept[1].clone(), kept[0].clone()]);
    assert_sound(&*store, &repo).await?;
    // A second sweep changes nothing, and objects that are written again are stored again.
    swept(&*store, &repo, with_contents(&gone)).await?;
    let mut writing = batch("commit");
    for (commit, text) in gone.iter().zip(["three", "four"]) {
        writing.blobs.push(record(None, text).1);
        writing.commits.push(commit.clone());
    }
    writing.refs.push(advance("gone", None, gone[1].id()));
    done(store.apply(&repo, writing).await)?;
    let walked = store.walk_all(&repo, gone[1].id()).await?;
    assert_eq!(walked, [gone[1].clone(), gone[0].clone(), kept[0].clone()]);
    assert_eq!(store.derived(&repo, DerivedKind::Turn, &ids).await?, [None, None]);
    assert_sound(&*store, &repo).await
}

pub(super) async fn sweep_after_a_write_is_refused((store, repo): Repo) -> StoreResult<()> {
    line(&*store, &repo, "main", None, &["one"]).await?;
    let gone = abandoned(&*store, &repo, None, &["two"]).await?;
    let old = store.write_position(&repo).await?;
    let ahead = storing([Blob::seal("ahead")]);
    let back = moving(vec![advance("back", None, gone[0].id())]);
    for writing in [ahead, back] {
        done(store.apply(&repo, writing).await)?;
        let now = store.write_position(&repo).await?;
        let sweep = Sweep { position: old, objects: with_contents(&gone), tools: Vec::new() };
        assert_eq!(store.sweep(&repo, sweep).await?, SweepAnswer::Moved(now));
        assert_eq!(store.commit(&repo, gone[0].id()).await?.as_ref(), Some(&gone[0]));
        for id in contents(&gone) {
            assert!(store.blob(&repo, id).await?.is_some(), "nothing is deleted");
        }
    }
    assert_sound(&*store, &repo).await
}

/// An erasure requires the position up to which it has looked for the bytes.
pub(super) async fn batch_after_a_write_is_refused((store, repo): Repo) -> StoreResult<()> {
    let mut first = batch("commit");
    let root = push(&mut first, None, "one").id();
    first.refs.push(advance("main", None, root));
    first.position = Some(store.write_position(&repo).await?);
    done(store.apply(&repo, first.clone()).await)?;
    assert_eq!(store.apply(&repo, first).await?, Applied::Already, "a retry was applied before");
    let old = store.write_position(&repo).await?;
    let ahead = storing([Blob::seal("ahead")]);
    let branch = moving(vec![advance("side", None, root)]);
    for (writing, head) in [(ahead, Some(root)), (branch, None)] {
        done(store.apply(&repo, writing).await)?;
        let now = store.write_position(&repo).await?;
        let mut late = batch("commit");
        let next = push(&mut late, Some(root), "late");
        // The position is compared before the expected values.
        late.refs.push(advance("main", head, next.id()));
        late.position = Some(old);
        assert_eq!(store.apply(&repo, late.clone()).await?, Applied::Moved(now));
        assert_eq!(store.commit(&repo, next.id()).await?, None, "nothing is written");
        assert_eq!(store.ref_target(&repo, &main()).await?, Some(RefTarget::Commit(root)));
        assert_eq!(store.write_position(&repo).await?, now);
        late.position = Some(now);
        match (head, store.apply(&repo, late).await?) {
            (Some(_), Applied::Done) => {
                let mut back = advance("main", Some(next.id()), root);
                back.expect = tract_core::Expect::Any;
                done(store.apply(&repo, moving(vec![back])).await)?;
            }
            (None, Applied::Conflict(conflict)) => assert_eq!(conflict.name, main()),
            (_, other) => panic!("expected done, then a conflict, found {other:?}"),
        }
    }
    // Derived rows are not writes of objects.
    let position = store.write_position(&repo).await?;
    let row = row(DerivedKind::Snapshot, root, "row");
    done(store.apply(&repo, deriving([row])).await)?;
    // A large content, which some stores send separately.
    let large = Blob::seal(vec![7; 9 << 20]);
    let writing = Batch { position: Some(position), ..storing([large.clone()]) };
    done(store.apply(&repo, writing).await)?;
    assert!(store.blob(&repo, large.id()).await?.is_some());
    assert_sound(&*store, &repo).await
}

fn main() -> tract_core::RefName {
    crate::fixtures::branch("main")
}

pub(super) async fn racing_batches_at_one_position_have_one_winner(
    (store, repo): Repo,
) -> StoreResult<()> {
    const WRITERS: usize = 4;
    line(&*store, &repo, "main", None, &["one"]).await?;
    for round in 0..10 {
        let position = store.write_position(&repo).await?;
        let barrier = &Barrier::new(WRITERS);
        let answers: Vec<StoreResult<Applied>> = thread::scope(|scope| {
            let write = |writer: usize| {
                let (store, repo) = (Arc::clone(&store), repo.clone());
                scope.spawn(move || {
                    // Each has a branch of its own, so that only the position is in common.
                    let name = format!("writer-{writer}-{round}");
                    let (writing, _) = appending(&name, None, &name);
                    let writing = Batch { position: Some(position), ..writing };
                    barrier.wait();
                    block_on(store.apply(&repo, writing))
                })
            };
            let writers: Vec<_> = (0..WRITERS).map(write).collect();
            writers.into_iter().map(|writer| writer.join().expect("no panic")).collect()
        });
        let mut winners = 0;
        for answer in answers {
            match answer? {
                Applied::Done => winners += 1,
                Applied::Moved(now) => assert_ne!(now, position),
                other => panic!("expected done or moved, found {other:?}"),
            }
        }
        assert_eq!(winners, 1, "round {round}");
    }
    assert_sound(&*store, &repo).await
}

async fn is_missing(store: &dyn Store, repo: &RepoName, gone: &[Commit]) -> StoreResult<()> {
    let head = gone.last().map(Commit::id).expect("a commit");
    let mut child = batch("commit");
    let commit = push(&mut child, Some(head), "a child of what is gone");
    child.refs.push(advance("child", None, commit.id()));
    let error = store.apply(repo, child).await.expect_err("its parent is gone");
    assert_eq!(error.kind, StoreErrorKind::Missing { object: ObjectId::Commit(head) });
    assert_eq!(store.commit(repo, commit.id()).await?, None);
    let content = contents(gone)[0];
    let (record, _) = record(None, "says what is gone");
    let record = tract_core::CommitRecord { content: Some(content), ..record };
    let reuses = Batch { commits: vec![seal(record)], ..batch("commit") };
    let error = store.apply(repo, reuses).await.expect_err("its content is gone");
    assert_eq!(error.kind, StoreErrorKind::Missing { object: ObjectId::Blob(content) });
    let needs = Batch { requires: vec![ObjectId::Commit(head)], ..batch("put") };
    let error = store.apply(repo, needs).await.expect_err("what it requires is gone");
    assert_eq!(error.kind, StoreErrorKind::Missing { object: ObjectId::Commit(head) });
    let walk = store.walk(repo, Walk::from(head)).await.expect_err("it is gone");
    assert_eq!(walk.kind, StoreErrorKind::Missing { object: ObjectId::Commit(head) });
    Ok(())
}

pub(super) async fn batch_that_needs_what_was_swept_is_refused(
    (store, repo): Repo,
) -> StoreResult<()> {
    line(&*store, &repo, "main", None, &["one"]).await?;
    let gone = abandoned(&*store, &repo, None, &["two", "three"]).await?;
    swept(&*store, &repo, with_contents(&gone)).await?;
    is_missing(&*store, &repo, &gone).await?;
    assert_sound(&*store, &repo).await
}

pub(super) async fn sweeps_are_seen_by_every_handle(harness: Harness) -> StoreResult<()> {
    if harness.missing_capabilities().contains(&Capability::MultiProcess) {
        return Ok(());
    }
    let (one, repo) = (harness.open()?, harness.repo());
    let other: Arc<dyn Store> = harness.open()?;
    line(&*one, &repo, "main", None, &["one"]).await?;
    let gone = abandoned(&*one, &repo, None, &["two", "three"]).await?;
    // Both handles have read and written the swept objects.
    assert!(one.walk(&repo, Walk::from(gone[1].id())).await.is_ok());
    swept(&*other, &repo, with_contents(&gone)).await?;
    is_missing(&*one, &repo, &gone).await?;
    // Other objects take their places, and no handle confuses them.
    let new = line(&*other, &repo, "new", None, &["four", "five"]).await?;
    let of = |commit: &Commit| row(DerivedKind::Turn, commit.id(), "of another");
    done(other.apply(&repo, deriving(new.iter().map(of).collect::<Vec<_>>())).await)?;
    let ids: Vec<CommitId> = gone.iter().map(Commit::id).collect();
    assert_eq!(one.derived(&repo, DerivedKind::Turn, &ids).await?, [None, None]);
    is_missing(&*one, &repo, &gone).await?;
    let walked = one.walk_all(&repo, new[1].id()).await?;
    assert_eq!(walked, [new[1].clone(), new[0].clone()]);
    assert_sound(&*one, &repo).await
}

pub(super) async fn log_names_what_was_swept((store, repo): Repo) -> StoreResult<()> {
    let kept = line(&*store, &repo, "main", None, &["one"]).await?;
    let gone = abandoned(&*store, &repo, Some(kept[0].id()), &["two", "three"]).await?;
    // A branch that moved from a swept commit to a kept one, and back.
    let edits = [
        advance("walker", None, gone[0].id()),
        advance("walker", Some(gone[0].id()), kept[0].id()),
        advance("walker", Some(kept[0].id()), gone[1].id()),
        advance("walker", Some(gone[1].id()), kept[0].id()),
    ];
    for edit in edits {
        done(store.apply(&repo, moving(vec![edit])).await)?;
    }
    let document = Blob::seal("a document that goes");
    let mut edit = advance("unused", None, kept[0].id());
    edit.name = tract_core::RefName::new("pins/one").expect("a valid name");
    edit.to = Some(RefTarget::Blob(document.id()));
    let writing = Batch { blobs: vec![document.clone()], refs: vec![edit.clone()], ..batch("pin") };
    done(store.apply(&repo, writing).await)?;
    edit.expect = tract_core::Expect::Any;
    edit.to = None;
    done(store.apply(&repo, moving(vec![edit])).await)?;
    let before = store.ref_log(&repo, &LogQuery::default()).await?;
    for commit in gone.iter().rev() {
        swept(&*store, &repo, vec![ObjectId::Commit(commit.id())]).await?;
        assert_eq!(store.ref_log(&repo, &LogQuery::default()).await?, before);
        assert_sound(&*store, &repo).await?;
    }
    swept(&*store, &repo, vec![ObjectId::Blob(document.id())]).await?;
    assert_eq!(store.ref_log(&repo, &LogQuery::default()).await?, before);
    assert_eq!(store.blob(&repo, document.id()).await?, None);
    assert_sound(&*store, &repo).await
}

pub(super) async fn shared_content_outlives_a_sweep((store, repo): Repo) -> StoreResult<()> {
    let kept = line(&*store, &repo, "main", None, &["one"]).await?;
    // The content is stored with a swept commit, and needed by a kept one.
    let gone = abandoned(&*store, &repo, Some(kept[0].id()), &["said twice"]).await?;
    let again = line(&*store, &repo, "again", None, &["said twice"]).await?;
    assert_eq!(again[0].content, gone[0].content);
    swept(&*store, &repo, vec![ObjectId::Commit(gone[0].id())]).await?;
    assert_sound(&*store, &repo).await?;
    // The next commit would be stored at the place of that content.
    let next = line(&*store, &repo, "next", Some(kept[0].id()), &["two", "three"]).await?;
    let next_head = next[1].id();
    let roots = line(&*store, &repo, "other", None, &["four"]).await?;
    for commits in [&kept, &again, &next, &roots] {
        for commit in commits {
            assert_eq!(store.commit(&repo, commit.id()).await?.as_ref(), Some(commit));
            let content = commit.content.expect("a message has content");
            assert!(store.blob(&repo, content).await?.is_some(), "{content} is there");
        }
    }
    let walked = store.walk_all(&repo, next_head).await?;
    assert_eq!(walked, [next[1].clone(), next[0].clone(), kept[0].clone()]);
    assert_sound(&*store, &repo).await
}

pub(super) async fn sweeps_leave_other_repositories((store, repo): Repo) -> StoreResult<()> {
    let other = RepoName::new("other").expect("a valid name");
    let gone = abandoned(&*store, &repo, None, &["one", "two"]).await?;
    let mut writing = batch("commit");
    writing.commits.extend(gone.iter().cloned());
    writing.blobs.extend(["one", "two"].map(|text| record(None, text).1));
    writing.refs.push(advance("main", None, gone[1].id()));
    done(store.apply(&other, writing).await)?;
    let position = store.write_position(&other).await?;
    let log = store.ref_log(&other, &LogQuery::default()).await?;
    swept(&*store, &repo, with_contents(&gone)).await?;
    assert_eq!(store.write_position(&other).await?, position);
    assert_eq!(store.ref_log(&other, &LogQuery::default()).await?, log);
    let walked = store.walk_all(&other, gone[1].id()).await?;
    assert_eq!(walked, [gone[1].clone(), gone[0].clone()]);
    for id in contents(&gone) {
        assert!(store.blob(&other, id).await?.is_some());
    }
    assert_sound(&*store, &other).await?;
    assert_sound(&*store, &repo).await
}

pub(super) async fn swept_tools_are_forgotten((store, repo): Repo) -> StoreResult<()> {
    let both = schemas(&[r#"{"name":"find"}"#, r#"{"name":"read"}"#]);
    let (find, read) = (&both[0], &both[1]);
    let mut first = batch("commit");
    let gone = push_with_tools(&mut first, None, "goes", &both);
    done(store.apply(&repo, first).await)?;
    let mut second = batch("commit");
    let kept = push_with_tools(&mut second, None, "stays", &both[..1]);
    second.refs.push(advance("main", None, kept.id()));
    done(store.apply(&repo, second).await)?;
    swept(&*store, &repo, vec![ObjectId::Commit(gone.id())]).await?;
    let created_at = kept.created_at.unwrap_or_default();
    let row = ToolRow::of(find, find.blob().id(), kept.id(), created_at);
    let position = store.write_position(&repo).await?;
    let objects = vec![ObjectId::Tool(find.id()), ObjectId::Tool(read.id())];
    let sweep = Sweep { position, objects, tools: vec![row] };
    assert_eq!(store.sweep(&repo, sweep).await?, SweepAnswer::Done);
    let rest = vec![ObjectId::Toolset(toolset(&both).id()), ObjectId::Blob(read.blob().id())];
    swept(&*store, &repo, rest).await?;
    assert_eq!(store.tool_names(&repo).await?, ["find"]);
    let found = store.tools(&repo, &[find.id(), read.id()]).await?;
    assert_eq!(
        found[0].as_ref().map(|tool| (tool.first, tool.created_at)),
        Some((kept.id(), created_at))
    );
    assert_eq!(found[1], None);
    assert_eq!(store.tools_of(&repo, kept.id()).await?, [find.blob()]);
    assert_eq!(store.toolsets(&repo, &[toolset(&both).id()]).await?, [None]);
    assert_sound(&*store, &repo).await
}

pub(super) async fn swept_objects_stay_gone(harness: Harness) -> StoreResult<()> {
    if harness.missing_capabilities().contains(&Capability::Persistent) {
        return Ok(());
    }
    let (store, repo) = (harness.open()?, harness.repo());
    let kept = line(&*store, &repo, "main", None, &["one", "two"]).await?;
    let gone = abandoned(&*store, &repo, Some(kept[0].id()), &["three"]).await?;
    swept(&*store, &repo, with_contents(&gone)).await?;
    let position = store.write_position(&repo).await?;
    store.release_space().await?;
    store.close().await?;
    drop(store);
    let store = harness.open()?;
    assert_eq!(store.write_position(&repo).await?, position);
    assert_eq!(store.commit(&repo, gone[0].id()).await?, None);
    assert_eq!(store.walk_all(&repo, kept[1].id()).await?.len(), 2);
    is_missing(&*store, &repo, &gone).await?;
    assert_sound(&*store, &repo).await
}
