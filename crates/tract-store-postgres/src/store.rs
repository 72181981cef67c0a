//! The store. Every call runs on a small runtime of its own, so that callers do not need one.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::runtime::{Builder, Runtime};
use tract_core::store::{
    BlobKey, Capabilities, CommitRepository, Damage, DerivedRepository, LogQuery, ObjectCopies,
    ObjectListing, ObjectPage, ObjectRepository, RefRepository, SpaceRelease, StoreStats, Sweep,
    SweepAnswer, ToolRepository, Walk, WalkPage, WipeReport, WritePosition,
};
use tract_core::{
    Applied, Batch, Blob, Commit, CommitId, DerivedKind, IdPrefix, LogEntry, ObjectId, RefName,
    RefTarget, RepoName, Store, StoreErrorKind, StoreResult, ToolDefinition, ToolId, Toolset,
    ToolsetId,
};

use crate::error::{BACKEND, new};
use crate::link::Connector;
use crate::queue::RepoQueues;
use crate::read::RepoReader;
use crate::{PostgresOptions, apply, check, migrate, options, restore, stats, sweep, walk, wipe};

/// Opens the store at a URL, or creates it if the options allow it.
///
/// The URLs are those of PostgreSQL (`postgres://USER:PASSWORD@HOST:PORT/DATABASE`, several hosts,
/// `?sslmode=`), with the additional parameters `schema=NAME`, `pool_size=N`, `partitions=N`,
/// `row_security=on` and `sslrootcert=FILE`.
///
/// # Errors
/// `Invalid` for a bad URL, `Unavailable` if the server cannot be reached, `NoStore` if the
/// database does not exist or contains no store, `TooNew` for a format of a newer version, `Unsupported`
/// for a server that is too old, is not encoded in UTF-8 or would lose acknowledged writes.
pub async fn open(url: &str, options: &PostgresOptions) -> StoreResult<PostgresStore> {
    let target = options::target(url, options)?;
    let runtime = start_runtime()?;
    let link = run_on(&runtime, "open", async move {
        let link = Arc::new(Connector::new(target)?);
        migrate::open(&link).await?;
        Ok(link)
    })
    .await?;
    Ok(PostgresStore { link, queues: RepoQueues::default(), runtime })
}

/// Starts the threads that drive the connections.
pub(crate) fn start_runtime() -> StoreResult<OwnedRuntime> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("tract-postgres")
        .enable_all()
        .build()
        .map_err(|error| {
            let message = format!("the store's threads cannot be started: {error}");
            new(StoreErrorKind::Unavailable, "open", message).with_source(error)
        })?;
    Ok(OwnedRuntime(Some(runtime)))
}

/// A runtime that shuts down in the background. Its owner may be dropped on a thread of another
/// runtime, which must not block.
pub(crate) struct OwnedRuntime(Option<Runtime>);

impl Drop for OwnedRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

pub(crate) async fn run_on<T: Send + 'static>(
    runtime: &OwnedRuntime,
    op: &'static str,
    work: impl Future<Output = StoreResult<T>> + Send + 'static,
) -> StoreResult<T> {
    let ended = |message: String| new(StoreErrorKind::Engine, op, message);
    match &runtime.0 {
        Some(runtime) => match runtime.spawn(work).await {
            Ok(answer) => answer,
            Err(error) => Err(ended(format!("the call was cut off: {error}"))),
        },
        None => Err(ended("the store's threads have ended".to_owned())),
    }
}

/// A store in a schema of a PostgreSQL database, returned by [`open`].
///
/// A handle owns a connection pool and two threads that drive it. Calls may come from any executor,
/// or from none ([`tract_core::block_on`]). To share a handle, clone an [`Arc`] of it.
pub struct PostgresStore {
    link: Arc<Connector>,
    queues: RepoQueues,
    runtime: OwnedRuntime,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("schema", &self.link.schema).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Returns whether the store separates repositories by row-level security.
    pub fn has_row_security(&self) -> bool {
        self.link.has_row_security()
    }

    async fn run<T, F>(
        &self,
        op: &'static str,
        work: impl FnOnce(Arc<Connector>) -> F,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
    {
        run_on(&self.runtime, op, work(Arc::clone(&self.link))).await
    }

    /// Reads from a repository.
    async fn read<T: Send + 'static, F: Future<Output = StoreResult<T>> + Send>(
        &self,
        op: &'static str,
        repo: &RepoName,
        read: impl FnOnce(RepoReader) -> F + Send + 'static,
    ) -> StoreResult<T> {
        let repo = repo.clone();
        self.run(op, |link| async move {
            let number = link.repo(op, &repo).await?;
            read(RepoReader { link, op, repo, number }).await
        })
        .await
    }
}

