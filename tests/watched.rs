//! A store that somebody watches: each call is told before it is made and after, and may end there.

use std::fmt;
use std::sync::Arc;

use tract::core::store::{
    BlobKey, Capabilities, CommitRepository, Damage, DerivedRepository, LogQuery, ObjectRepository,
    RefRepository, StoreStats, ToolRepository, Walk, WalkPage,
};
use tract::core::{
    Applied, Batch, Blob, Commit, DerivedKind, IdPrefix, LogEntry, ObjectId, RefName, RefTarget,
    RepoName, StoreResult, ToolDefinition, ToolId, Toolset, ToolsetId,
};
use tract::{CommitId, Store};

/// Is told of the calls of a store.
pub(crate) trait Watch: fmt::Debug + Send + Sync + 'static {
    /// A call is about to be made: its name and, for a write, what it says that it does. Gives a
    /// number to the call; an error is its answer, and the store hears nothing of it.
    fn before(&self, name: &'static str, what: &str) -> StoreResult<usize>;

    /// The call with this number was made.
    fn after(&self, number: usize);
}

/// A store, and who watches it.
#[derive(Debug)]
pub(crate) struct Watched<W> {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) watch: W,
}

impl<W: Watch> Watched<W> {
    async fn call<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        self.call_as(name, "", call).await
    }

    async fn call_as<T>(
        &self,
        name: &'static str,
        what: &str,
        call: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        let number = self.watch.before(name, what)?;
        let answer = call.await;
        self.watch.after(number);
        answer
    }
}

#[async_trait::async_trait]
impl<W: Watch> ObjectRepository for Watched<W> {
    async fn blobs(&self, repo: &RepoName, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>> {
        self.call("blobs", self.store.blobs(repo, keys)).await
    }

    async fn toolsets(
        &self,
        repo: &RepoName,
        ids: &[ToolsetId],
    ) -> StoreResult<Vec<Option<Toolset>>> {
        self.call("toolsets", self.store.toolsets(repo, ids)).await
    }

    async fn resolve_prefix(
        &self,
        repo: &RepoName,
        prefix: &IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>> {
        self.call("resolve_prefix", self.store.resolve_prefix(repo, prefix, limit)).await
    }
}

#[async_trait::async_trait]
impl<W: Watch> CommitRepository for Watched<W> {
    async fn commits(&self, repo: &RepoName, ids: &[CommitId]) -> StoreResult<Vec<Option<Commit>>> {
        self.call("commits", self.store.commits(repo, ids)).await
    }

    async fn walk(&self, repo: &RepoName, walk: Walk) -> StoreResult<WalkPage> {
        self.call("walk", self.store.walk(repo, walk)).await
    }
}

#[async_trait::async_trait]
impl<W: Watch> ToolRepository for Watched<W> {
    async fn tools(
        &self,
        repo: &RepoName,
        ids: &[ToolId],
    ) -> StoreResult<Vec<Option<ToolDefinition>>> {
        self.call("tools", self.store.tools(repo, ids)).await
    }

    async fn tools_by_name(&self, repo: &RepoName, name: &str) -> StoreResult<Vec<ToolDefinition>> {
        self.call("tools_by_name", self.store.tools_by_name(repo, name)).await
    }

    async fn tool_names(&self, repo: &RepoName) -> StoreResult<Vec<String>> {
        self.call("tool_names", self.store.tool_names(repo)).await
    }
}

#[async_trait::async_trait]
impl<W: Watch> RefRepository for Watched<W> {
    async fn refs(
        &self,
        repo: &RepoName,
        names: &[RefName],
    ) -> StoreResult<Vec<Option<RefTarget>>> {
        self.call("refs", self.store.refs(repo, names)).await
    }

    async fn list_refs(
        &self,
        repo: &RepoName,
        prefix: &str,
    ) -> StoreResult<Vec<(RefName, RefTarget)>> {
        self.call("list_refs", self.store.list_refs(repo, prefix)).await
    }

    async fn ref_log(&self, repo: &RepoName, query: &LogQuery) -> StoreResult<Vec<LogEntry>> {
        self.call("ref_log", self.store.ref_log(repo, query)).await
    }
}

#[async_trait::async_trait]
impl<W: Watch> DerivedRepository for Watched<W> {
    async fn derived(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
        commits: &[CommitId],
    ) -> StoreResult<Vec<Option<bytes::Bytes>>> {
        self.call("derived", self.store.derived(repo, kind, commits)).await
    }

    async fn drop_derived(&self, repo: &RepoName) -> StoreResult<()> {
        self.call("drop_derived", self.store.drop_derived(repo)).await
    }
}

#[async_trait::async_trait]
impl<W: Watch> Store for Watched<W> {
    fn backend(&self) -> &'static str {
        self.store.backend()
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    async fn apply(&self, repo: &RepoName, batch: Batch) -> StoreResult<Applied> {
        let what = batch.note.what.clone();
        self.call_as("apply", &what, self.store.apply(repo, batch)).await
    }

    async fn repos(&self) -> StoreResult<Vec<RepoName>> {
        self.call("repos", self.store.repos()).await
    }

    async fn stats(&self, repo: &RepoName) -> StoreResult<StoreStats> {
        self.call("stats", self.store.stats(repo)).await
    }

    async fn check(&self, repo: &RepoName, repair: bool) -> StoreResult<Vec<Damage>> {
        self.call("check", self.store.check(repo, repair)).await
    }

    async fn close(&self) -> StoreResult<()> {
        self.store.close().await
    }
}
