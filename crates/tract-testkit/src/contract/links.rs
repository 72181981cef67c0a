//! The objects that a batch links to must be stored, or be in the batch.

use tract_core::{
    AuthorKind, Batch, Blob, BlobId, Changes, Commit, CommitId, CommitRecord, ObjectId, Op,
    StoreErrorKind, StoreExt, StoreResult, ToolEntry, ToolId, ToolRow, Toolset,
};

use crate::fixtures::{batch, done, line, push, record, schemas, seal, storing};
use crate::suite::Repo;

async fn is_refused((store, repo): Repo, writing: Batch, missing: ObjectId) -> StoreResult<()> {
    let error = store.apply(&repo, writing.clone()).await.expect_err("something is missing");
    assert_eq!(error.kind, StoreErrorKind::Missing { object: missing });
    for commit in &writing.commits {
        assert_eq!(store.commit(&repo, commit.id()).await?, None, "nothing is written");
    }
    // An object of one repository is not an object of another.
    if let ObjectId::Blob(_) = missing {
        let other = tract_core::RepoName::new("other").expect("a valid name");
        done(store.apply(&other, storing([Blob::seal("absent")])).await)?;
        store.apply(&repo, writing.clone()).await.expect_err("it is still missing");
        // Once the object is stored, the same batch is accepted.
        done(store.apply(&repo, storing([Blob::seal("absent")])).await)?;
        done(store.apply(&repo, writing).await)?;
    }
    Ok(())
}

fn absent() -> BlobId {
    Blob::seal("absent").id()
}

async fn commit_is_refused(
    repo: Repo,
    missing: ObjectId,
    change: impl FnOnce(&mut CommitRecord),
) -> StoreResult<()> {
    let mut writing = batch("commit");
    let (mut record, content) = record(None, "text");
    writing.blobs.push(content);
    change(&mut record);
    writing.commits.push(seal(record));
    is_refused(repo, writing, missing).await
}

pub(super) async fn missing_required_is_refused(repo: Repo) -> StoreResult<()> {
    let object = ObjectId::Blob(absent());
    let writing = Batch { requires: vec![object], ..batch("put") };
    is_refused(repo, writing, object).await
}

pub(super) async fn required_in_the_batch_is_enough((store, repo): Repo) -> StoreResult<()> {
    let mut writing = batch("commit");
    let commit = push(&mut writing, None, "one").id();
    let toolset = Toolset::seal(Vec::new());
    let blob = writing.blobs[0].id();
    writing.requires =
        vec![ObjectId::Commit(commit), ObjectId::Blob(blob), ObjectId::Toolset(toolset.id())];
    writing.toolsets.push(toolset);
    done(store.apply(&repo, writing.clone()).await)?;
    let later = Batch { requires: writing.requires, ..batch("put") };
    done(store.apply(&repo, later).await)?;
    for object in [
        ObjectId::Commit(CommitId::from_bytes([1; 32])),
        ObjectId::Toolset(tract_core::ToolsetId::from_bytes([2; 32])),
        ObjectId::Tool(ToolId::from_bytes([3; 32])),
    ] {
        let writing = Batch { requires: vec![object], ..batch("put") };
        let error = store.apply(&repo, writing).await.expect_err("it is missing");
        assert_eq!(error.kind, StoreErrorKind::Missing { object });
    }
    Ok(())
}

pub(super) async fn missing_parent_is_refused(repo: Repo) -> StoreResult<()> {
    let absent = CommitId::from_bytes([1; 32]);
    commit_is_refused(repo, ObjectId::Commit(absent), |record| record.parents = vec![absent]).await
}

pub(super) async fn missing_second_parent_is_refused((store, repo): Repo) -> StoreResult<()> {
    let there = line(&*store, &repo, "main", None, &["one", "two"]).await?;
    let stored: Vec<CommitId> = there.iter().map(Commit::id).collect();
    for absent_at in [1, 2] {
        let absent = CommitId::from_bytes([absent_at; 32]);
        let mut parents = stored.clone();
        parents.insert(usize::from(absent_at), absent);
        let mut merge =
            CommitRecord::new(Op::Merge { sources: parents[1..].to_vec() }, AuthorKind::User);
        merge.parents = parents;
        let merge = seal(merge);
        let writing = Batch { commits: vec![merge.clone()], ..batch("merge") };
        let error = store.apply(&repo, writing).await.expect_err("a parent is missing");
        assert_eq!(error.kind, StoreErrorKind::Missing { object: ObjectId::Commit(absent) });
        assert_eq!(store.commit(&repo, merge.id()).await?, None, "nothing is written");
    }
    Ok(())
}

pub(super) async fn missing_content_is_refused(repo: Repo) -> StoreResult<()> {
    let change = |record: &mut CommitRecord| record.content = Some(absent());
    commit_is_refused(repo, ObjectId::Blob(absent()), change).await
}

pub(super) async fn missing_verbatim_is_refused(repo: Repo) -> StoreResult<()> {
    let change = |record: &mut CommitRecord| record.verbatim = Some(absent());
    commit_is_refused(repo, ObjectId::Blob(absent()), change).await
}

pub(super) async fn missing_changes_are_refused(repo: Repo) -> StoreResult<()> {
    let change = |record: &mut CommitRecord| record.changes = Changes::Blob(absent());
    commit_is_refused(repo, ObjectId::Blob(absent()), change).await
}

pub(super) async fn missing_kept_blob_is_refused(repo: Repo) -> StoreResult<()> {
    let change = |record: &mut CommitRecord| record.keeps = vec![absent()];
    commit_is_refused(repo, ObjectId::Blob(absent()), change).await
}

pub(super) async fn missing_toolset_is_refused(repo: Repo) -> StoreResult<()> {
    let toolset = Toolset::seal(Vec::new()).id();
    let change = |record: &mut CommitRecord| record.toolset = Some(toolset);
    commit_is_refused(repo, ObjectId::Toolset(toolset), change).await
}

pub(super) async fn missing_schema_is_refused(repo: Repo) -> StoreResult<()> {
    let tool = schemas(&[r#"{"name":"t"}"#]).remove(0);
    let entry = |schema| ToolEntry { tool: tool.id(), schema };
    let toolset = Toolset::seal(vec![entry(tool.blob().id()), entry(absent())]);
    let writing = Batch { blobs: vec![tool.blob()], toolsets: vec![toolset], ..batch("put") };
    is_refused(repo, writing, ObjectId::Blob(absent())).await
}

pub(super) async fn tool_row_of_what_is_missing_is_refused(repo: Repo) -> StoreResult<()> {
    let tool = schemas(&[r#"{"name":"t"}"#]).remove(0);
    let mut writing = batch("commit");
    let commit = push(&mut writing, None, "text").id();
    let absent_commit = CommitId::from_bytes([1; 32]);
    writing.tools = vec![ToolRow::of(&tool, tool.blob().id(), absent_commit, 0)];
    writing.blobs.push(tool.blob());
    is_refused(repo.clone(), writing.clone(), ObjectId::Commit(absent_commit)).await?;
    writing.tools = vec![ToolRow::of(&tool, absent(), commit, 0)];
    is_refused(repo, writing, ObjectId::Blob(absent())).await
}
