//! Commits.

use tract_core::{
    AuthorKind, Batch, BatchId, Blob, CallRef, Commit, CommitId, CommitRecord, JsonText, Kind, Op,
    Origin, Priority, Role, StoreExt, StoreResult,
};

use crate::fixtures::{batch, done, push, record, schemas, seal, toolset};
use crate::suite::Repo;

pub(super) async fn commits_answer_each_id_in_order((store, repo): Repo) -> StoreResult<()> {
    let mut writing = batch("commit");
    let one = push(&mut writing, None, "one");
    let two = push(&mut writing, Some(one.id()), "two");
    done(store.apply(&repo, writing).await)?;
    let absent = CommitId::from_bytes([1; 32]);
    let found = store.commits(&repo, &[two.id(), absent, one.id(), two.id()]).await?;
    assert_eq!(found, [Some(two.clone()), None, Some(one), Some(two)]);
    assert_eq!(store.commits(&repo, &[]).await?, []);
    Ok(())
}

pub(super) async fn commit_is_complete((store, repo): Repo) -> StoreResult<()> {
    let tools = schemas(&[r#"{"name":"t","input_schema":{}}"#]);
    let json = |text| JsonText::new(text).expect("valid JSON");
    let mut writing = batch("commit");
    let parent = push(&mut writing, None, "one").id();
    let blobs = ["content", "verbatim", "kept"].map(Blob::seal);
    let (now, before) = (toolset(&tools), toolset(&[]));
    let record = CommitRecord {
        parents: vec![parent],
        op: Op::Append {
            slot: Some(CommitId::from_bytes([3; 32])),
            answers: Some(CallRef { slot: parent, index: 2 }),
            priority: Some(Priority::Important),
            retention: Some(json(r#"{"keep":["names"]}"#)),
        },
        content: Some(blobs[0].id()),
        verbatim: Some(blobs[1].id()),
        form: Some("anthropic-1".to_owned()),
        joins: Some(parent),
        kind: Some(Kind::ToolResult),
        role: Some(Role::User),
        message: Some("a line for the log".to_owned()),
        metadata: Some(json(r#"{"elapsed_ms":3,"语":[1.5,null]}"#)),
        generation_config: Some(json(r#"{"model":"some"}"#)),
        toolset: Some(now.id()),
        active: Some(before.id()),
        origin: Origin {
            by: AuthorKind::Hook,
            id: Some("summarizer".to_owned()),
            triggered_by: Some("size".to_owned()),
            picked_from: Some(CommitId::from_bytes([4; 32])),
            detail: Some(json(r#"{"before":9}"#)),
        },
        keeps: vec![blobs[2].id()],
        created_at: Some(-5),
        batch: Some(BatchId::from_bytes([5; 16])),
        ..CommitRecord::new(Op::append(), AuthorKind::Hook)
    };
    let commit = seal(record.clone());
    writing.blobs.extend(blobs);
    writing.blobs.push(tools[0].blob());
    writing.toolsets.extend([now, before]);
    writing.commits.push(commit.clone());
    done(store.apply(&repo, writing).await)?;
    assert_eq!(store.require_commit(&repo, commit.id()).await?.record(), &record);
    Ok(())
}

pub(super) async fn merge_keeps_all_parents((store, repo): Repo) -> StoreResult<()> {
    let mut writing = batch("commit");
    let root = push(&mut writing, None, "root").id();
    let sides: Vec<CommitId> =
        (0..4).map(|n| push(&mut writing, Some(root), &format!("side {n}")).id()).collect();
    let mut merge = CommitRecord::new(Op::Merge { sources: sides[1..].to_vec() }, AuthorKind::User);
    merge.parents = sides.clone();
    let merge = seal(merge);
    writing.commits.push(merge.clone());
    done(store.apply(&repo, writing).await)?;
    assert_eq!(store.require_commit(&repo, merge.id()).await?.parents, sides);
    let walked = store.walk_all(&repo, merge.id()).await?;
    assert_eq!(walked.iter().map(Commit::id).collect::<Vec<_>>(), [merge.id(), sides[0], root]);
    Ok(())
}

pub(super) async fn any_number_of_commits_in_one_call((store, repo): Repo) -> StoreResult<()> {
    let mut writing = batch("import");
    let mut commits: Vec<Commit> = Vec::new();
    for n in 0..3000 {
        let (record, content) = record(commits.last().map(Commit::id), &format!("message {n}"));
        writing.blobs.push(content);
        commits.push(seal(record));
    }
    done(store.apply(&repo, Batch { commits: commits.clone(), ..writing }).await)?;
    let ids: Vec<CommitId> = commits.iter().rev().map(Commit::id).collect();
    let found = store.commits(&repo, &ids).await?;
    assert!(found.into_iter().eq(commits.into_iter().rev().map(Some)));
    Ok(())
}
