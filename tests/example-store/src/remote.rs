//! The third level: the trait `Store` itself, for a store behind a connection.
//!
//! The server is a thread and the connection a channel, so that the example needs no network. The
//! rules of a real one hold: a call is one message and one answer, and an answer can get lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::oneshot;
use tract_core::store::{
    BlobKey, Capabilities, CommitRepository, Damage, DerivedRepository, LogQuery, ObjectRepository,
    RefRepository, StoreStats, ToolRepository, Walk, WalkPage,
};
use tract_core::{
    Applied, Batch, Blob, Commit, CommitId, DerivedKind, IdPrefix, LogEntry, ObjectId, RefName,
    RefTarget, RepoName, Store, StoreError, StoreErrorKind, StoreResult, ToolDefinition, ToolId,
    Toolset, ToolsetId,
};

use crate::state::{Repository, State, found};

const NAME: &str = "remote";

/// A call as it is sent: the server runs it on its state and answers.
type Call = Box<dyn FnOnce(&mut State) + Send>;

/// A client of a server that keeps its state on a thread of its own. The server ends with its last
/// client.
#[derive(Debug)]
pub struct RemoteStore {
    server: mpsc::Sender<Call>,
    closed: AtomicBool,
}

impl RemoteStore {
    /// Starts a server, and connects to it.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start() -> StoreResult<Self> {
        let (server, calls) = mpsc::channel::<Call>();
        // One thread runs one call after the other, so a batch is checked and written in one step
        // without a lock. A database gets the same from a transaction.
        std::thread::Builder::new().name("example-server".to_owned()).spawn(move || {
            let mut state = State::default();
            calls.into_iter().for_each(|call| call(&mut state));
        })?;
        Ok(Self { server, closed: AtomicBool::new(false) })
    }

    /// Connects another client to the same server.
    #[must_use]
    pub fn connect(&self) -> Self {
        Self { server: self.server.clone(), closed: AtomicBool::new(false) }
    }

    /// Sends one call and waits for its answer, without blocking the caller's thread.
    async fn call<T: Send + 'static>(
        &self,
        op: &'static str,
        call: impl FnOnce(&mut State) -> T + Send + 'static,
    ) -> StoreResult<T> {
        let (answer, answered) = oneshot::channel();
        // A caller that no longer waits has dropped its end; its answer goes nowhere.
        let call: Call = Box::new(move |state| drop(answer.send(call(state))));
        let lost = |kind, what| StoreError::new(kind, NAME, op, what);
        if self.closed.load(Ordering::Acquire) {
            return Err(lost(StoreErrorKind::Unavailable, "the store is closed"));
        }
        if self.server.send(call).is_err() {
            return Err(lost(StoreErrorKind::Unavailable, "the server does not run"));
        }
        // The server has the call. Whether a write happened is unknown now, and the caller must
        // learn that: it tries the same batch again, and `Already` settles it.
        answered.await.map_err(|_| lost(StoreErrorKind::Unknown, "the connection was lost"))
    }

    /// Sends a call that reads from one repository.
    async fn read<T: Send + 'static>(
        &self,
        op: &'static str,
        repo: &RepoName,
        read: impl FnOnce(&Repository) -> T + Send + 'static,
    ) -> StoreResult<T> {
        let repo = repo.clone();
        self.call(op, move |state| read(state.repo(&repo))).await
    }
}

