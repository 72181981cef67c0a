//! Reads the history of a head, folds it and compiles its context.

use std::fmt;
use std::sync::Arc;

use tract_core::store::BlobKey;
use tract_core::telemetry::{self, Span, names};
use tract_core::{
    Blob, BlobId, Change, Changes, Commit, CommitId, DerivedRow, ObjectId, RepoName, Store,
    TokenCounter, Toolset,
};

use crate::cache::{Lru, Meter};
use crate::chain::Chain;
use crate::compiled::{Compiled, TokenCount};
use crate::error::{CompileError, Result};
use crate::fetch::{COMMIT_BYTES, GivenObjects, ObjectReader, read_changes};
use crate::history::History;
use crate::state::State;
use crate::tools::Tools;
use crate::{load, snapshot};

/// Default cache size: 64 MiB for folded histories, and a quarter of that for each other cache.
pub const DEFAULT_CACHE_BYTES: u64 = 64 << 20;
/// Contents larger than this are not parsed at write time, only when they are compiled.
const LARGE_BYTES: usize = 1 << 20;
/// Tokens that any provider's format adds before the reply.
const PER_CONTEXT: u64 = 3;

/// Objects that commits refer to and that may not be stored yet.
#[derive(Clone, Copy)]
pub struct UnstoredObjects<'a> {
    /// Blobs that the commits link to.
    pub blobs: &'a [Blob],
    /// Returns a commit of the same write.
    pub commit: &'a (dyn Fn(CommitId) -> Option<Commit> + Send + Sync),
}

impl fmt::Debug for UnstoredObjects<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnstoredObjects").field("blobs", &self.blobs.len()).finish_non_exhaustive()
    }
}

/// Compiles the heads of one repository. Cheap to clone; clones share their caches, which are
/// bounded in bytes.
///
/// The result depends on the head alone. It is the same with warm or cold caches, and with or
/// without snapshots.
#[derive(Clone)]
pub struct Compiler {
    pub(crate) inner: Arc<ObjectReader>,
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiler")
            .field("store", &self.inner.store.backend())
            .field("repo", &self.inner.repo)
            .field("counter", &self.inner.source)
            .finish_non_exhaustive()
    }
}

impl Compiler {
    /// Creates a compiler with caches of the default size. Reads nothing.
    pub fn new(store: Arc<dyn Store>, repo: RepoName, counter: Arc<dyn TokenCounter>) -> Self {
        Self::with_cache(store, repo, counter, DEFAULT_CACHE_BYTES)
    }

