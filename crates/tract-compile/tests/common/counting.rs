//! A store that counts what is read from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use tract_core::store::{
    BlobKey, Capabilities, CommitRepository, Damage, DerivedRepository, LogQuery, ObjectRepository,
    RefRepository, StoreStats, ToolRepository, Walk, WalkPage,
};
use tract_core::{
    Applied, Batch, Blob, Commit, CommitId, DerivedKind, IdPrefix, LogEntry, ObjectId, RefName,
    RefTarget, RepoName, Store, StoreResult, ToolDefinition, ToolId, Toolset, ToolsetId,
};

#[derive(Debug)]
pub struct CountingStore {
    inner: Arc<dyn Store>,
    pub calls: AtomicU64,
    pub commits: AtomicU64,
    pub blobs: AtomicU64,
    pub derived: AtomicU64,
}

impl CountingStore {
    pub fn new(inner: Arc<dyn Store>) -> Self {
        let zero = AtomicU64::default;
        Self { inner, calls: zero(), commits: zero(), blobs: zero(), derived: zero() }
    }

    pub fn reset(&self) {
        for counter in [&self.calls, &self.commits, &self.blobs, &self.derived] {
            counter.store(0, Ordering::SeqCst);
        }
    }

    pub fn count(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::SeqCst)
    }

    fn call(&self, counter: &AtomicU64, count: usize) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        counter.fetch_add(count as u64, Ordering::SeqCst);
    }
}

#[async_trait]
impl ObjectRepository for CountingStore {
    async fn blobs(&self, repo: &RepoName, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>> {
        self.call(&self.blobs, keys.len());
        self.inner.blobs(repo, keys).await
    }
    async fn toolsets(
        &self,
        repo: &RepoName,
        ids: &[ToolsetId],
    ) -> StoreResult<Vec<Option<Toolset>>> {
        self.call(&self.blobs, ids.len());
        self.inner.toolsets(repo, ids).await
    }
    async fn resolve_prefix(
        &self,
        repo: &RepoName,
        prefix: &IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>> {
        self.inner.resolve_prefix(repo, prefix, limit).await
    }
}

#[async_trait]
impl CommitRepository for CountingStore {
    async fn commits(&self, repo: &RepoName, ids: &[CommitId]) -> StoreResult<Vec<Option<Commit>>> {
        self.call(&self.commits, ids.len());
        self.inner.commits(repo, ids).await
    }
    async fn walk(&self, repo: &RepoName, walk: Walk) -> StoreResult<WalkPage> {
        let page = self.inner.walk(repo, walk).await?;
        self.call(&self.commits, page.steps.len());
        self.derived.fetch_add(u64::from(page.stopped.is_some()), Ordering::SeqCst);
        Ok(page)
    }
}

#[async_trait]
impl ToolRepository for CountingStore {
    async fn tools(
        &self,
        repo: &RepoName,
        ids: &[ToolId],
    ) -> StoreResult<Vec<Option<ToolDefinition>>> {
        self.inner.tools(repo, ids).await
    }
    async fn tools_by_name(&self, repo: &RepoName, name: &str) -> StoreResult<Vec<ToolDefinition>> {
        self.inner.tools_by_name(repo, name).await
    }
    async fn tool_names(&self, repo: &RepoName) -> StoreResult<Vec<String>> {
        self.inner.tool_names(repo).await
    }
}

#[async_trait]
impl RefRepository for CountingStore {
    async fn refs(
        &self,
        repo: &RepoName,
        names: &[RefName],
    ) -> StoreResult<Vec<Option<RefTarget>>> {
        self.inner.refs(repo, names).await
    }
    async fn list_refs(
        &self,
        repo: &RepoName,
        prefix: &str,
    ) -> StoreResult<Vec<(RefName, RefTarget)>> {
        self.inner.list_refs(repo, prefix).await
    }
    async fn ref_log(&self, repo: &RepoName, query: &LogQuery) -> StoreResult<Vec<LogEntry>> {
        self.inner.ref_log(repo, query).await
    }
}

#[async_trait]
impl DerivedRepository for CountingStore {
    async fn derived(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
        commits: &[CommitId],
    ) -> StoreResult<Vec<Option<Bytes>>> {
        self.call(&self.derived, commits.len());
        self.inner.derived(repo, kind, commits).await
    }
    async fn drop_derived(&self, repo: &RepoName) -> StoreResult<()> {
        self.inner.drop_derived(repo).await
    }
}

#[async_trait]
impl Store for CountingStore {
    fn backend(&self) -> &'static str {
        self.inner.backend()
    }
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    async fn apply(&self, repo: &RepoName, batch: Batch) -> StoreResult<Applied> {
        self.inner.apply(repo, batch).await
    }
    async fn repos(&self) -> StoreResult<Vec<RepoName>> {
        self.inner.repos().await
    }
    async fn stats(&self, repo: &RepoName) -> StoreResult<StoreStats> {
        self.inner.stats(repo).await
    }
    async fn check(&self, repo: &RepoName, repair: bool) -> StoreResult<Vec<Damage>> {
        self.inner.check(repo, repair).await
    }
}
