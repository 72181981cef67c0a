//! Reads objects for compiling, from the caller, the caches, or in bulk from the store.

use std::sync::Arc;

use tract_core::store::BlobKey;
use tract_core::{
    Blob, BlobId, Change, Changes, Commit, CommitId, ObjectId, RepoName, Store, TokenCounter,
    Toolset, ToolsetId,
};

use crate::cache::{Lru, Meter};
use crate::error::{CompileError, Result};
use crate::ids::{ById, IdMap};
use crate::state::State;
use crate::tools::{self, Tools};

/// Size charged for a cached commit, in bytes; records differ little.
pub(crate) const COMMIT_BYTES: usize = 600;

/// Memory of a state, in bytes, without the parts shared with its predecessor.
const STATE_BYTES: usize = 24 << 10;
/// Memory of a row, in bytes, without its content.
const ROW_BYTES: usize = 700;

/// Objects of a write that is not stored yet.
#[derive(Default)]
pub(crate) struct GivenObjects<'a> {
    pub(crate) blobs: IdMap<BlobId, Blob>,
    pub(crate) commit: Option<&'a (dyn Fn(CommitId) -> Option<Commit> + Send + Sync)>,
}

/// Reads the objects of one repository through caches; shared by the clones of a compiler.
pub(crate) struct ObjectReader {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) repo: RepoName,
    pub(crate) counter: Arc<dyn TokenCounter>,
    pub(crate) source: Arc<str>,
    pub(crate) meter: Meter,
    pub(crate) states: Lru<CommitId, Arc<State>>,
    pub(crate) commits: Lru<CommitId, Commit>,
    pub(crate) blobs: Lru<BlobId, Blob>,
    pub(crate) toolsets: Lru<ToolsetId, Toolset>,
    pub(crate) tools: Lru<ToolsetId, Tools>,
}

impl ObjectReader {
    pub(crate) fn cached(&self, id: CommitId, whole: bool) -> Option<Arc<State>> {
        self.states.get(&id).filter(|state| !(whole && state.is_partial()))
    }

    pub(crate) fn keep(&self, state: &Arc<State>) {
        if let Some(head) = state.head {
            self.states.put(head, state.clone(), STATE_BYTES);
        }
    }

    /// Charges the memory of the state's rows if it has grown by a quarter since the last charge.
    pub(crate) fn charged(&self, mut state: State) -> State {
        let bytes = state.view.len() * ROW_BYTES;
        let charged = state.charge.as_ref().map_or(0, |charge| charge.bytes());
        if bytes > charged + charged / 4 + 256 * ROW_BYTES {
            state.charge = Some(Arc::new(self.meter.charge(bytes)));
        }
        state
    }

    /// Returns a commit if it is cached. Reads nothing.
    pub(crate) fn cached_commit(&self, id: CommitId) -> Option<Commit> {
        self.commits.get(&id)
    }

    pub(crate) async fn tools(&self, id: Option<ToolsetId>) -> Result<Tools> {
        let Some(id) = id else { return Ok(Tools::default()) };
        let (store, repo) = (&self.store, &self.repo);
        if let Some(tools) = self.tools.get(&id) {
            return Ok(tools);
        }
        let toolset = match self.toolsets.get(&id) {
            Some(toolset) => toolset,
            None => {
                let found = store.toolsets(repo, &[id]).await?.into_iter().flatten().next();
                found.ok_or(CompileError::MissingTool { object: ObjectId::Toolset(id) })?
            }
        };
        let schemas =
            self.find_blobs(tools::schema_keys(&toolset), &GivenObjects::default()).await?;
        let tools = tools::tools(&toolset, &schemas, self.counter.as_ref())?;
        self.tools.put(id, tools.clone(), tools.bytes + 200);
        Ok(tools)
    }

    pub(crate) async fn commit(&self, id: CommitId, needed_by: CommitId) -> Result<Commit> {
        let object = ObjectId::Commit(id);
        let found = self.find_commits(&[id]).await?.remove(&id);
        found.ok_or(CompileError::Missing { object, commit: needed_by })
    }

    pub(crate) async fn find_commits(&self, ids: &[CommitId]) -> Result<IdMap<CommitId, Commit>> {
        let mut found = IdMap::with_capacity_and_hasher(ids.len(), ById::default());
        let mut unknown = Vec::new();
        for id in ids {
            match self.commits.get(id) {
                Some(commit) => drop(found.insert(*id, commit)),
                None => unknown.push(*id),
            }
        }
        if !unknown.is_empty() {
            for commit in self.store.commits(&self.repo, &unknown).await?.into_iter().flatten() {
                self.commits.put(commit.id(), commit.clone(), COMMIT_BYTES);
                found.insert(commit.id(), commit);
            }
        }
        Ok(found)
    }

    pub(crate) async fn find_blobs(
        &self,
        mut keys: Vec<BlobKey>,
        given: &GivenObjects<'_>,
    ) -> Result<IdMap<BlobId, Blob>> {
        let mut found = IdMap::with_capacity_and_hasher(keys.len(), ById::default());
        keys.retain(|key| {
            let known = given.blobs.get(&key.id);
            found.extend(known.map(|blob| (key.id, blob.clone())));
            known.is_none()
        });
        let blobs = self.blobs(&keys).await?;
        found.extend(blobs.into_iter().flatten().map(|blob| (blob.id(), blob)));
        Ok(found)
    }

    /// Reads blobs. The result is parallel to the keys.
    pub(crate) async fn blobs(&self, keys: &[BlobKey]) -> Result<Vec<Option<Blob>>> {
        let ObjectReader { store, repo, blobs, .. } = self;
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        if blobs.is_empty() {
            return Ok(store.blobs(repo, keys).await?);
        }
        let mut found: Vec<Option<Blob>> = keys.iter().map(|key| blobs.get(&key.id)).collect();
        let is_unknown = |(key, blob): (&BlobKey, &Option<Blob>)| blob.is_none().then_some(*key);
        let unknown: Vec<BlobKey> = keys.iter().zip(&found).filter_map(is_unknown).collect();
        if !unknown.is_empty() {
            let read = store.blobs(repo, &unknown).await?;
            for (place, blob) in found.iter_mut().filter(|blob| blob.is_none()).zip(read) {
                *place = blob;
            }
        }
        Ok(found)
    }
}

pub(crate) fn read_changes(
    commit: &Commit,
    blob: Option<&Blob>,
    id: BlobId,
) -> Result<Vec<Change>> {
    let commit = commit.id();
    let object = ObjectId::Blob(id);
    let blob = blob.ok_or(CompileError::Missing { object, commit })?;
    Changes::from_blob(blob.bytes()).map_err(|source| CompileError::Changes { commit, source })
}