#[async_trait]
impl ObjectRepository for PostgresStore {
    async fn blobs(&self, repo: &RepoName, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>> {
        let keys = keys.to_vec();
        self.read("blobs", repo, |reader| reader.blobs(keys)).await
    }

    async fn toolsets(
        &self,
        repo: &RepoName,
        ids: &[ToolsetId],
    ) -> StoreResult<Vec<Option<Toolset>>> {
        let ids = ids.to_vec();
        self.read("toolsets", repo, |reader| reader.toolsets(ids)).await
    }

    async fn resolve_prefix(
        &self,
        repo: &RepoName,
        prefix: &IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>> {
        let prefix = prefix.clone();
        self.read("resolve_prefix", repo, move |reader| reader.resolve_prefix(prefix, limit)).await
    }
}

#[async_trait]
impl CommitRepository for PostgresStore {
    async fn commits(&self, repo: &RepoName, ids: &[CommitId]) -> StoreResult<Vec<Option<Commit>>> {
        let ids = ids.to_vec();
        self.read("commits", repo, |reader| reader.commits(ids)).await
    }

    async fn walk(&self, repo: &RepoName, walk: Walk) -> StoreResult<WalkPage> {
        let repo = repo.clone();
        self.run("walk", |link| async move { walk::walk(&link, &repo, &walk).await }).await
    }
}

#[async_trait]
impl ToolRepository for PostgresStore {
    async fn tools(
        &self,
        repo: &RepoName,
        ids: &[ToolId],
    ) -> StoreResult<Vec<Option<ToolDefinition>>> {
        let ids = ids.to_vec();
        self.read("tools", repo, |reader| reader.tools(ids)).await
    }

    async fn tools_by_name(&self, repo: &RepoName, name: &str) -> StoreResult<Vec<ToolDefinition>> {
        let name = name.to_owned();
        self.read("tools_by_name", repo, |reader| reader.tools_by_name(name)).await
    }

    async fn tool_names(&self, repo: &RepoName) -> StoreResult<Vec<String>> {
        self.read("tool_names", repo, RepoReader::tool_names).await
    }
}

#[async_trait]
impl RefRepository for PostgresStore {
    async fn refs(
        &self,
        repo: &RepoName,
        names: &[RefName],
    ) -> StoreResult<Vec<Option<RefTarget>>> {
        let names = names.to_vec();
        self.read("refs", repo, |reader| reader.refs(names)).await
    }

    async fn list_refs(
        &self,
        repo: &RepoName,
        prefix: &str,
    ) -> StoreResult<Vec<(RefName, RefTarget)>> {
        let prefix = prefix.to_owned();
        self.read("list_refs", repo, |reader| reader.list_refs(prefix)).await
    }

    async fn ref_log(&self, repo: &RepoName, query: &LogQuery) -> StoreResult<Vec<LogEntry>> {
        let query = query.clone();
        self.read("ref_log", repo, |reader| reader.ref_log(query)).await
    }
}

#[async_trait]
impl DerivedRepository for PostgresStore {
    async fn derived(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
        commits: &[CommitId],
    ) -> StoreResult<Vec<Option<Bytes>>> {
        let ids = commits.to_vec();
        self.read("derived", repo, move |reader| reader.derived(kind, ids)).await
    }

    async fn drop_derived(&self, repo: &RepoName) -> StoreResult<()> {
        self.read("drop_derived", repo, RepoReader::drop_derived).await
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::MANY_PROCESSES;
        capabilities.durable = !self.link.options.unsafe_lose_on_power_loss;
        // Functions of an earlier edition do not wait for a sweep.
        capabilities.collects_garbage = self.link.has_appends();
        // They do not delete erased blobs either.
        capabilities.erases = self.link.has_appends();
        capabilities.restores = true;
        capabilities
    }

    async fn apply(&self, repo: &RepoName, batch: Batch) -> StoreResult<Applied> {
        // Submitted at the first poll. From then on it runs on its own tasks.
        let answer = apply::submit(&self.link, &self.queues, repo, batch)?;
        answer.await.unwrap_or_else(|_| {
            let message = "the statement that it was part of was given up";
            Err(new(StoreErrorKind::Unknown, "apply", message))
        })
    }

    async fn repos(&self) -> StoreResult<Vec<RepoName>> {
        self.run("repos", |link| async move { stats::repos(&link).await }).await
    }

    async fn stats(&self, repo: &RepoName) -> StoreResult<StoreStats> {
        let mut counted = self.read("stats", repo, RepoReader::stats).await?;
        let taken = |link: Arc<_>| async move { stats::disk_bytes(&link, "stats").await };
        counted.disk_bytes = self.run("stats", taken).await?;
        Ok(counted)
    }

    async fn check(&self, repo: &RepoName, repair: bool) -> StoreResult<Vec<Damage>> {
        self.read("check", repo, move |reader| check::check(reader, repair)).await
    }

    async fn restore(&self, repo: &RepoName, copies: ObjectCopies) -> StoreResult<Vec<ObjectId>> {
        let repo = repo.clone();
        self.run("restore", |link| async move { restore::restore(&link, &repo, &copies).await })
            .await
    }

    async fn list_objects(
        &self,
        repo: &RepoName,
        listing: ObjectListing,
    ) -> StoreResult<ObjectPage> {
        self.read("list_objects", repo, move |reader| sweep::list(reader, listing)).await
    }

    async fn write_position(&self, repo: &RepoName) -> StoreResult<WritePosition> {
        let repo = repo.clone();
        self.run("write_position", |link| async move { sweep::position(&link, &repo).await }).await
    }

    async fn sweep(&self, repo: &RepoName, sweep: Sweep) -> StoreResult<SweepAnswer> {
        let repo = repo.clone();
        self.run("sweep", |link| async move { sweep::sweep(&link, &repo, &sweep).await }).await
    }

    async fn release_space(&self) -> StoreResult<SpaceRelease> {
        self.run("release_space", |link| async move { sweep::release_space(&link).await }).await
    }

    async fn wipe(&self) -> StoreResult<WipeReport> {
        self.run("wipe", |link| async move { wipe::wipe(&link).await }).await
    }

    async fn close(&self) -> StoreResult<()> {
        self.link.close();
        Ok(())
    }
}
