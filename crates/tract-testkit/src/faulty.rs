//! A store that breaks one promise, to see whether anybody notices.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tract_core::store::{
    BlobKey, Capabilities, CommitRepository, Damage, DerivedRepository, LogQuery, ObjectRepository,
    RefRepository, StoreStats, ToolRepository, Walk, WalkPage,
};
use tract_core::{
    Applied, Batch, BatchId, Blob, Commit, CommitId, DerivedKind, Expect, IdPrefix, LogEntry,
    ObjectId, RefName, RefTarget, RepoName, Store, StoreResult, ToolDefinition, ToolId, Toolset,
    ToolsetId,
};

/// Which promise is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Leaves out what is not stored, instead of answering `None`.
    DropsAbsent,
    /// Sorts and dedups toolsets.
    SortsToolsets,
    /// Walks beyond `until`.
    IgnoresUntil,
    /// Walks beyond rows.
    IgnoresRows,
    /// Forgets to say where the next page starts.
    LosesPages,
    /// Follows symbolic refs.
    FollowsRefs,
    /// Moves refs whatever is expected.
    IgnoresExpectations,
    /// Does not recognise a batch that it has applied.
    ForgetsBatches,
    /// Writes the objects of a batch that it refuses.
    AppliesHalf,
    /// Writes what requires something that is not there.
    IgnoresLinks,
    /// Keeps all repositories as one.
    MixesRepositories,
    /// Keeps the older derived row.
    KeepsOldRows,
    /// Gives the ref log oldest first.
    LogsBackwards,
    /// Lists names in no order.
    ListsUnsorted,
    /// Gives more ids than asked for.
    IgnoresLimit,
    /// Drops the last blob of a batch that moves no ref, and acknowledges.
    LosesWrites,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::DropsAbsent,
        Self::SortsToolsets,
        Self::IgnoresUntil,
        Self::IgnoresRows,
        Self::LosesPages,
        Self::FollowsRefs,
        Self::IgnoresExpectations,
        Self::ForgetsBatches,
        Self::AppliesHalf,
        Self::IgnoresLinks,
        Self::MixesRepositories,
        Self::KeepsOldRows,
        Self::LogsBackwards,
        Self::ListsUnsorted,
        Self::IgnoresLimit,
        Self::LosesWrites,
    ];
}

/// A store that works, but for one promise.
#[derive(Debug)]
pub struct FaultyStore {
    store: Arc<dyn Store>,
    fault: Fault,
}

