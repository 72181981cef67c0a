//! Erasures: blobs that are deleted in the same write as the record of it, and rejected from then
//! on.

use tract_core::store::{ListKind, ObjectListing};
use tract_core::{
    Applied, Batch, Blob, BlobId, Commit, Expect, ObjectId, RefEdit, RefName, RefTarget, RepoName,
    Store, StoreErrorKind, StoreExt, StoreResult,
};

use crate::Harness;
use crate::fixtures::{
    advance, appending, batch, done, erasing, line, push, push_with_tools, record, schemas, seal,
    toolset,
};
use crate::suite::Capability;
use crate::suite::Repo;

fn content(commit: &Commit) -> BlobId {
    commit.content.expect("a message has content")
}

fn is_erased(answer: StoreResult<Applied>, blob: BlobId) {
    let object = ObjectId::Blob(blob);
    match answer {
        Err(error) => assert_eq!(error.kind, StoreErrorKind::Erased { object }),
        Ok(answer) => panic!("expected a refusal that names the erasure, found {answer:?}"),
    }
}

async fn assert_gone(store: &dyn Store, repo: &RepoName, blob: BlobId) -> StoreResult<()> {
    assert_eq!(store.blob(repo, blob).await?, None, "what was erased is not read");
    assert!(store.ref_target(repo, &RefName::erasure(blob)).await?.is_some());
    if store.capabilities().collects_garbage {
        let listing = ObjectListing { kind: ListKind::Blobs, after: 0, limit: 1000 };
        let page = store.list_objects(repo, listing).await?;
        assert!(page.objects.iter().all(|(object, _)| *object != ObjectId::Blob(blob)));
    }
    assert_eq!(store.check(repo, false).await?, [], "the store is sound");
    Ok(())
}

pub(super) async fn erased_blob_is_gone_with_the_write((store, repo): Repo) -> StoreResult<()> {
    let commits = line(&*store, &repo, "main", None, &["one", "secret", "three"]).await?;
    let (secret, last) = (content(&commits[1]), &commits[2]);
    let mut erase = erasing(secret);
    let edit = push(&mut erase, Some(last.id()), "[erased]");
    erase.refs.push(advance("main", Some(last.id()), edit.id()));
    done(store.apply(&repo, erase.clone()).await)?;
    assert_gone(&*store, &repo, secret).await?;
    // Commits and everything else are kept.
    let walked = store.walk_all(&repo, edit.id()).await?;
    let newest_first = [&edit, &commits[2], &commits[1], &commits[0]];
    assert_eq!(walked.iter().collect::<Vec<_>>(), newest_first);
    for commit in [&edit, &commits[2], &commits[0]] {
        assert!(store.blob(&repo, content(commit)).await?.is_some());
    }
    assert_eq!(store.apply(&repo, erase).await?, Applied::Already);
    line(&*store, &repo, "other", Some(edit.id()), &["four"]).await?;
    assert_gone(&*store, &repo, secret).await
}