    /// Creates a compiler that caches about `cache_bytes` of folded histories, and a quarter of
    /// that in each other cache. 0 disables caching.
    pub fn with_cache(
        store: Arc<dyn Store>,
        repo: RepoName,
        counter: Arc<dyn TokenCounter>,
        cache_bytes: u64,
    ) -> Self {
        let meter = Meter::default();
        let source = counter.name().into();
        let inner = ObjectReader {
            store,
            repo,
            counter,
            source,
            states: Lru::new(cache_bytes, meter.clone()),
            meter,
            commits: Lru::new(cache_bytes / 4, Meter::default()),
            blobs: Lru::new(cache_bytes / 4, Meter::default()),
            toolsets: Lru::new(cache_bytes / 4, Meter::default()),
            tools: Lru::new(cache_bytes / 4, Meter::default()),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the repository's name.
    pub fn repo(&self) -> &RepoName {
        &self.inner.repo
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Returns the folded history of a head, which requests are planned on. It is empty before the
    /// first commit.
    ///
    /// # Errors
    /// [`CompileError::Change`] if a commit does not fit its parent's view, `Missing` if a linked
    /// object is not stored, or the store's error.
    pub async fn fold(&self, head: Option<CommitId>) -> Result<History> {
        let state = self.state(head, true).await?;
        let state = match (head, &state.record) {
            (Some(head), None) => {
                let record = self.inner.commit(head, head).await?;
                let state = Arc::new(State { record: Some(record), ..State::clone(&state) });
                self.inner.keep(&state);
                state
            }
            _ => state,
        };
        Ok(History { state })
    }

    /// Returns the folded history of a head if it is cached. Reads nothing.
    pub fn cached_history(&self, head: CommitId) -> Option<History> {
        let state = self.inner.cached(head, true).filter(|state| state.record.is_some())?;
        Some(History { state })
    }

    /// Compiles a head. Reads only the contents of shown rows, each once.
    ///
    /// # Errors
    /// As [`fold`](Self::fold); `NoContent`, `Content` and `Schema` if a shown message or a tool in
    /// force cannot be read.
    pub async fn compile(&self, head: Option<CommitId>) -> Result<Compiled> {
        let span = telemetry::compile(head);
        let compiled = span.instrument(self.compiled(head)).await;
        if span.is_recording() {
            match &compiled {
                Ok(compiled) => say_compiled(&span, compiled),
                Err(error) => span.fail(error.code()),
            }
        }
        compiled
    }

    async fn compiled(&self, head: Option<CommitId>) -> Result<Compiled> {
        let state = self.loaded(head).await?;
        let tools = self.inner.tools(state.view.tools()).await?;
        Ok(self.assemble(head, &state, tools))
    }

    pub(crate) fn assemble(&self, head: Option<CommitId>, state: &State, tools: Tools) -> Compiled {
        let around = if state.shown_count > 0 { PER_CONTEXT } else { 0 };
        let count = state.tokens + tools.tokens + around;
        Compiled {
            head,
            view: state.view.clone(),
            context: state.context.clone(),
            message_count: state.shown_count,
            tools: tools.list,
            tokens: TokenCount { count, source: self.inner.source.clone() },
            commit_count: state.commit_count,
        }
    }

    /// Folds commits, oldest first, onto a history; the commits need not be stored yet. This proves
    /// that they fold, and the result is the input for a snapshot. Messages whose content is in
    /// `blobs` are loaded too.
    ///
    /// # Errors
    /// `NotNext` if a commit does not continue the one before it, else as [`fold`](Self::fold).
    pub async fn advance(
        &self,
        history: &History,
        commits: &[Commit],
        blobs: &[Blob],
    ) -> Result<History> {
        self.advance_with(history, commits, UnstoredObjects { blobs, commit: &|_| None }).await
    }

    /// As [`advance`](Self::advance), for commits that may refer to other commits that are not
    /// stored yet, such as a revert that restores an earlier version from the same write.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub async fn advance_with(
        &self,
        history: &History,
        commits: &[Commit],
        unstored: UnstoredObjects<'_>,
    ) -> Result<History> {
        let mut head = history.head();
        for commit in commits {
            if commit.parent() != head {
                let name = |id: Option<CommitId>| id.map_or("none".to_owned(), |id| id.to_hex());
                return Err(CompileError::NotNext {
                    commit: commit.id(),
                    expected: name(head),
                    found: name(commit.parent()),
                });
            }
            head = Some(commit.id());
        }
        let blobs = unstored.blobs.iter().map(|blob| (blob.id(), blob.clone()));
        let given = GivenObjects { blobs: blobs.collect(), commit: Some(unstored.commit) };
        let commits: Vec<(Commit, _)> =
            commits.iter().map(|commit| (commit.clone(), None)).collect();
        let chain = Chain { base: history.state.clone(), commits };
        let state = self.inner.charged(self.follow_whole(&chain, &given).await?.waiting());
        // A line that was never compiled may have many unloaded rows. Load only the new ones.
        let passed = history.state.unloaded.len();
        let waiting = load::waiting(&state, passed);
        let mut left = state.unloaded.take(passed.min(state.unloaded.len()));
        let mut messages = Vec::new();
        for (place, entry) in waiting {
            // Skip large contents: the writer and the blob already hold two copies in memory.
            let of = |id: Option<BlobId>| id.and_then(|id| given.blobs.get(&id));
            let (content, verbatim) = (of(entry.fact.content), of(entry.fact.verbatim));
            if content.is_some_and(|blob| blob.bytes().len() > LARGE_BYTES) {
                left.push_back(place);
                continue;
            }
            let ObjectReader { counter, meter, .. } = &*self.inner;
            match load::message(&entry, content, verbatim, counter.as_ref(), meter) {
                Ok(loaded) => messages.push((place, Arc::new(loaded))),
                // Not in `blobs`, or unreadable: `compile` reads it from the store and reports
                // errors.
                Err(_) => left.push_back(place),
            }
        }
        let state = load::with_messages(state, messages, left);
        Ok(History { state: Arc::new(state) })
    }

    /// Takes the snapshot to store with the head of a history if one is due, that is, if more commits
    /// than 256 plus twice the shown rows follow the last one. The line then counts from this
    /// snapshot.
    pub fn snapshot_due(&self, history: &mut History) -> Option<DerivedRow> {
        if snapshot::is_due(&history.state) { self.snapshot(history) } else { None }
    }

    /// Takes a snapshot of a history, due or not. Returns `None` before the first commit. The history
    /// then counts from this snapshot.
    pub fn snapshot(&self, history: &mut History) -> Option<DerivedRow> {
        let (row, after) = snapshot::take(&history.state)?;
        history.state = Arc::new(after);
        Some(row)
    }

    /// Caches a history whose commits are stored, so that compiling it reads no history.
    pub fn remember(&self, history: &History) {
        self.inner.keep(&history.state);
    }

    /// Caches stored objects, so that later reads of them skip the store.
    pub fn remember_objects(&self, commits: &[Commit], blobs: &[Blob], toolsets: &[Toolset]) {
        let commits = commits.iter().map(|commit| (commit.id(), commit.clone(), COMMIT_BYTES));
        self.inner.commits.put_all(commits);
        // The constant is the size of the entry itself: without it, many small objects would take
        // far more memory than the limit.
        let weight = |blob: &Blob| blob.bytes().len() + 200;
        let blobs = blobs.iter().map(|blob| (blob.id(), blob.clone(), weight(blob)));
        self.inner.blobs.put_all(blobs);
        let weight = |set: &Toolset| set.entries().len() * 64 + 200;
        let toolsets = toolsets.iter().map(|set| (set.id(), set.clone(), weight(set)));
        self.inner.toolsets.put_all(toolsets);
    }

    /// Returns a commit if it is cached. Reads nothing.
    pub fn cached_commit(&self, id: CommitId) -> Option<Commit> {
        self.inner.cached_commit(id)
    }

    /// Returns a blob if it is cached. Reads nothing.
    pub fn cached_blob(&self, id: BlobId) -> Option<Blob> {
        self.inner.blobs.get(&id)
    }

    /// Empties the caches, for example after a repair.
    pub fn forget(&self) {
        let ObjectReader { states, commits, blobs, toolsets, tools, .. } = &*self.inner;
        states.clear();
        commits.clear();
        blobs.clear();
        toolsets.clear();
        tools.clear();
    }

    /// Reads commits, from the cache where possible.
    ///
    /// # Errors
    /// `Missing` if a commit is not stored, else the store's.
    pub async fn commits(&self, ids: &[CommitId]) -> Result<Vec<Commit>> {
        let found = self.inner.find_commits(ids).await?;
        ids.iter()
            .map(|id| {
                let object = ObjectId::Commit(*id);
                found.get(id).cloned().ok_or(CompileError::Missing { object, commit: *id })
            })
            .collect()
    }

    /// Reads the changes of a commit, which its record contains or links to as a blob.
    ///
    /// # Errors
    /// `Missing` if their blob is not stored, `Changes` if it is not a list of changes.
    pub async fn changes(&self, commit: &Commit) -> Result<Vec<Change>> {
        match &commit.changes {
            Changes::List(list) => Ok(list.clone()),
            Changes::Blob(id) => {
                let blobs = self
                    .inner
                    .find_blobs(vec![BlobKey::from(*id)], &GivenObjects::default())
                    .await?;
                read_changes(commit, blobs.get(id), *id)
            }
        }
    }
}

/// Records the result of a compile in a span.
fn say_compiled(span: &Span, compiled: &Compiled) {
    span.set_id(names::TRACT_VIEW, compiled.view_id());
    if let Some(toolset) = compiled.toolset() {
        span.set_id(names::TRACT_TOOLSET, toolset);
    }
    span.set(names::TRACT_MESSAGES, compiled.message_count());
    span.set(names::TRACT_TOKENS, compiled.token_count().count);
}