impl FaultyStore {
    /// Breaks one promise of a store.
    pub fn new(store: Arc<dyn Store>, fault: Fault) -> Self {
        Self { store, fault }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn repo(&self, repo: &RepoName) -> RepoName {
        match self.fault {
            Fault::MixesRepositories => RepoName::default(),
            _ => repo.clone(),
        }
    }

    fn answers<T>(&self, mut found: Vec<Option<T>>) -> Vec<Option<T>> {
        if self.has(Fault::DropsAbsent) {
            found.retain(Option::is_some);
        }
        found
    }
}

#[async_trait]
impl ObjectRepository for FaultyStore {
    async fn blobs(&self, repo: &RepoName, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>> {
        Ok(self.answers(self.store.blobs(&self.repo(repo), keys).await?))
    }

    async fn toolsets(
        &self,
        repo: &RepoName,
        ids: &[ToolsetId],
    ) -> StoreResult<Vec<Option<Toolset>>> {
        let mut found = self.answers(self.store.toolsets(&self.repo(repo), ids).await?);
        if self.has(Fault::SortsToolsets) {
            for toolset in found.iter_mut().flatten() {
                let mut entries = toolset.entries().to_vec();
                entries.sort_by_key(|entry| entry.tool);
                entries.dedup();
                *toolset = Toolset::seal(entries);
            }
        }
        Ok(found)
    }

    async fn resolve_prefix(
        &self,
        repo: &RepoName,
        prefix: &IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>> {
        let limit = if self.has(Fault::IgnoresLimit) { limit + 1 } else { limit };
        self.store.resolve_prefix(&self.repo(repo), prefix, limit).await
    }
}

#[async_trait]
impl CommitRepository for FaultyStore {
    async fn commits(&self, repo: &RepoName, ids: &[CommitId]) -> StoreResult<Vec<Option<Commit>>> {
        Ok(self.answers(self.store.commits(&self.repo(repo), ids).await?))
    }

    async fn walk(&self, repo: &RepoName, mut walk: Walk) -> StoreResult<WalkPage> {
        if self.has(Fault::IgnoresUntil) {
            walk.until = None;
        }
        if self.has(Fault::IgnoresRows) {
            walk.stop_at = None;
        }
        let mut page = self.store.walk(&self.repo(repo), walk).await?;
        if self.has(Fault::LosesPages) {
            page.next = None;
        }
        Ok(page)
    }
}

#[async_trait]
impl ToolRepository for FaultyStore {
    async fn tools(
        &self,
        repo: &RepoName,
        ids: &[ToolId],
    ) -> StoreResult<Vec<Option<ToolDefinition>>> {
        Ok(self.answers(self.store.tools(&self.repo(repo), ids).await?))
    }

    async fn tools_by_name(&self, repo: &RepoName, name: &str) -> StoreResult<Vec<ToolDefinition>> {
        self.store.tools_by_name(&self.repo(repo), name).await
    }

    async fn tool_names(&self, repo: &RepoName) -> StoreResult<Vec<String>> {
        let mut names = self.store.tool_names(&self.repo(repo)).await?;
        if self.has(Fault::ListsUnsorted) {
            names.reverse();
        }
        Ok(names)
    }
}

#[async_trait]
impl RefRepository for FaultyStore {
    async fn refs(
        &self,
        repo: &RepoName,
        names: &[RefName],
    ) -> StoreResult<Vec<Option<RefTarget>>> {
        let repo = self.repo(repo);
        let mut found = self.store.refs(&repo, names).await?;
        if self.has(Fault::FollowsRefs) {
            for target in &mut found {
                if let Some(RefTarget::Ref(name)) = target {
                    *target = self.store.refs(&repo, std::slice::from_ref(name)).await?.remove(0);
                }
            }
        }
        Ok(self.answers(found))
    }

    async fn list_refs(
        &self,
        repo: &RepoName,
        prefix: &str,
    ) -> StoreResult<Vec<(RefName, RefTarget)>> {
        let mut refs = self.store.list_refs(&self.repo(repo), prefix).await?;
        if self.has(Fault::ListsUnsorted) {
            refs.reverse();
        }
        Ok(refs)
    }

    async fn ref_log(&self, repo: &RepoName, query: &LogQuery) -> StoreResult<Vec<LogEntry>> {
        let mut entries = self.store.ref_log(&self.repo(repo), query).await?;
        if self.has(Fault::LogsBackwards) {
            entries.reverse();
        }
        Ok(entries)
    }
}

#[async_trait]
impl DerivedRepository for FaultyStore {
    async fn derived(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
        commits: &[CommitId],
    ) -> StoreResult<Vec<Option<Bytes>>> {
        Ok(self.answers(self.store.derived(&self.repo(repo), kind, commits).await?))
    }

    async fn drop_derived(&self, repo: &RepoName) -> StoreResult<()> {
        self.store.drop_derived(&self.repo(repo)).await
    }
}

#[async_trait]
impl Store for FaultyStore {
    fn backend(&self) -> &'static str {
        "faulty"
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    async fn apply(&self, repo: &RepoName, mut batch: Batch) -> StoreResult<Applied> {
        let repo = self.repo(repo);
        match self.fault {
            Fault::IgnoresExpectations => {
                batch.refs.iter_mut().for_each(|edit| edit.expect = Expect::Any);
            }
            Fault::ForgetsBatches => {
                batch.id = BatchId::random()?;
            }
            Fault::IgnoresLinks => batch.requires.clear(),
            Fault::LosesWrites if batch.refs.is_empty() => drop(batch.blobs.pop()),
            Fault::KeepsOldRows => {
                for row in std::mem::take(&mut batch.derived) {
                    let known = self.store.derived(&repo, row.kind, &[row.commit]).await?;
                    if known.iter().all(Option::is_none) {
                        batch.derived.push(row);
                    }
                }
            }
            Fault::AppliesHalf => {
                let half = Batch { refs: Vec::new(), requires: Vec::new(), ..batch.clone() };
                let _ = self.store.apply(&repo, half).await;
            }
            _ => {}
        }
        self.store.apply(&repo, batch).await
    }

    async fn repos(&self) -> StoreResult<Vec<RepoName>> {
        self.store.repos().await
    }

    async fn stats(&self, repo: &RepoName) -> StoreResult<StoreStats> {
        self.store.stats(&self.repo(repo)).await
    }

    async fn check(&self, repo: &RepoName, repair: bool) -> StoreResult<Vec<Damage>> {
        self.store.check(&self.repo(repo), repair).await
    }

    async fn close(&self) -> StoreResult<()> {
        self.store.close().await
    }
}