pub(super) async fn erased_blob_is_refused((store, repo): Repo) -> StoreResult<()> {
    let tool = schemas(&[r#"{"name":"find","description":"secret"}"#]);
    let commits = line(&*store, &repo, "main", None, &["secret"]).await?;
    let (secret, head) = (content(&commits[0]), commits[0].id());
    let mut first = batch("commit");
    let with_tool = push_with_tools(&mut first, Some(head), "two", &tool);
    first.refs.push(advance("main", Some(head), with_tool.id()));
    done(store.apply(&repo, first).await)?;
    let (schema, head) = (tool[0].blob().id(), with_tool.id());
    let (mut both, second) = (erasing(secret), erasing(schema));
    both.blobs.extend(second.blobs);
    both.refs.extend(second.refs);
    done(store.apply(&repo, both).await)?;

    let before = store.write_position(&repo).await.ok();
    let (brings, again) = appending("main", Some(head), "secret");
    let links = Batch { commits: brings.commits.clone(), ..batch("commit") };
    is_erased(store.apply(&repo, brings).await, secret);
    is_erased(store.apply(&repo, links).await, secret);
    let mut keeping = record(Some(head), "three");
    keeping.0.keeps = vec![secret];
    let keeping =
        Batch { blobs: vec![keeping.1], commits: vec![seal(keeping.0)], ..batch("commit") };
    is_erased(store.apply(&repo, keeping).await, secret);
    let requires = Batch { requires: vec![ObjectId::Blob(secret)], ..batch("commit") };
    is_erased(store.apply(&repo, requires).await, secret);
    let other = schemas(&[r#"{"name":"read"}"#]);
    let both = [tool[0].clone(), other[0].clone()];
    let tools =
        Batch { blobs: vec![other[0].blob()], toolsets: vec![toolset(&both)], ..batch("commit") };
    is_erased(store.apply(&repo, tools).await, schema);
    let mut both_ways = erasing(Blob::seal("x").id());
    both_ways.blobs.push(Blob::seal("x"));
    is_erased(store.apply(&repo, both_ways).await, Blob::seal("x").id());

    assert_eq!(store.write_position(&repo).await.ok(), before, "nothing was written");
    assert_eq!(store.commit(&repo, again).await?, None);
    let mut fine = batch("commit");
    push(&mut fine, Some(head), "not secret");
    done(store.apply(&repo, fine).await)?;
    assert_gone(&*store, &repo, secret).await
}

pub(super) async fn links_to_what_is_erased_come_with_the_erasure(
    (store, repo): Repo,
) -> StoreResult<()> {
    // As in a copy: this store never had the bytes.
    let (first, secret) = record(None, "secret");
    let first = seal(first);
    let mut carried = erasing(secret.id());
    carried.commits.push(first.clone());
    let second = push(&mut carried, Some(first.id()), "two");
    carried.refs.push(advance("main", None, second.id()));
    done(store.apply(&repo, carried).await)?;
    assert_gone(&*store, &repo, secret.id()).await?;
    assert_eq!(store.walk_all(&repo, second.id()).await?, [second.clone(), first]);
    // Naming the stored erasure unchanged works, too.
    let (third, _) = record(Some(second.id()), "secret");
    let target = store.ref_target(&repo, &RefName::erasure(secret.id())).await?;
    let edit = RefEdit { name: RefName::erasure(secret.id()), expect: Expect::Any, to: target };
    let named = Batch { commits: vec![seal(third)], refs: vec![edit], ..batch("copy") };
    done(store.apply(&repo, named).await)?;
    assert_gone(&*store, &repo, secret.id()).await
}

pub(super) async fn erasure_that_ends_lets_the_blob_be_stored(
    (store, repo): Repo,
) -> StoreResult<()> {
    let commits = line(&*store, &repo, "main", None, &["not so secret"]).await?;
    let (blob, name) = (content(&commits[0]), RefName::erasure(content(&commits[0])));
    done(store.apply(&repo, erasing(blob)).await)?;
    let (_, bytes) = record(None, "not so secret");
    let edit = RefEdit { name, expect: Expect::Any, to: None };
    let again = Batch { blobs: vec![bytes.clone()], refs: vec![edit], ..batch("allow") };
    done(store.apply(&repo, again).await)?;
    assert_eq!(store.blob(&repo, blob).await?, Some(bytes));
    // The place of the commit's content is derived, and may have to be looked up again.
    let found = store.check(&repo, true).await?;
    assert!(found.iter().all(|damage| damage.derived), "{found:?}");
    assert_eq!(store.check(&repo, false).await?, []);
    done(store.apply(&repo, erasing(blob)).await)?;
    assert_gone(&*store, &repo, blob).await
}

pub(super) async fn refused_erasure_deletes_nothing((store, repo): Repo) -> StoreResult<()> {
    let commits = line(&*store, &repo, "main", None, &["one", "two"]).await?;
    let blob = content(&commits[0]);
    // Planned on an outdated head.
    let mut late = erasing(blob);
    let edit = push(&mut late, Some(commits[0].id()), "[erased]");
    late.refs.push(advance("main", Some(commits[0].id()), edit.id()));
    assert!(matches!(store.apply(&repo, late).await?, Applied::Conflict(_)));
    assert!(store.blob(&repo, blob).await?.is_some(), "nothing was deleted");
    assert_eq!(store.ref_target(&repo, &RefName::erasure(blob)).await?, None);
    // Of two concurrent erasers one is first; the second gets a conflict.
    done(store.apply(&repo, erasing(blob)).await)?;
    let mut second = erasing(blob);
    second.blobs = vec![Blob::seal("another reason")];
    second.refs[0].to = second.blobs.first().map(|blob| RefTarget::Blob(blob.id()));
    assert!(matches!(store.apply(&repo, second).await?, Applied::Conflict(_)));
    assert_gone(&*store, &repo, blob).await
}

pub(super) async fn erasures_leave_other_repositories((store, repo): Repo) -> StoreResult<()> {
    let other = RepoName::new("other").expect("a valid name");
    let commits = line(&*store, &repo, "main", None, &["shared"]).await?;
    line(&*store, &other, "main", None, &["shared"]).await?;
    let blob = content(&commits[0]);
    done(store.apply(&repo, erasing(blob)).await)?;
    assert_gone(&*store, &repo, blob).await?;
    assert!(store.blob(&other, blob).await?.is_some(), "blobs belong to one repository");
    line(&*store, &other, "again", None, &["shared"]).await?;
    assert_eq!(store.check(&other, false).await?, []);
    Ok(())
}

pub(super) async fn erased_blobs_stay_gone(harness: Harness) -> StoreResult<()> {
    if harness.missing_capabilities().contains(&Capability::Persistent) {
        return Ok(());
    }
    let (store, repo) = (harness.open()?, harness.repo());
    let commits = line(&*store, &repo, "main", None, &["one", "secret"]).await?;
    let (secret, head) = (content(&commits[1]), commits[1].id());
    done(store.apply(&repo, erasing(secret)).await)?;
    store.wipe().await?;
    // The store works as before.
    line(&*store, &repo, "more", Some(head), &["three"]).await?;
    store.wipe().await?;
    store.close().await?;
    drop(store);
    let store = harness.open()?;
    assert_gone(&*store, &repo, secret).await?;
    assert_eq!(store.walk_all(&repo, head).await?.len(), 2);
    assert!(store.blob(&repo, content(&commits[0])).await?.is_some());
    let mut brings = batch("commit");
    push(&mut brings, Some(head), "secret");
    is_erased(store.apply(&repo, brings).await, secret);
    Ok(())
}

pub(super) async fn erasures_are_seen_by_every_handle(harness: Harness) -> StoreResult<()> {
    if harness.missing_capabilities().contains(&Capability::MultiProcess) {
        return Ok(());
    }
    let (one, repo) = (harness.open()?, harness.repo());
    let other = harness.open()?;
    let commits = line(&*one, &repo, "main", None, &["one", "secret"]).await?;
    let (secret, head) = (content(&commits[1]), commits[1].id());
    // Both handles have read and written it.
    assert!(one.blob(&repo, secret).await?.is_some());
    assert!(other.blob(&repo, secret).await?.is_some());
    done(other.apply(&repo, erasing(secret)).await)?;
    for handle in [&one, &other] {
        assert_gone(&**handle, &repo, secret).await?;
        let (linking, _) = record(Some(head), "secret");
        let links = Batch { commits: vec![seal(linking)], ..batch("commit") };
        is_erased(handle.apply(&repo, links).await, secret);
        let mut brings = batch("commit");
        push(&mut brings, Some(head), "secret");
        is_erased(handle.apply(&repo, brings).await, secret);
    }
    Ok(())
}
