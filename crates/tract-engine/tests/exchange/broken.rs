use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tract_core::store::{
    BlobKey, Capabilities, CommitRepository, Damage, DerivedRepository, LogQuery, ObjectRepository,
    RefRepository, StoreError, StoreResult, StoreStats, ToolRepository, Walk, WalkPage,
};
use tract_core::{
    Applied, Batch, Blob, BlobId, Commit, CommitId, DerivedKind, IdPrefix, LogEntry, ObjectId,
    RefName, RefTarget, RepoName, Store, ToolDefinition, ToolId, Toolset, ToolsetId,
};

/// What is wrong with a store.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The stored bytes of a commit are damaged: also the walks that meet it fail.
    Commit(CommitId),
    /// A commit is not there.
    NoCommit(CommitId),
    /// The stored bytes of a blob are damaged.
    Blob(BlobId),
    /// A blob is not there.
    NoBlob(BlobId),
    /// The stored bytes of a toolset are damaged.
    Toolset(ToolsetId),
    /// A toolset is not there.
    NoToolset(ToolsetId),
    /// Range walks leave out one commit, as a flipped place would.
    Walk(CommitId),
    /// A ref has moved without a log entry.
    Ref(RefName, CommitId),
    /// An entry of the ref log is gone.
    Log(usize),
    /// The tool index knows nothing.
    Index,
    /// The snapshots hold other bytes.
    Snapshots,
}

/// A store with a fault.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) fault: Fault,
}

fn corrupt<T>(object: ObjectId) -> StoreResult<T> {
    Err(StoreError::corrupt("broken", "read", object))
}

#[async_trait]
impl ObjectRepository for Broken {
    async fn blobs(&self, repo: &RepoName, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>> {
        let mut found = self.store.blobs(repo, keys).await?;
        for (key, found) in keys.iter().zip(&mut found) {
            match self.fault {
                Fault::Blob(id) if id == key.id => return corrupt(ObjectId::Blob(id)),
                Fault::NoBlob(id) if id == key.id => *found = None,
                _ => {}
            }
        }
        Ok(found)
    }

    async fn toolsets(
        &self,
        repo: &RepoName,
        ids: &[ToolsetId],
    ) -> StoreResult<Vec<Option<Toolset>>> {
        let mut found = self.store.toolsets(repo, ids).await?;
        for (asked, found) in ids.iter().zip(&mut found) {
            match self.fault {
                Fault::Toolset(id) if id == *asked => return corrupt(ObjectId::Toolset(id)),
                Fault::NoToolset(id) if id == *asked => *found = None,
                _ => {}
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
        self.store.resolve_prefix(repo, prefix, limit).await
    }
}

#[async_trait]
impl CommitRepository for Broken {
    async fn commits(&self, repo: &RepoName, ids: &[CommitId]) -> StoreResult<Vec<Option<Commit>>> {
        let mut found = self.store.commits(repo, ids).await?;
        for (asked, found) in ids.iter().zip(&mut found) {
            match self.fault {
                Fault::Commit(id) if id == *asked => return corrupt(ObjectId::Commit(id)),
                Fault::NoCommit(id) if id == *asked => *found = None,
                _ => {}
            }
        }
        Ok(found)
    }

    async fn walk(&self, repo: &RepoName, walk: Walk) -> StoreResult<WalkPage> {
        let mut page = self.store.walk(repo, walk).await?;
        match self.fault {
            Fault::Commit(id) | Fault::NoCommit(id)
                if page.steps.iter().any(|step| step.commit.id() == id) =>
            {
                let object = ObjectId::Commit(id);
                match self.fault {
                    Fault::Commit(_) => return corrupt(object),
                    _ => return Err(StoreError::missing("broken", "walk", object)),
                }
            }
            Fault::Walk(id) => page.steps.retain(|step| step.commit.id() != id),
            _ => {}
        }
        Ok(page)
    }
}

#[async_trait]
impl ToolRepository for Broken {
    async fn tools(
        &self,
        repo: &RepoName,
        ids: &[ToolId],
    ) -> StoreResult<Vec<Option<ToolDefinition>>> {
        match self.fault {
            Fault::Index => Ok(vec![None; ids.len()]),
            _ => self.store.tools(repo, ids).await,
        }
    }

    async fn tools_by_name(&self, repo: &RepoName, name: &str) -> StoreResult<Vec<ToolDefinition>> {
        self.store.tools_by_name(repo, name).await
    }

    async fn tool_names(&self, repo: &RepoName) -> StoreResult<Vec<String>> {
        self.store.tool_names(repo).await
    }
}

#[async_trait]
impl RefRepository for Broken {
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
        let mut refs = self.store.list_refs(repo, prefix).await?;
        if let Fault::Ref(name, to) = &self.fault {
            refs.iter_mut().filter(|(n, _)| n == name).for_each(|(_, at)| {
                *at = RefTarget::Commit(*to);
            });
        }
        Ok(refs)
    }

    async fn ref_log(&self, repo: &RepoName, query: &LogQuery) -> StoreResult<Vec<LogEntry>> {
        let mut log = self.store.ref_log(repo, query).await?;
        if let Fault::Log(gone) = self.fault {
            log.remove(gone);
        }
        Ok(log)
    }
}

#[async_trait]
impl DerivedRepository for Broken {
    async fn derived(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
        commits: &[CommitId],
    ) -> StoreResult<Vec<Option<Bytes>>> {
        let mut found = self.store.derived(repo, kind, commits).await?;
        if let Fault::Snapshots = self.fault {
            for bytes in found.iter_mut().flatten() {
                let mut flipped = bytes.to_vec();
                if let Some(last) = flipped.last_mut() {
                    *last ^= 1;
                }
                *bytes = flipped.into();
            }
        }
        Ok(found)
    }

    async fn drop_derived(&self, repo: &RepoName) -> StoreResult<()> {
        self.store.drop_derived(repo).await
    }
}

#[async_trait]
impl Store for Broken {
    fn backend(&self) -> &'static str {
        "broken"
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    async fn apply(&self, repo: &RepoName, batch: Batch) -> StoreResult<Applied> {
        self.store.apply(repo, batch).await
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
}
