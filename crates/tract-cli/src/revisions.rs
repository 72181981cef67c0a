//! Revisions from the command line.

use tract::{CommitId, Result, Tract};

/// Finds the commits that revisions name.
pub(crate) async fn resolve_all(tract: &Tract, revisions: &[String]) -> Result<Vec<CommitId>> {
    let mut ids = Vec::with_capacity(revisions.len());
    for revision in revisions {
        ids.push(tract.resolve(revision).await?);
    }
    Ok(ids)
}

/// Finds the commit that a revision names, where there is a revision.
pub(crate) async fn resolve_optional(
    tract: &Tract,
    revision: Option<&str>,
) -> Result<Option<CommitId>> {
    match revision {
        Some(revision) => tract.resolve(revision).await.map(Some),
        None => Ok(None),
    }
}
