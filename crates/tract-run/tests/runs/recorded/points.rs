//! Named points at which a process can be killed, and a store that has one before and one after
//! each write.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tract_core::store::{
    BlobKey, Capabilities, CommitRepository, Damage, DerivedRepository, LogQuery, ObjectRepository,
    RefRepository, StoreStats, ToolRepository, Walk, WalkPage,
};
use tract_core::{
    Applied, Batch, Blob, Commit, CommitId, DerivedKind, IdPrefix, LogEntry, ObjectId, RefName,
    RefTarget, RepoName, Store, StoreResult, ToolDefinition, ToolId, Toolset, ToolsetId,
};

/// Where a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// It is about to write.
    Write,
    /// It has written.
    Written,
    /// It is about to ask the model.
    Ask,
    /// The first piece of the answer has come.
    Heard,
    /// The model has answered.
    Told,
    /// A tool is about to have its effect.
    Act,
    /// It has had it.
    Acted,
}

/// What comes of whoever reaches the last point of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// It goes no further; whoever drives it drops it.
    Stands,
    /// The process aborts.
    Aborts,
}

/// One life: it ends at a point, counted from 0 over all kinds, or goes on to its end.
#[derive(Debug)]
pub(crate) struct Life {
    at: Option<usize>,
    death: Death,
    reached: Mutex<Vec<Point>>,
    dead: AtomicBool,
    asked: AtomicUsize,
}

impl Life {
    pub(crate) fn new(at: Option<usize>, death: Death) -> Arc<Self> {
        Arc::new(Self {
            at,
            death,
            reached: Mutex::default(),
            dead: AtomicBool::new(false),
            asked: AtomicUsize::new(0),
        })
    }

    pub(crate) async fn reach(&self, point: Point) {
        self.pass(point);
        if self.is_dead() {
            std::future::pending().await
        }
    }

    /// Comes to a point where nothing can wait: whoever dies there stands at the next one.
    pub(crate) fn pass(&self, point: Point) {
        let place = {
            let mut reached = self.reached.lock().unwrap();
            if self.is_dead() {
                return;
            }
            reached.push(point);
            reached.len() - 1
        };
        if self.at == Some(place) {
            match self.death {
                Death::Aborts => std::process::abort(),
                Death::Stands => self.dead.store(true, Ordering::SeqCst),
            }
        }
    }

    /// The points that it came to, the one that it ended at included.
    pub(crate) fn reached(&self) -> Vec<Point> {
        self.reached.lock().unwrap().clone()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Sets how often the model has spoken.
    pub(crate) fn set_asked(&self, times: usize) {
        self.asked.store(times, Ordering::SeqCst);
    }

    /// How often the model has spoken: what a tool answers is of this turn.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Lets work go on until it is done, or its life has ended: then it is dropped where it stands.
pub(crate) async fn lived<F: Future>(life: &Life, work: F) -> Option<F::Output> {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|task| match work.as_mut().poll(task) {
        std::task::Poll::Ready(done) => std::task::Poll::Ready(Some(done)),
        std::task::Poll::Pending if life.is_dead() => std::task::Poll::Ready(None),
        std::task::Poll::Pending => std::task::Poll::Pending,
    })
    .await
}

/// A store with a point before and one after each write. What only reads is between points.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) life: Arc<Life>,
}

#[async_trait]
impl ObjectRepository for Watched {
    async fn blobs(&self, repo: &RepoName, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>> {
        self.store.blobs(repo, keys).await
    }

    async fn toolsets(
        &self,
        repo: &RepoName,
        ids: &[ToolsetId],
    ) -> StoreResult<Vec<Option<Toolset>>> {
        self.store.toolsets(repo, ids).await
    }

    async fn resolve_prefix(
        &self,
        repo: &RepoName,
        prefix: &IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>> {
        self.store.resolve_prefix(repo, prefix, limit).await
    }
}

#[async_trait]
impl CommitRepository for Watched {
    async fn commits(&self, repo: &RepoName, ids: &[CommitId]) -> StoreResult<Vec<Option<Commit>>> {
        self.store.commits(repo, ids).await
    }

    async fn walk(&self, repo: &RepoName, walk: Walk) -> StoreResult<WalkPage> {
        self.store.walk(repo, walk).await
    }
}

#[async_trait]
impl ToolRepository for Watched {
    async fn tools(
        &self,
        repo: &RepoName,
        ids: &[ToolId],
    ) -> StoreResult<Vec<Option<ToolDefinition>>> {
        self.store.tools(repo, ids).await
    }

    async fn tools_by_name(&self, repo: &RepoName, name: &str) -> StoreResult<Vec<ToolDefinition>> {
        self.store.tools_by_name(repo, name).await
    }

    async fn tool_names(&self, repo: &RepoName) -> StoreResult<Vec<String>> {
        self.store.tool_names(repo).await
    }
}

#[async_trait]
impl RefRepository for Watched {
    async fn refs(
        &self,
        repo: &RepoName,
        names: &[RefName],
    ) -> StoreResult<Vec<Option<RefTarget>>> {
        self.store.refs(repo, names).await
    }

    async fn list_refs(
        &self,
        repo: &RepoName,
        prefix: &str,
    ) -> StoreResult<Vec<(RefName, RefTarget)>> {
        self.store.list_refs(repo, prefix).await
    }

    async fn ref_log(&self, repo: &RepoName, query: &LogQuery) -> StoreResult<Vec<LogEntry>> {
        self.store.ref_log(repo, query).await
    }
}

#[async_trait]
impl DerivedRepository for Watched {
    async fn derived(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
        commits: &[CommitId],
    ) -> StoreResult<Vec<Option<bytes::Bytes>>> {
        self.store.derived(repo, kind, commits).await
    }

    async fn drop_derived(&self, repo: &RepoName) -> StoreResult<()> {
        self.store.drop_derived(repo).await
    }
}

#[async_trait]
impl Store for Watched {
    fn backend(&self) -> &'static str {
        self.store.backend()
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    async fn apply(&self, repo: &RepoName, batch: Batch) -> StoreResult<Applied> {
        self.life.reach(Point::Write).await;
        let applied = self.store.apply(repo, batch).await;
        self.life.reach(Point::Written).await;
        applied
    }

    async fn repos(&self) -> StoreResult<Vec<RepoName>> {
        self.store.repos().await
    }

    async fn stats(&self, repo: &RepoName) -> StoreResult<StoreStats> {
        self.store.stats(repo).await
    }

    async fn check(&self, repo: &RepoName, repair: bool) -> StoreResult<Vec<Damage>> {
        self.store.check(repo, repair).await
    }

    async fn close(&self) -> StoreResult<()> {
        self.store.close().await
    }
}
