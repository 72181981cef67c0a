//! The store traits of [`ThreadedStore`]: reads are forwarded directly to the blocking store.
//!
//! Calls that must not run during a group write hold the `writing` lock: `check`, `restore`,
//! `sweep` and `drop_derived` change or compare rows that a transaction may be changing.

use async_trait::async_trait;
use bytes::Bytes;

use super::ThreadedStore;
use crate::batch::{Applied, Batch, DerivedKind};
use crate::commit::Commit;
use crate::id::{CommitId, RepoName, ToolId, ToolsetId};
use crate::object::{Blob, IdPrefix, ObjectId, ToolDefinition, Toolset};
use crate::refs::{LogEntry, RefName, RefTarget};
use crate::store::{
    BlobKey, BlockingStore, Capabilities, CommitRepository, Damage, DerivedRepository, LogQuery,
    ObjectCopies, ObjectListing, ObjectPage, ObjectRepository, RefRepository, RepackPage,
    RepackStep, SpaceRelease, Store, StoreResult, StoreStats, Sweep, SweepAnswer, ToolRepository,
    Walk, WalkPage, WipeReport, WritePosition,
};

#[async_trait]
impl<S: BlockingStore> ObjectRepository for ThreadedStore<S> {
    async fn blobs(&self, repo: &RepoName, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>> {
        self.store().blobs(repo, keys)
    }

    async fn toolsets(
        &self,
        repo: &RepoName,
        ids: &[ToolsetId],
    ) -> StoreResult<Vec<Option<Toolset>>> {
        self.store().toolsets(repo, ids)
    }

    async fn resolve_prefix(
        &self,
        repo: &RepoName,
        prefix: &IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>> {
        self.store().resolve_prefix(repo, prefix, limit)
    }
}

#[async_trait]
impl<S: BlockingStore> CommitRepository for ThreadedStore<S> {
    async fn commits(&self, repo: &RepoName, ids: &[CommitId]) -> StoreResult<Vec<Option<Commit>>> {
        self.store().commits(repo, ids)
    }

    async fn walk(&self, repo: &RepoName, walk: Walk) -> StoreResult<WalkPage> {
        self.store().walk(repo, walk)
    }
}

#[async_trait]
impl<S: BlockingStore> ToolRepository for ThreadedStore<S> {
    async fn tools(
        &self,
        repo: &RepoName,
        ids: &[ToolId],
    ) -> StoreResult<Vec<Option<ToolDefinition>>> {
        self.store().tools(repo, ids)
    }

    async fn tools_by_name(&self, repo: &RepoName, name: &str) -> StoreResult<Vec<ToolDefinition>> {
        self.store().tools_by_name(repo, name)
    }

    async fn tool_names(&self, repo: &RepoName) -> StoreResult<Vec<String>> {
        self.store().tool_names(repo)
    }
}

#[async_trait]
impl<S: BlockingStore> RefRepository for ThreadedStore<S> {
    async fn refs(
        &self,
        repo: &RepoName,
        names: &[RefName],
    ) -> StoreResult<Vec<Option<RefTarget>>> {
        self.store().refs(repo, names)
    }

    async fn list_refs(
        &self,
        repo: &RepoName,
        prefix: &str,
    ) -> StoreResult<Vec<(RefName, RefTarget)>> {
        self.store().list_refs(repo, prefix)
    }

    async fn ref_log(&self, repo: &RepoName, query: &LogQuery) -> StoreResult<Vec<LogEntry>> {
        self.store().ref_log(repo, query)
    }
}

#[async_trait]
impl<S: BlockingStore> DerivedRepository for ThreadedStore<S> {
    async fn derived(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
        commits: &[CommitId],
    ) -> StoreResult<Vec<Option<Bytes>>> {
        self.store().derived(repo, kind, commits)
    }

    async fn derived_commits(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
    ) -> StoreResult<Option<Vec<CommitId>>> {
        self.store().derived_commits(repo, kind)
    }

    async fn drop_derived(&self, repo: &RepoName) -> StoreResult<()> {
        let _writing = self.shared.lock();
        self.store().drop_derived(repo)
    }
}

#[async_trait]
impl<S: BlockingStore> Store for ThreadedStore<S> {
    fn backend(&self) -> &'static str {
        self.store().backend()
    }

    fn capabilities(&self) -> Capabilities {
        self.store().capabilities()
    }

    async fn apply(&self, repo: &RepoName, batch: Batch) -> StoreResult<Applied> {
        self.write(Box::new((repo.clone(), batch))).await
    }

    async fn repos(&self) -> StoreResult<Vec<RepoName>> {
        self.store().repos()
    }

    async fn stats(&self, repo: &RepoName) -> StoreResult<StoreStats> {
        self.store().stats(repo)
    }

    async fn check(&self, repo: &RepoName, repair: bool) -> StoreResult<Vec<Damage>> {
        let _writing = self.shared.lock();
        self.store().check(repo, repair)
    }

    async fn restore(&self, repo: &RepoName, copies: ObjectCopies) -> StoreResult<Vec<ObjectId>> {
        let _writing = self.shared.lock();
        self.store().restore(repo, &copies)
    }

    async fn list_objects(
        &self,
        repo: &RepoName,
        listing: ObjectListing,
    ) -> StoreResult<ObjectPage> {
        self.store().list_objects(repo, listing)
    }

    async fn write_position(&self, repo: &RepoName) -> StoreResult<WritePosition> {
        self.store().write_position(repo)
    }

    async fn sweep(&self, repo: &RepoName, sweep: Sweep) -> StoreResult<SweepAnswer> {
        let _writing = self.shared.lock();
        self.store().sweep(repo, &sweep)
    }

    /// Blocks the caller's thread. Writes continue between its steps, as far as the store allows.
    async fn release_space(&self) -> StoreResult<SpaceRelease> {
        self.store().release_space()
    }

    /// Blocks the caller's thread. Writers wait until it is done.
    async fn wipe(&self) -> StoreResult<WipeReport> {
        self.store().wipe()
    }

    /// Blocks the caller's thread. Writes continue as far as the store allows.
    async fn repack(&self, repo: &RepoName, step: RepackStep) -> StoreResult<RepackPage> {
        self.store().repack(repo, step)
    }

    /// Rejects further writes, writes the queued ones, ends the thread and closes the store. Blocks
    /// the caller's thread.
    async fn close(&self) -> StoreResult<()> {
        self.close_store()
    }
}
