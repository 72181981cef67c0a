//! Implements the store traits for pointers to stores: `Arc`, `Box`, and custom ones.

use std::fmt;
use std::ops::Deref;

use async_trait::async_trait;
use bytes::Bytes;

use super::*;

#[async_trait]
impl<P: Deref<Target: Store> + fmt::Debug + Send + Sync + 'static> ObjectRepository for P {
    async fn blobs(&self, repo: &RepoName, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>> {
        self.deref().blobs(repo, keys).await
    }
    async fn toolsets(
        &self,
        repo: &RepoName,
        ids: &[ToolsetId],
    ) -> StoreResult<Vec<Option<Toolset>>> {
        self.deref().toolsets(repo, ids).await
    }
    async fn resolve_prefix(
        &self,
        repo: &RepoName,
        prefix: &IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>> {
        self.deref().resolve_prefix(repo, prefix, limit).await
    }
}
#[async_trait]
impl<P: Deref<Target: Store> + fmt::Debug + Send + Sync + 'static> CommitRepository for P {
    async fn commits(&self, repo: &RepoName, ids: &[CommitId]) -> StoreResult<Vec<Option<Commit>>> {
        self.deref().commits(repo, ids).await
    }
    async fn walk(&self, repo: &RepoName, walk: Walk) -> StoreResult<WalkPage> {
        self.deref().walk(repo, walk).await
    }
}
#[async_trait]
impl<P: Deref<Target: Store> + fmt::Debug + Send + Sync + 'static> ToolRepository for P {
    async fn tools(
        &self,
        repo: &RepoName,
        ids: &[ToolId],
    ) -> StoreResult<Vec<Option<ToolDefinition>>> {
        self.deref().tools(repo, ids).await
    }
    async fn tools_by_name(&self, repo: &RepoName, name: &str) -> StoreResult<Vec<ToolDefinition>> {
        self.deref().tools_by_name(repo, name).await
    }
    async fn tool_names(&self, repo: &RepoName) -> StoreResult<Vec<String>> {
        self.deref().tool_names(repo).await
    }
    async fn tool_ids_of(&self, repo: &RepoName, commit: CommitId) -> StoreResult<Vec<ToolId>> {
        self.deref().tool_ids_of(repo, commit).await
    }
    async fn tools_of(&self, repo: &RepoName, commit: CommitId) -> StoreResult<Vec<Blob>> {
        self.deref().tools_of(repo, commit).await
    }
}
#[async_trait]
impl<P: Deref<Target: Store> + fmt::Debug + Send + Sync + 'static> RefRepository for P {
    async fn refs(
        &self,
        repo: &RepoName,
        names: &[RefName],
    ) -> StoreResult<Vec<Option<RefTarget>>> {
        self.deref().refs(repo, names).await
    }
    async fn list_refs(
        &self,
        repo: &RepoName,
        prefix: &str,
    ) -> StoreResult<Vec<(RefName, RefTarget)>> {
        self.deref().list_refs(repo, prefix).await
    }
    async fn ref_log(&self, repo: &RepoName, query: &LogQuery) -> StoreResult<Vec<LogEntry>> {
        self.deref().ref_log(repo, query).await
    }
}
#[async_trait]
impl<P: Deref<Target: Store> + fmt::Debug + Send + Sync + 'static> DerivedRepository for P {
    async fn derived(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
        commits: &[CommitId],
    ) -> StoreResult<Vec<Option<Bytes>>> {
        self.deref().derived(repo, kind, commits).await
    }
    async fn derived_commits(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
    ) -> StoreResult<Option<Vec<CommitId>>> {
        self.deref().derived_commits(repo, kind).await
    }
    async fn drop_derived(&self, repo: &RepoName) -> StoreResult<()> {
        self.deref().drop_derived(repo).await
    }
}
#[async_trait]
impl<P: Deref<Target: Store> + fmt::Debug + Send + Sync + 'static> Store for P {
    fn backend(&self) -> &'static str {
        self.deref().backend()
    }
    fn capabilities(&self) -> Capabilities {
        self.deref().capabilities()
    }
    async fn apply(&self, repo: &RepoName, batch: Batch) -> StoreResult<Applied> {
        self.deref().apply(repo, batch).await
    }
    async fn repos(&self) -> StoreResult<Vec<RepoName>> {
        self.deref().repos().await
    }
    async fn stats(&self, repo: &RepoName) -> StoreResult<StoreStats> {
        self.deref().stats(repo).await
    }
    async fn check(&self, repo: &RepoName, repair: bool) -> StoreResult<Vec<Damage>> {
        self.deref().check(repo, repair).await
    }
    async fn restore(&self, repo: &RepoName, copies: ObjectCopies) -> StoreResult<Vec<ObjectId>> {
        self.deref().restore(repo, copies).await
    }
    async fn list_objects(
        &self,
        repo: &RepoName,
        listing: ObjectListing,
    ) -> StoreResult<ObjectPage> {
        self.deref().list_objects(repo, listing).await
    }
    async fn write_position(&self, repo: &RepoName) -> StoreResult<WritePosition> {
        self.deref().write_position(repo).await
    }
    async fn sweep(&self, repo: &RepoName, sweep: Sweep) -> StoreResult<SweepAnswer> {
        self.deref().sweep(repo, sweep).await
    }
    async fn release_space(&self) -> StoreResult<SpaceRelease> {
        self.deref().release_space().await
    }
    async fn wipe(&self) -> StoreResult<WipeReport> {
        self.deref().wipe().await
    }
    async fn repack(&self, repo: &RepoName, step: RepackStep) -> StoreResult<RepackPage> {
        self.deref().repack(repo, step).await
    }
    async fn close(&self) -> StoreResult<()> {
        self.deref().close().await
    }
}
