//! Counts and sizes.

use tract_core::store::StoreStats;

use crate::repo::Repo;
use crate::repo::error::Result;

/// Counts and sizes of a repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Counts of the store.
    pub store: StoreStats,
    /// Branches.
    pub branches: usize,
    /// Tags.
    pub tags: usize,
    /// Documents: refs to blobs.
    pub documents: usize,
}

/// Counts the objects, refs and bytes of a repository.
///
/// # Errors
/// When the store fails.
pub async fn stats(repo: &Repo) -> Result<Stats> {
    let store = repo.store().stats(repo.name()).await?;
    let mut stats = Stats { store, ..Stats::default() };
    for (name, target) in repo.store().list_refs(repo.name(), "").await? {
        stats.branches += usize::from(name.branch_name().is_some());
        stats.tags += usize::from(name.tag_name().is_some());
        stats.documents += usize::from(target.blob().is_some());
    }
    Ok(stats)
}
