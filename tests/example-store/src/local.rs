//! The second level: calls that block, which `ThreadedStore` makes a store.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use bytes::Bytes;
use tract_core::store::{
    BlobKey, BlockingStore, Capabilities, Damage, LogQuery, StoreStats, ThreadedStore, Walk,
    WalkPage, WriteMode,
};
use tract_core::{
    Applied, Batch, Blob, Commit, CommitId, DerivedKind, IdPrefix, LogEntry, ObjectId, RefName,
    RefTarget, RepoName, StoreResult, ToolDefinition, ToolId, Toolset, ToolsetId,
};

use crate::state::{State, found};

const NAME: &str = "local";

/// A store in memory whose calls block: one lock, and every call takes it once.
#[derive(Debug, Default)]
pub struct LocalStore {
    state: RwLock<State>,
}

impl LocalStore {
    /// Makes an empty store with a thread for its writes.
    pub fn start() -> ThreadedStore<Self> {
        ThreadedStore::new(Self::default(), WriteMode::default())
    }

    /// A call that panicked cannot have left half a write: a batch is checked before it changes
    /// anything. So a poisoned lock can be used.
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlockingStore for LocalStore {
    fn backend(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::IN_MEMORY
    }

    /// The lock is held for the whole group, so no reader sees a part of it. An engine with
    /// transactions begins one here, and commits and flushes it before it returns.
    fn apply_group(&self, group: &[(RepoName, Batch)]) -> Vec<StoreResult<Applied>> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        group.iter().map(|(repo, batch)| state.apply(NAME, repo, batch)).collect()
    }

    fn walk(&self, repo: &RepoName, walk: Walk) -> StoreResult<WalkPage> {
        self.read().repo(repo).walk(NAME, &walk)
    }

    fn blobs(&self, repo: &RepoName, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>> {
        Ok(found(&self.read().repo(repo).blobs, keys.iter().map(|key| &key.id)))
    }

    fn toolsets(&self, repo: &RepoName, ids: &[ToolsetId]) -> StoreResult<Vec<Option<Toolset>>> {
        Ok(found(&self.read().repo(repo).toolsets, ids))
    }

    fn commits(&self, repo: &RepoName, ids: &[CommitId]) -> StoreResult<Vec<Option<Commit>>> {
        Ok(found(&self.read().repo(repo).commits, ids))
    }

    fn refs(&self, repo: &RepoName, names: &[RefName]) -> StoreResult<Vec<Option<RefTarget>>> {
        Ok(found(&self.read().repo(repo).refs, names))
    }

    fn derived(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
        commits: &[CommitId],
    ) -> StoreResult<Vec<Option<Bytes>>> {
        let state = self.read();
        Ok(commits.iter().map(|id| state.repo(repo).derived.get(&(kind, *id)).cloned()).collect())
    }

    fn resolve_prefix(
        &self,
        repo: &RepoName,
        prefix: &IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>> {
        Ok(self.read().repo(repo).resolve(prefix, limit))
    }

    fn tools(&self, repo: &RepoName, ids: &[ToolId]) -> StoreResult<Vec<Option<ToolDefinition>>> {
        let state = self.read();
        Ok(ids.iter().map(|id| state.repo(repo).tool(*id)).collect())
    }

    fn tools_by_name(&self, repo: &RepoName, name: &str) -> StoreResult<Vec<ToolDefinition>> {
        Ok(self.read().repo(repo).tools_by_name(name))
    }

    fn tool_names(&self, repo: &RepoName) -> StoreResult<Vec<String>> {
        Ok(self.read().repo(repo).tool_names())
    }

    fn list_refs(&self, repo: &RepoName, prefix: &str) -> StoreResult<Vec<(RefName, RefTarget)>> {
        Ok(self.read().repo(repo).list_refs(prefix))
    }

    fn ref_log(&self, repo: &RepoName, query: &LogQuery) -> StoreResult<Vec<LogEntry>> {
        Ok(self.read().repo(repo).ref_log(query))
    }

    fn drop_derived(&self, repo: &RepoName) -> StoreResult<()> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(repo) = state.repos.get_mut(repo) {
            repo.derived.clear();
        }
        Ok(())
    }

    fn repos(&self) -> StoreResult<Vec<RepoName>> {
        Ok(self.read().repos.keys().cloned().collect())
    }

    fn stats(&self, repo: &RepoName) -> StoreResult<StoreStats> {
        Ok(self.read().repo(repo).stats())
    }

    fn check(&self, repo: &RepoName, _repair: bool) -> StoreResult<Vec<Damage>> {
        Ok(self.read().repo(repo).damage())
    }
}
