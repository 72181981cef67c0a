//! Every method of the traits, as a call.

use async_trait::async_trait;
use bytes::Bytes;
use tract_core::store::{
    BlobKey, Capabilities, CommitRepository, Damage, DerivedRepository, LogQuery, ObjectListing,
    ObjectPage, ObjectRepository, RefRepository, RepackPage, RepackStep, SpaceRelease, StoreStats,
    Sweep, SweepAnswer, ToolRepository, Walk, WalkPage, WipeReport, WritePosition,
};
use tract_core::{
    Applied, Batch, Blob, Commit, CommitId, DerivedKind, IdPrefix, LogEntry, ObjectId, RefName,
    RefTarget, RepoName, Store, StoreResult, ToolDefinition, ToolId, Toolset, ToolsetId,
};

use super::{Call, Watch, WatchedStore};

#[async_trait]
impl<W: Watch> ObjectRepository for WatchedStore<W> {
    async fn blobs(&self, repo: &RepoName, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>> {
        self.call(Call::Blobs { repo, keys }).await
    }

    async fn toolsets(
        &self,
        repo: &RepoName,
        ids: &[ToolsetId],
    ) -> StoreResult<Vec<Option<Toolset>>> {
        self.call(Call::Toolsets { repo, ids }).await
    }

    async fn resolve_prefix(
        &self,
        repo: &RepoName,
        prefix: &IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>> {
        self.call(Call::ResolvePrefix { repo, prefix, limit }).await
    }
}

#[async_trait]
impl<W: Watch> CommitRepository for WatchedStore<W> {
    async fn commits(&self, repo: &RepoName, ids: &[CommitId]) -> StoreResult<Vec<Option<Commit>>> {
        self.call(Call::Commits { repo, ids }).await
    }

    async fn walk(&self, repo: &RepoName, walk: Walk) -> StoreResult<WalkPage> {
        self.call(Call::Walk { repo, walk }).await
    }
}

#[async_trait]
impl<W: Watch> ToolRepository for WatchedStore<W> {
    async fn tools(
        &self,
        repo: &RepoName,
        ids: &[ToolId],
    ) -> StoreResult<Vec<Option<ToolDefinition>>> {
        self.call(Call::Tools { repo, ids }).await
    }

    async fn tools_by_name(&self, repo: &RepoName, name: &str) -> StoreResult<Vec<ToolDefinition>> {
        self.call(Call::ToolsByName { repo, name }).await
    }

    async fn tool_names(&self, repo: &RepoName) -> StoreResult<Vec<String>> {
        self.call(Call::ToolNames { repo }).await
    }
}

#[async_trait]
impl<W: Watch> RefRepository for WatchedStore<W> {
    async fn refs(
        &self,
        repo: &RepoName,
        names: &[RefName],
    ) -> StoreResult<Vec<Option<RefTarget>>> {
        self.call(Call::Refs { repo, names }).await
    }

    async fn list_refs(
        &self,
        repo: &RepoName,
        prefix: &str,
    ) -> StoreResult<Vec<(RefName, RefTarget)>> {
        self.call(Call::ListRefs { repo, prefix }).await
    }

    async fn ref_log(&self, repo: &RepoName, query: &LogQuery) -> StoreResult<Vec<LogEntry>> {
        self.call(Call::RefLog { repo, query }).await
    }
}

#[async_trait]
impl<W: Watch> DerivedRepository for WatchedStore<W> {
    async fn derived(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
        commits: &[CommitId],
    ) -> StoreResult<Vec<Option<Bytes>>> {
        self.call(Call::Derived { repo, kind, commits }).await
    }

    async fn derived_commits(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
    ) -> StoreResult<Option<Vec<CommitId>>> {
        self.call(Call::DerivedCommits { repo, kind }).await
    }

    async fn drop_derived(&self, repo: &RepoName) -> StoreResult<()> {
        self.call(Call::DropDerived { repo }).await
    }
}

#[async_trait]
impl<W: Watch> Store for WatchedStore<W> {
    fn backend(&self) -> &'static str {
        self.store.backend()
    }

    fn capabilities(&self) -> Capabilities {
        self.watch.capabilities(&*self.store)
    }

    async fn apply(&self, repo: &RepoName, batch: Batch) -> StoreResult<Applied> {
        self.call(Call::Apply { repo, batch: &batch }).await
    }

    async fn repos(&self) -> StoreResult<Vec<RepoName>> {
        self.call(Call::Repos {}).await
    }

    async fn stats(&self, repo: &RepoName) -> StoreResult<StoreStats> {
        self.call(Call::Stats { repo }).await
    }

    async fn check(&self, repo: &RepoName, repair: bool) -> StoreResult<Vec<Damage>> {
        self.call(Call::Check { repo, repair }).await
    }

    async fn list_objects(
        &self,
        repo: &RepoName,
        listing: ObjectListing,
    ) -> StoreResult<ObjectPage> {
        self.call(Call::ListObjects { repo, listing }).await
    }

    async fn write_position(&self, repo: &RepoName) -> StoreResult<WritePosition> {
        self.call(Call::WritePosition { repo }).await
    }

    async fn sweep(&self, repo: &RepoName, sweep: Sweep) -> StoreResult<SweepAnswer> {
        self.call(Call::Sweep { repo, sweep: &sweep }).await
    }

    async fn release_space(&self) -> StoreResult<SpaceRelease> {
        self.call(Call::ReleaseSpace {}).await
    }

    async fn wipe(&self) -> StoreResult<WipeReport> {
        self.call(Call::Wipe {}).await
    }

    async fn repack(&self, repo: &RepoName, step: RepackStep) -> StoreResult<RepackPage> {
        self.call(Call::Repack { repo, step }).await
    }

    async fn close(&self) -> StoreResult<()> {
        self.call(Call::Close {}).await
    }
}
