//! Checks that erased bytes are not in any object, derived row or log.

use std::sync::PoisonError;

use tract_core::store::{ListKind, LogQuery, ObjectListing};
use tract_core::{BlobId, CommitId, DerivedKind, ObjectId, RepoName, Store};
use tract_engine::Error;

use super::watch::Invariant;
use super::world::{StoredWord, World};

/// Number of objects per listing and read.
const PAGE: usize = 1024;

/// Checks each word whose erasure was acknowledged. A word that a client may have stored again is
/// skipped while a reachable message contains it.
pub(super) async fn check(world: &World) -> Result<(), Error> {
    let erased = world.erased.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let repo = RepoName::default();
    for StoredWord { store: number, word } in erased {
        let store = &*world.stores[number].bare;
        let has = |bytes: &[u8]| contains(bytes, word.as_bytes());
        if world.brings_back && has_reached(world, number, has).await? {
            continue;
        }
        let report = |place: &str| {
            let text = format!("store {number}: {place} has {word:?}");
            world.report(Invariant::Erased, text);
        };
        for id in blobs(store, &repo, has).await? {
            report(&format!("blob {id}"));
        }
        let commits = list(store, &repo, ListKind::Commits).await?;
        let commit = |object| match object {
            ObjectId::Commit(id) => Some(id),
            ObjectId::Blob(_) | ObjectId::Toolset(_) | ObjectId::Tool(_) => None,
        };
        let commits: Vec<CommitId> = commits.into_iter().filter_map(commit).collect();
        for kind in DerivedKind::ALL {
            let rows = store.derived(&repo, kind, &commits).await?;
            if rows.iter().flatten().any(|row| row_has(row, &word)) {
                report(&format!("a {kind:?} row"));
            }
        }
        let log = store.ref_log(&repo, &LogQuery::default()).await?;
        if log.iter().any(|entry| has(format!("{entry:?}").as_bytes())) {
            report("the ref log");
        }
    }
    Ok(())
}

/// Returns whether a derived row has a word, or its end: rows of an index omit the prefix that a word
/// shares with another word.
pub(super) fn row_has(row: &[u8], word: &str) -> bool {
    let part = word.get(2..).filter(|part| part.len() > 4).unwrap_or(word);
    contains(row, part.as_bytes())
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|at| at == part)
}

/// Returns whether a commit that any ref has pointed to links to these bytes.
async fn has_reached(
    world: &World,
    number: usize,
    has: impl Fn(&[u8]) -> bool,
) -> Result<bool, Error> {
    let (store, repo) = (&world.stores[number].bare, RepoName::default());
    let stored = store.commits(&repo, &world.reached(number)).await?;
    let linked = stored.iter().flatten().flat_map(|commit| commit.linked_blobs());
    let linked: Vec<_> = linked.map(Into::into).collect();
    let blobs = store.blobs(&repo, &linked).await?;
    Ok(blobs.iter().flatten().any(|blob| has(blob.bytes())))
}

async fn list(store: &dyn Store, repo: &RepoName, kind: ListKind) -> Result<Vec<ObjectId>, Error> {
    let (mut found, mut next) = (Vec::new(), Some(0));
    while let Some(after) = next {
        let page = store.list_objects(repo, ObjectListing { kind, after, limit: PAGE }).await?;
        found.extend(page.objects.into_iter().map(|(object, _)| object));
        next = page.next;
    }
    Ok(found)
}

async fn blobs(
    store: &dyn Store,
    repo: &RepoName,
    has: impl Fn(&[u8]) -> bool,
) -> Result<Vec<BlobId>, Error> {
    let listed = list(store, repo, ListKind::Blobs).await?;
    let blob = |object| match object {
        ObjectId::Blob(id) => Some(id.into()),
        ObjectId::Commit(_) | ObjectId::Toolset(_) | ObjectId::Tool(_) => None,
    };
    let ids: Vec<_> = listed.into_iter().filter_map(blob).collect();
    let found = store.blobs(repo, &ids).await?;
    let found = found.iter().flatten().filter(|blob| has(blob.bytes()));
    Ok(found.map(|blob| blob.id()).collect())
}
