//! What an erasure writes in the place of what it deletes.

use tract_core::{AuthorKind, Blob, RefName, RefTarget, ToolSchema};

use super::request::EraseRequest;
use super::scan::{ErasureExtent, Scan, ScannedBranch};
use super::search::emptied;
use crate::error::Result;
use crate::plan::{Details, NewContent, Request};
use crate::txn::Txn;

/// Plans the edits of all branches and documents; says how many there are.
pub(super) async fn plan(
    txn: &mut Txn<'_>,
    scan: &Scan<'_>,
    request: &EraseRequest,
) -> Result<usize> {
    let mut edits = 0;
    // What others commit meanwhile may have the bytes too: then all of this is planned again.
    for branch in &scan.branches {
        txn.hold(&branch.name, Some(RefTarget::Commit(branch.head)));
    }
    for ScannedBranch { name: branch, shown, .. } in &scan.branches {
        for version in shown {
            let Some(affected) = scan.commits.get(version) else { continue };
            let commit = scan.repo.require_commit(*version).await?;
            let Some(old) = scan.repo.content(&commit).await? else { continue };
            let new = match affected {
                ErasureExtent::Whole => emptied(&old, &request.mark()),
                ErasureExtent::Part => scan.search.content(&old).unwrap_or(old),
                // The same message, without the provider's bytes.
                ErasureExtent::Verbatim => old,
            };
            let details = Details {
                message: Some(format!("{}: {}", request.verb(), request.reason)),
                origin: AuthorKind::User.into(),
                ..Details::default()
            };
            let content = NewContent::Redacted(new);
            txn.add(branch, &Request::Edit { target: *version, content, details }).await?;
            edits += 1;
        }
        edits += usize::from(tools(txn, scan, branch).await?);
    }
    for (name, old, text) in &scan.documents {
        let document = Blob::seal(text.clone());
        let (from, to) = (RefTarget::Blob(*old), RefTarget::Blob(document.id()));
        txn.blob(document)?;
        txn.move_from(name, Some(from), Some(to));
        edits += 1;
    }
    Ok(edits)
}

/// Replaces the tools in force on a branch where a definition is erased.
async fn tools(txn: &mut Txn<'_>, scan: &Scan<'_>, branch: &RefName) -> Result<bool> {
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
            // One that is no definition any more is no longer in force.
            tools.extend(scan.tool(entry.schema, text));
        } else {
            tools.extend(ToolSchema::parse(text).ok());
        }
    }
    txn.add(branch, &Request::Tools { tools, details: Details::default() }).await?;
    Ok(true)
}
