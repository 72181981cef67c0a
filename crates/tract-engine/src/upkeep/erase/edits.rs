//! The edits that an erasure writes in place of deleted contents.

use std::collections::HashMap;

use tract_core::{
    Blob, BlobId, Commit, CommitId, Content, RefName, RefTarget, StoreExt as _, ToolSchema,
};

use super::scan::{ErasureExtent, Scan, ScannedBranch};
use super::search::emptied;
use crate::plan::{Details, NewContent, Request};
use crate::repo::erasure::Erasure;
use crate::repo::error::{Error, Result};
use crate::write::erasures::EditNote;
use crate::write::txn::Txn;

/// The planned edits.
#[derive(Debug, Default)]
pub(super) struct PlannedEdits {
    /// Number of edits.
    pub(super) edits: usize,
    /// The replacement of each content that was not deleted completely.
    pub(super) replaced_by: HashMap<BlobId, BlobId>,
}

/// Plans the edits of all branches and documents. `contents` caches the replacement of each
/// version, for branches that are found after the bytes were deleted.
pub(super) async fn plan(
    txn: &mut Txn<'_>,
    scan: &Scan<'_>,
    note: &EditNote,
    contents: &mut HashMap<CommitId, Content>,
) -> Result<PlannedEdits> {
    let mut planned = PlannedEdits::default();
    // Hold every branch, because a concurrent commit may link to the bytes too. If a branch moves,
    // all edits are planned again.
    for branch in &scan.branches {
        txn.hold(&branch.name, Some(RefTarget::Commit(branch.head)));
    }
    for ScannedBranch { name: branch, shown, .. } in &scan.branches {
        for version in shown {
            let Some(affected) = scan.commits.get(version) else { continue };
            let commit = scan.repo.require_commit(*version).await?;
            let arrived = commit.linked_blobs().find_map(|id| scan.scope.arrived.get(&id));
            let note = arrived.map_or_else(|| note.clone(), EditNote::of);
            let new = match contents.get(version) {
                Some(new) => new.clone(),
                None => {
                    let new = replacement(scan, &commit, *affected, &note, arrived).await?;
                    let Some(new) = new else { continue };
                    contents.insert(*version, new.clone());
                    new
                }
            };
            // Recorded with the erasure, so that a branch which returns to this version later, here
            // or in another store, gets the same edit.
            if let (Some(id), Ok(text)) = (commit.content.filter(|id| scan.has(*id)), new.to_blob())
            {
                planned.replaced_by.insert(id, Blob::seal(text.into_bytes()).id());
            }
            let (content, details) = (NewContent::Redacted(new), note.details());
            txn.add(branch, &Request::Edit { target: *version, content, details }).await?;
            planned.edits += 1;
        }
        planned.edits +=
            usize::from(tools(txn, scan, branch, note, &mut planned.replaced_by).await?);
    }
    for (name, old, text) in &scan.documents {
        let document = Blob::seal(text.clone());
        let (from, to) = (RefTarget::Blob(*old), RefTarget::Blob(document.id()));
        txn.blob(document)?;
        txn.move_from(name, Some(from), Some(to));
        planned.edits += 1;
    }
    Ok(planned)
}

/// Stores the replacements of versions that no branch shows, for branches that return to one of
/// them.
pub(super) async fn plan_hidden(
    txn: &mut Txn<'_>,
    scan: &Scan<'_>,
    note: &EditNote,
    contents: &mut HashMap<CommitId, Content>,
    planned: &mut PlannedEdits,
) -> Result<()> {
    let mut versions: Vec<CommitId> = scan.commits.keys().copied().collect();
    versions.sort_unstable();
    for version in versions {
        let Some(affected) = scan.commits.get(&version) else { continue };
        let commit = scan.repo.require_commit(version).await?;
        let Some(id) = commit.content.filter(|id| scan.has(*id)) else { continue };
        // An erasure that arrived has its replacement.
        if planned.replaced_by.contains_key(&id) || scan.scope.arrived.contains_key(&id) {
            continue;
        }
        let new = match contents.get(&version) {
            Some(new) => new.clone(),
            None => match replacement(scan, &commit, *affected, note, None).await? {
                Some(new) => contents.entry(version).or_insert(new).clone(),
                None => continue,
            },
        };
        if let Ok(text) = new.to_blob() {
            let blob = Blob::seal(text.into_bytes());
            planned.replaced_by.insert(id, blob.id());
            txn.blob(blob)?;
        }
    }
    Ok(())
}

/// Returns the replacement of a version; `None` if its content is gone.
async fn replacement(
    scan: &Scan<'_>,
    commit: &Commit,
    affected: ErasureExtent,
    note: &EditNote,
    arrived: Option<&Erasure>,
) -> Result<Option<Content>> {
    let old = match scan.repo.content(commit).await {
        Ok(Some(old)) => old,
        Ok(None) | Err(Error::Erased(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(match affected {
        ErasureExtent::Whole => match sent(scan, commit, arrived).await? {
            Some(new) => new,
            None => emptied(&old, &note.mark()),
        },
        ErasureExtent::Part => scan.scope.search.content(&old).unwrap_or(old),
        // The same content, without the provider's bytes.
        ErasureExtent::Verbatim => old,
    }))
}

/// Reads the replacement of a content from the source of its erasure.
async fn sent(
    scan: &Scan<'_>,
    commit: &Commit,
    erasure: Option<&Erasure>,
) -> Result<Option<Content>> {
    let (Some(id), Some(kind)) = (erasure.and_then(|erasure| erasure.replaced_by), &commit.kind)
    else {
        return Ok(None);
    };
    let repo = scan.scope.from.unwrap_or(scan.repo);
    let blob = repo.store().blob(repo.name(), id).await?;
    let text = blob.as_ref().and_then(Blob::text);
    Ok(text.and_then(|text| Content::from_blob(kind, text).ok()))
}

/// Replaces the tools in force on a branch if a definition is erased.
async fn tools(
    txn: &mut Txn<'_>,
    scan: &Scan<'_>,
    branch: &RefName,
    note: &EditNote,
    replaced_by: &mut HashMap<BlobId, BlobId>,
) -> Result<bool> {
    let Some(head) = txn.head(branch).await? else { return Ok(false) };
    let in_force = match txn.made_here(head) {
        Some(commit) => commit.active_toolset(),
        None => scan.repo.require_commit(head).await?.active_toolset(),
    };
    let Some(id) = in_force else { return Ok(false) };
    let toolset = scan.repo.require_toolset(id).await?;
    if !toolset.entries().iter().any(|entry| scan.has(entry.schema)) {
        return Ok(false);
    }
    let mut tools: Vec<ToolSchema> = Vec::new();
    for entry in toolset.entries() {
        let blob = scan.repo.require_blob(entry.schema).await?;
        let Some(text) = blob.text() else { continue };
        if scan.has(entry.schema) {
            // If the remaining text is not a valid definition, the tool is removed.
            let tool = scan.tool(entry.schema, text);
            replaced_by.extend(tool.as_ref().map(|tool| (entry.schema, tool.blob().id())));
            tools.extend(tool);
        } else {
            tools.extend(ToolSchema::parse(text).ok());
        }
    }
    let details = Details { created_at: Some(note.at_us), ..Details::default() };
    txn.add(branch, &Request::Tools { tools, details }).await?;
    Ok(true)
}
