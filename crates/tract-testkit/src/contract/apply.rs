//! Writes are atomic.

use tract_core::{
    Applied, Batch, Blob, Commit, CommitId, DerivedKind, Expect, ObjectId, RefEdit, RefName,
    RefTarget, StoreErrorKind, StoreExt, StoreResult, Toolset,
};

use crate::fixtures::{
    advance, appending, batch, branch, done, line, moving, push, push_with_tools, record, row,
    schemas, seal,
};
use crate::suite::Repo;

pub(super) async fn same_batch_again_is_already((store, repo): Repo) -> StoreResult<()> {
    let (writing, _) = appending("main", None, "one");
    done(store.apply(&repo, writing.clone()).await)?;
    for _ in 0..2 {
        assert_eq!(store.apply(&repo, writing.clone()).await?, Applied::Already);
    }
    assert_eq!(store.ref_log(&repo, &Default::default()).await?.len(), 1);
    Ok(())
}

pub(super) async fn lost_ack_then_undo_then_retry_stays_undone(
    (store, repo): Repo,
) -> StoreResult<()> {
    let one = line(&*store, &repo, "main", None, &["one"]).await?.remove(0).id();
    let (writing, two) = appending("main", Some(one), "two");
    done(store.apply(&repo, writing.clone()).await)?;
    // The answer was lost, and another writer undid the commit.
    let back = advance("main", Some(two), one);
    done(store.apply(&repo, moving(vec![back])).await)?;
    assert_eq!(store.apply(&repo, writing).await?, Applied::Already);
    let main = store.ref_target(&repo, &branch("main")).await?;
    assert_eq!(main, Some(RefTarget::Commit(one)), "the retry must not undo the undo");
    Ok(())
}

pub(super) async fn already_comes_before_expectations((store, repo): Repo) -> StoreResult<()> {
    let (mut writing, one) = appending("main", None, "one");
    done(store.apply(&repo, writing.clone()).await)?;
    let two = line(&*store, &repo, "other", Some(one), &["two"]).await?.remove(0).id();
    done(store.apply(&repo, moving(vec![advance("main", Some(one), two)])).await)?;
    // It expects no branch and requires a missing object, but an earlier attempt was already
    // applied.
    writing.requires.push(ObjectId::Blob(Blob::seal("absent").id()));
    assert_eq!(store.apply(&repo, writing).await?, Applied::Already);
    Ok(())
}

pub(super) async fn conflict_comes_before_missing((store, repo): Repo) -> StoreResult<()> {
    line(&*store, &repo, "main", None, &["one"]).await?;
    let mut writing = batch("commit");
    let orphan = push(&mut writing, Some(CommitId::from_bytes([1; 32])), "two").id();
    writing.refs.push(advance("main", None, orphan));
    let answer = store.apply(&repo, writing).await?;
    assert!(matches!(answer, Applied::Conflict(_)), "{answer:?}");
    Ok(())
}

pub(super) async fn two_refs_one_stale_moves_none((store, repo): Repo) -> StoreResult<()> {
    let commits = line(&*store, &repo, "main", None, &["one", "two"]).await?;
    let (one, two) = (commits[0].id(), commits[1].id());
    done(store.apply(&repo, moving(vec![advance("other", None, one)])).await)?;
    for stale_first in [true, false] {
        let mut writing = batch("commit");
        let three = push(&mut writing, Some(two), "three").id();
        let good = advance("main", Some(two), three);
        let stale = advance("other", Some(two), three);
        writing.refs = if stale_first { vec![stale, good] } else { vec![good, stale] };
        let answer = store.apply(&repo, writing).await?;
        let Applied::Conflict(conflict) = answer else { panic!("expected a conflict: {answer:?}") };
        assert_eq!(conflict.name, branch("other"));
        let refs = store.refs(&repo, &[branch("main"), branch("other")]).await?;
        assert_eq!(refs, [Some(RefTarget::Commit(two)), Some(RefTarget::Commit(one))]);
        assert_eq!(store.commit(&repo, three).await?, None, "nor is anything else written");
    }
    Ok(())
}

