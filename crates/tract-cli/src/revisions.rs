//! Revisions from the command line.

use tract::core::RepoName;
use tract::{CommitId, OpenOptions, Result, Tract};

/// Finds the commits that revisions name.
pub(crate) async fn resolve_all(tract: &Tract, revisions: &[String]) -> Result<Vec<CommitId>> {
    let mut ids = Vec::with_capacity(revisions.len());
    for revision in revisions {
        ids.push(tract.resolve(revision).await?);
    }
    Ok(ids)
}

/// Finds the commit of an optional revision.
pub(crate) async fn resolve_optional(
    tract: &Tract,
    revision: Option<&str>,
) -> Result<Option<CommitId>> {
    match revision {
        Some(revision) => tract.resolve(revision).await.map(Some),
        None => Ok(None),
    }
}

/// Finds the position in a history of an optional revision.
pub(crate) async fn resolve_optional_position(
    tract: &Tract,
    revision: Option<&str>,
) -> Result<Option<CommitId>> {
    match revision {
        Some(revision) => tract.resolve_position(revision).await.map(Some),
        None => Ok(None),
    }
}

/// Finds the position in a history of a revision; `None` for `HEAD` on a branch without commits,
/// which is not an unknown revision.
pub(crate) async fn resolve_head_position(
    tract: &Tract,
    revision: &str,
) -> Result<Option<CommitId>> {
    match tract.head().await? {
        None if revision == "HEAD" => Ok(None),
        _ => tract.resolve_position(revision).await.map(Some),
    }
}

/// Finds the commit of a revision; `None` for `HEAD` on a branch without commits, which is not an
/// unknown revision.
pub(crate) async fn resolve_head(tract: &Tract, revision: &str) -> Result<Option<CommitId>> {
    match tract.head().await? {
        None if revision == "HEAD" => Ok(None),
        _ => tract.resolve(revision).await.map(Some),
    }
}

/// Returns the heads that revisions name, or `HEAD` if there are none. A branch without commits
/// adds nothing.
pub(crate) async fn named_heads(
    tract: &Tract,
    all: bool,
    revisions: &[String],
) -> Result<Vec<(String, CommitId)>> {
    if all {
        return branch_heads(tract).await;
    }
    if revisions.is_empty() {
        let head = tract.head().await?;
        return Ok(head.map(|head| (tract.branch_name().to_owned(), head)).into_iter().collect());
    }
    let mut heads = Vec::with_capacity(revisions.len());
    for revision in revisions {
        heads.push((revision.clone(), tract.resolve_position(revision.as_str()).await?));
    }
    Ok(heads)
}

/// Returns the heads that a search covers: those that revisions name, else `HEAD`, or all branches
/// if the branch of `HEAD` has no commits yet.
pub(crate) async fn searched_heads(
    tract: &Tract,
    all: bool,
    revisions: &[String],
) -> Result<Vec<(String, CommitId)>> {
    let heads = named_heads(tract, all, revisions).await?;
    match heads.is_empty() && revisions.is_empty() {
        true => branch_heads(tract).await,
        false => Ok(heads),
    }
}

/// Returns the heads of all branches, by name.
pub(crate) async fn branch_heads(tract: &Tract) -> Result<Vec<(String, CommitId)>> {
    let branches = tract.branches().list().await?;
    Ok(branches.into_iter().map(|branch| (branch.name, branch.head)).collect())
}

/// Opens another repository of the same store.
pub(crate) async fn open_repo(tract: &Tract, repo: &RepoName) -> Result<Tract> {
    let options = OpenOptions::new().repo(repo.as_str()).create(false);
    options.open_store(tract.store().clone()).await
}
