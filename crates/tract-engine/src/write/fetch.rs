//! Reads the records that a planner asks for, with one store call per kind of record.

use std::sync::Arc;

use tract_core::store::BlobKey;
use tract_core::{Blob, BlobId, Changes, Commit, CommitId, Content, ObjectId};

use crate::plan::{MissingRecords, Plan, Records, Stop};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::write::overlay::both;

/// Calls a planner until it has all the records that it asks for. `head` is the commit it plans
/// on.
///
/// # Errors
/// [`Error::Refused`] when it refuses, [`Error::Missing`] when something that a commit links
/// to is not stored.
pub(crate) async fn plan_with<T>(
    repo: &Repo,
    head: Option<CommitId>,
    records: &mut Records,
    mut planner: impl FnMut(&Records) -> Plan<T>,
) -> Result<T> {
    loop {
        match planner(records) {
            Ok(planned) => return Ok(planned),
            // Records that were read stay in `records`, so a planner never asks for them again.
            Err(Stop::Needs(needs)) => {
                match Box::pin(read_records(repo, head, &needs, records)).await {
                    Err(Error::Missing(ObjectId::Blob(blob))) => {
                        return Err(repo.absent_blob(blob).await);
                    }
                    read => read?,
                }
            }
            Err(Stop::Refused(refusal)) => return Err(refusal.into()),
            Err(Stop::Missing(ObjectId::Blob(blob))) => {
                return Err(repo.absent_blob(blob).await);
            }
            Err(Stop::Missing(object)) => return Err(Error::Missing(object)),
            Err(Stop::Content(error)) => return Err(error.into()),
        }
    }
}

async fn read_records(
    repo: &Repo,
    head: Option<CommitId>,
    needs: &MissingRecords,
    records: &mut Records,
) -> Result<()> {
    // The record of a commit names the blobs of its content and its changes, so the records are
    // read first.
    let commits = needs.commits.iter().chain(&needs.contents).chain(&needs.changes);
    let commits: Vec<CommitId> =
        commits.filter(|id| !records.commits.contains_key(id)).copied().collect();
    let (store, name) = (repo.store(), repo.name());
    let cached = |id: &CommitId| repo.compiler().cached_commit(*id);
    let found = both(&commits, cached, |ids| async move { store.commits(name, &ids).await });
    records.commits.extend(commits.iter().copied().zip(found.await?));

    let mut contents = Vec::new();
    for id in &needs.contents {
        let commit = present(records, *id)?;
        match (commit.content, commit.kind.clone()) {
            (Some(blob), Some(kind)) => contents.push((*id, blob, kind)),
            _ => return Err(Error::Missing(ObjectId::Commit(*id))),
        }
    }
    let mut changes = Vec::new();
    for id in &needs.changes {
        if let Changes::Blob(blob) = present(records, *id)?.record().changes {
            changes.push((*id, blob));
        }
    }
    let blobs = contents.iter().map(|(_, blob, _)| *blob);
    let blobs = blobs.chain(changes.iter().map(|(_, blob)| *blob));
    let blobs = blobs.chain(needs.blobs.iter().copied());
    let keys: Vec<BlobKey> =
        blobs.filter(|id| !records.blobs.contains_key(id)).map(BlobKey::from).collect();
    let cached = |key: &BlobKey| repo.compiler().cached_blob(key.id);
    let found = both(&keys, cached, |keys| async move { store.blobs(name, &keys).await });
    records.blobs.extend(keys.iter().map(|key| key.id).zip(found.await?));
    for (id, blob, kind) in contents {
        let text = blob_of(records, blob)?.text().ok_or(tract_core::ContentError::NotText)?;
        let content = Arc::new(Content::from_blob(&kind, text)?);
        records.contents.insert(id, content);
    }
    for (id, blob) in changes {
        let list = Changes::from_blob(blob_of(records, blob)?.bytes())?;
        records.changes.insert(id, list.into());
    }

    let toolsets: Vec<_> = needs.toolsets.iter().copied().collect();
    if !toolsets.is_empty() {
        let found = store.toolsets(name, &toolsets).await?;
        records.toolsets.extend(toolsets.into_iter().zip(found));
    }
    if needs.chain > records.chain.len() {
        read_chain(repo, head, needs.chain, records).await?;
    }
    Ok(())
}

/// Reads first parents until `wanted` are loaded, doubling the number with each read.
async fn read_chain(
    repo: &Repo,
    head: Option<CommitId>,
    wanted: usize,
    records: &mut Records,
) -> Result<()> {
    // A planner asks for one more commit at a time and is restarted each time. Doubling keeps
    // the number of restarts logarithmic.
    let wanted = wanted.saturating_mul(2).max(16);
    let mut next = match records.chain.last() {
        Some(last) => present(records, *last)?.parent(),
        None => head,
    };
    // Commits of this write are in `records` already; the store does not have them yet.
    while let Some(id) = next {
        if records.chain.len() >= wanted {
            return Ok(());
        }
        if let Some(Some(commit)) = records.commits.get(&id) {
            next = commit.parent();
            records.chain.push(id);
            continue;
        }
        let limit = (wanted - records.chain.len()).clamp(16, 4096);
        let page = repo.history(id).pages(limit, limit).next_page().await?;
        for commit in page.into_iter().flatten() {
            next = commit.parent();
            records.chain.push(commit.id());
            records.insert(commit);
        }
    }
    records.chain_complete = true;
    Ok(())
}

fn present(records: &Records, id: CommitId) -> Result<&Commit> {
    let commit = records.commits.get(&id).and_then(Option::as_ref);
    commit.ok_or(Error::Missing(ObjectId::Commit(id)))
}

fn blob_of(records: &Records, id: BlobId) -> Result<&Blob> {
    let blob = records.blobs.get(&id).and_then(Option::as_ref);
    blob.ok_or(Error::Missing(ObjectId::Blob(id)))
}