pub(super) async fn refused_batch_leaves_no_trace((store, repo): Repo) -> StoreResult<()> {
    let refused = |parent: Option<CommitId>, fault: &str| {
        let mut writing = batch("commit");
        let tools = schemas(&[r#"{"name":"never","input_schema":{}}"#]);
        let commit = push_with_tools(&mut writing, parent, "never seen", &tools).id();
        writing.derived.push(row(DerivedKind::Snapshot, commit, "row"));
        writing.refs.push(advance("new", None, commit));
        match fault {
            "conflict" => writing.refs.push(advance("main", None, commit)),
            "missing" => writing.requires.push(ObjectId::Blob(Blob::seal("absent").id())),
            _ => writing.refs.push(advance("new", None, commit)),
        }
        writing
    };
    for fault in ["missing", "invalid"] {
        store.apply(&repo, refused(None, fault)).await.expect_err("it is refused");
        assert_eq!(store.repos().await?, [], "not even the repository is made: {fault}");
    }
    let one = line(&*store, &repo, "main", None, &["one"]).await?.remove(0).id();
    let before = (store.stats(&repo).await?, store.list_refs(&repo, "").await?);
    for fault in ["missing", "invalid", "conflict"] {
        let writing = refused(Some(one), fault);
        let (commit, blob) = (writing.commits[0].id(), writing.blobs[0].id());
        let (toolset, tool) = (writing.toolsets[0].id(), writing.tools[0].id);
        let answer = store.apply(&repo, writing).await;
        assert!(matches!(answer, Err(_) | Ok(Applied::Conflict(_))), "{fault}: {answer:?}");
        assert_eq!(store.commit(&repo, commit).await?, None, "{fault}");
        assert_eq!(store.blob(&repo, blob).await?, None, "{fault}");
        assert_eq!(store.toolsets(&repo, &[toolset]).await?, [None], "{fault}");
        assert_eq!(store.tools(&repo, &[tool]).await?, [None], "{fault}");
        assert_eq!(store.tool_names(&repo).await?, Vec::<String>::new(), "{fault}");
        let mut after = store.stats(&repo).await?;
        after.disk_bytes = before.0.disk_bytes;
        assert_eq!((after, store.list_refs(&repo, "").await?), before, "{fault}");
    }
    Ok(())
}

pub(super) async fn two_edits_of_one_ref_are_invalid((store, repo): Repo) -> StoreResult<()> {
    let one = line(&*store, &repo, "main", None, &["one"]).await?.remove(0).id();
    let edit = advance("other", None, one);
    let error = store.apply(&repo, moving(vec![edit.clone(), edit])).await.expect_err("two edits");
    assert_eq!(error.kind, StoreErrorKind::Invalid);
    assert_eq!(store.ref_target(&repo, &branch("other")).await?, None);
    Ok(())
}

pub(super) async fn refs_point_only_where_they_may((store, repo): Repo) -> StoreResult<()> {
    let one = line(&*store, &repo, "main", None, &["one"]).await?.remove(0).id();
    let name = |text: &str| RefName::new(text).expect("a valid name");
    let named = |text: &str| RefTarget::Ref(name(text));
    for (from, to) in [
        ("HEAD", named("HEAD")),
        ("HEAD", named("tags/a")),
        ("HEAD", named("config/a")),
        ("HEAD", RefTarget::Commit(one)),
        ("heads/a", named("heads/a")),
        ("heads/a", named("heads/main")),
        ("tags/a", named("heads/main")),
        ("config/a", named("config/b")),
        ("heads/a", RefTarget::Blob(Blob::seal("{}").id())),
    ] {
        let mut writing =
            moving(vec![RefEdit { name: name(from), expect: Expect::Any, to: Some(to.clone()) }]);
        writing.blobs.push(Blob::seal("{}"));
        let error = store.apply(&repo, writing).await.expect_err("it leads nowhere");
        assert_eq!(error.kind, StoreErrorKind::Invalid, "{from} to {to}");
        assert_eq!(store.ref_target(&repo, &name(from)).await?, None, "{from} to {to}");
    }
    Ok(())
}

pub(super) async fn writing_again_changes_nothing((store, repo): Repo) -> StoreResult<()> {
    let tools = schemas(&[r#"{"name":"t","input_schema":{}}"#]);
    let mut writing = batch("commit");
    let one = push_with_tools(&mut writing, None, "one", &tools).id();
    push(&mut writing, Some(one), "two");
    done(store.apply(&repo, writing.clone()).await)?;
    let before = store.stats(&repo).await?;
    for _ in 0..3 {
        let again = Batch { id: batch("commit").id, ..writing.clone() };
        done(store.apply(&repo, again).await)?;
    }
    let mut after = store.stats(&repo).await?;
    after.disk_bytes = before.disk_bytes;
    assert_eq!(after, before);
    assert_eq!((after.commits, after.toolsets, after.tools, after.blobs), (2, 1, 1, 3));
    Ok(())
}

pub(super) async fn new_commits_on_stored_ones((store, repo): Repo) -> StoreResult<()> {
    let mut writing = batch("commit");
    let one = push(&mut writing, None, "one").id();
    let two = push(&mut writing, Some(one), "two").id();
    done(store.apply(&repo, writing.clone()).await)?;
    writing.id = batch("commit").id;
    let three = push(&mut writing, Some(two), "three").id();
    // Stored content in a new commit is accepted, too.
    let four = push(&mut writing, Some(three), "one").id();
    done(store.apply(&repo, writing).await)?;
    let walked: Vec<CommitId> = store.walk_all(&repo, four).await?.iter().map(Commit::id).collect();
    assert_eq!(walked, [four, three, two, one]);
    assert_eq!(store.stats(&repo).await?.blobs, 3);
    Ok(())
}

pub(super) async fn same_text_same_microsecond_two_writers_two_commits(
    (store, repo): Repo,
) -> StoreResult<()> {
    let (text, content) = record(None, "yes");
    let mut answers = Vec::new();
    for _ in 0..2 {
        let mut writing = batch("commit");
        let mut record = text.clone();
        record.batch = Some(writing.id);
        let commit = seal(record);
        writing.blobs.push(content.clone());
        writing.commits.push(commit.clone());
        writing.refs.push(advance("main", None, commit.id()));
        answers.push((commit.id(), store.apply(&repo, writing).await?));
    }
    assert_ne!(answers[0].0, answers[1].0);
    assert_eq!(answers[0].1, Applied::Done);
    assert!(matches!(answers[1].1, Applied::Conflict(_)), "only one of them has won");
    assert_eq!(store.commit(&repo, answers[1].0).await?, None);
    Ok(())
}

pub(super) async fn empty_batch_is_done((store, repo): Repo) -> StoreResult<()> {
    done(store.apply(&repo, batch("nothing")).await)?;
    let edit = RefEdit { name: branch("main"), expect: Expect::Absent, to: None };
    done(store.apply(&repo, moving(vec![edit])).await)?;
    assert_eq!(store.ref_log(&repo, &Default::default()).await?, []);
    let only_a_toolset = Batch { toolsets: vec![Toolset::seal(Vec::new())], ..batch("put") };
    done(store.apply(&repo, only_a_toolset).await)?;
    assert_eq!(store.stats(&repo).await?.toolsets, 1);
    Ok(())
}