#[async_trait]
impl ObjectRepository for RemoteStore {
    async fn blobs(&self, repo: &RepoName, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>> {
        let keys = keys.to_vec();
        self.read("blobs", repo, move |repo| found(&repo.blobs, keys.iter().map(|key| &key.id)))
            .await
    }

    async fn toolsets(
        &self,
        repo: &RepoName,
        ids: &[ToolsetId],
    ) -> StoreResult<Vec<Option<Toolset>>> {
        let ids = ids.to_vec();
        self.read("toolsets", repo, move |repo| found(&repo.toolsets, &ids)).await
    }

    async fn resolve_prefix(
        &self,
        repo: &RepoName,
        prefix: &IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>> {
        let prefix = prefix.clone();
        self.read("resolve_prefix", repo, move |repo| repo.resolve(&prefix, limit)).await
    }
}

#[async_trait]
impl CommitRepository for RemoteStore {
    async fn commits(&self, repo: &RepoName, ids: &[CommitId]) -> StoreResult<Vec<Option<Commit>>> {
        let ids = ids.to_vec();
        self.read("commits", repo, move |repo| found(&repo.commits, &ids)).await
    }

    /// The server walks: a page is one round trip, however many commits it has.
    async fn walk(&self, repo: &RepoName, walk: Walk) -> StoreResult<WalkPage> {
        self.read("walk", repo, move |repo| repo.walk(NAME, &walk)).await?
    }
}

/// `tool_ids_of` and `tools_of` come with the trait, made of other calls.
#[async_trait]
impl ToolRepository for RemoteStore {
    async fn tools(
        &self,
        repo: &RepoName,
        ids: &[ToolId],
    ) -> StoreResult<Vec<Option<ToolDefinition>>> {
        let ids = ids.to_vec();
        self.read("tools", repo, move |repo| ids.iter().map(|id| repo.tool(*id)).collect()).await
    }

    async fn tools_by_name(&self, repo: &RepoName, name: &str) -> StoreResult<Vec<ToolDefinition>> {
        let name = name.to_owned();
        self.read("tools_by_name", repo, move |repo| repo.tools_by_name(&name)).await
    }

    async fn tool_names(&self, repo: &RepoName) -> StoreResult<Vec<String>> {
        self.read("tool_names", repo, Repository::tool_names).await
    }
}

#[async_trait]
impl RefRepository for RemoteStore {
    async fn refs(
        &self,
        repo: &RepoName,
        names: &[RefName],
    ) -> StoreResult<Vec<Option<RefTarget>>> {
        let names = names.to_vec();
        self.read("refs", repo, move |repo| found(&repo.refs, &names)).await
    }

    async fn list_refs(
        &self,
        repo: &RepoName,
        prefix: &str,
    ) -> StoreResult<Vec<(RefName, RefTarget)>> {
        let prefix = prefix.to_owned();
        self.read("list_refs", repo, move |repo| repo.list_refs(&prefix)).await
    }

    async fn ref_log(&self, repo: &RepoName, query: &LogQuery) -> StoreResult<Vec<LogEntry>> {
        let query = query.clone();
        self.read("ref_log", repo, move |repo| repo.ref_log(&query)).await
    }
}

#[async_trait]
impl DerivedRepository for RemoteStore {
    async fn derived(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
        commits: &[CommitId],
    ) -> StoreResult<Vec<Option<Bytes>>> {
        let commits = commits.to_vec();
        let find = move |repo: &Repository, id| repo.derived.get(&(kind, id)).cloned();
        let read = move |repo: &Repository| commits.iter().map(|id| find(repo, *id)).collect();
        self.read("derived", repo, read).await
    }

    async fn drop_derived(&self, repo: &RepoName) -> StoreResult<()> {
        let repo = repo.clone();
        self.call("drop_derived", move |state| {
            if let Some(repo) = state.repos.get_mut(&repo) {
                repo.derived.clear();
            }
        })
        .await
    }
}

#[async_trait]
impl Store for RemoteStore {
    fn backend(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::IN_MEMORY
    }

    async fn apply(&self, repo: &RepoName, batch: Batch) -> StoreResult<Applied> {
        let repo = repo.clone();
        self.call("apply", move |state| state.apply(NAME, &repo, &batch)).await?
    }

    async fn repos(&self) -> StoreResult<Vec<RepoName>> {
        self.call("repos", |state| state.repos.keys().cloned().collect()).await
    }

    async fn stats(&self, repo: &RepoName) -> StoreResult<StoreStats> {
        self.read("stats", repo, Repository::stats).await
    }

    async fn check(&self, repo: &RepoName, _repair: bool) -> StoreResult<Vec<Damage>> {
        self.read("check", repo, Repository::damage).await
    }

    /// Ends this client; others stay connected.
    async fn close(&self) -> StoreResult<()> {
        self.closed.store(true, Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tract_core::block_on;

    use super::*;

    #[test]
    fn two_clients_see_one_state() {
        let one = RemoteStore::start().expect("a thread");
        let two = one.connect();
        let name = RepoName::default();
        let repo = name.clone();
        let made = one.call("test", move |state| state.repos.entry(repo).or_default().stats());
        block_on(made).expect("the server answers");
        block_on(one.close()).expect("it closes");
        assert_eq!(block_on(two.repos()).expect("it is open"), [name]);
        assert_eq!(block_on(one.repos()).expect_err("closed").kind, StoreErrorKind::Unavailable);
    }

    #[test]
    fn a_lost_answer_is_unknown_and_a_stopped_server_is_unavailable() {
        let store = RemoteStore::start().expect("a thread");
        let lost = block_on(store.call("apply", |_| panic!("the server crashes")));
        let lost: Result<(), StoreError> = lost;
        assert_eq!(lost.expect_err("no answer").kind, StoreErrorKind::Unknown);
        // The channel closes when the thread is gone, a moment after the answer was lost.
        let kinds = std::iter::repeat_with(|| {
            block_on(store.repos()).expect_err("the server is gone").kind
        });
        let last = kinds.take(1000).find(|kind| *kind == StoreErrorKind::Unavailable);
        assert_eq!(last, Some(StoreErrorKind::Unavailable));
    }
}
