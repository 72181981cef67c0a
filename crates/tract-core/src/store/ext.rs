//! Convenience methods built on the other calls of a store.

use async_trait::async_trait;

use super::{Store, StoreError, StoreResult, Walk};
use crate::commit::Commit;
use crate::id::{BlobId, CommitId, RepoName};
use crate::object::{Blob, ObjectId};
use crate::refs::{RefName, RefTarget};

/// Convenience methods for any store.
#[async_trait]
pub trait StoreExt: Store {
    /// Reads one commit.
    async fn commit(&self, repo: &RepoName, id: CommitId) -> StoreResult<Option<Commit>> {
        Ok(self.commits(repo, &[id]).await?.into_iter().flatten().next())
    }

    /// Reads one commit, which must be stored.
    async fn require_commit(&self, repo: &RepoName, id: CommitId) -> StoreResult<Commit> {
        self.commit(repo, id)
            .await?
            .ok_or_else(|| StoreError::missing(self.backend(), "commit", ObjectId::Commit(id)))
    }

    /// Reads one blob.
    async fn blob(&self, repo: &RepoName, id: BlobId) -> StoreResult<Option<Blob>> {
        Ok(self.blobs(repo, &[id.into()]).await?.into_iter().flatten().next())
    }

    /// Reads one blob, which must be stored.
    async fn require_blob(&self, repo: &RepoName, id: BlobId) -> StoreResult<Blob> {
        self.blob(repo, id)
            .await?
            .ok_or_else(|| StoreError::missing(self.backend(), "blob", ObjectId::Blob(id)))
    }

    /// Reads one ref.
    async fn ref_target(&self, repo: &RepoName, name: &RefName) -> StoreResult<Option<RefTarget>> {
        Ok(self.refs(repo, std::slice::from_ref(name)).await?.into_iter().flatten().next())
    }

    /// Reads a whole first-parent chain, newest first.
    async fn walk_all(&self, repo: &RepoName, head: CommitId) -> StoreResult<Vec<Commit>> {
        let mut commits = Vec::new();
        let mut next = Some(head);
        while let Some(head) = next {
            let page = self.walk(repo, Walk::from(head)).await?;
            commits.extend(page.entries.into_iter().map(|entry| entry.commit));
            next = page.next;
        }
        Ok(commits)
    }
}

impl<S: Store + ?Sized> StoreExt for S {}
