//! Restores damaged and missing objects from another repository.

use std::collections::HashSet;

use tract_core::store::{BlobKey, ObjectCopies, StoreErrorKind, StoreResult};
use tract_core::{Blob, BlobId, Commit, CommitId, ObjectId, StoreError, Toolset, ToolsetId};

use crate::history::reach::{CommitGraph, each};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};

/// Number of commits that are compared together.
pub(crate) const COMMITS: usize = 256;
/// Approximate number of bytes of blobs that are compared together.
const BYTES: usize = 8 << 20;
/// Maximum number of blobs that are compared together.
const BLOBS: usize = 1024;

/// The objects to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replace {
    /// Damaged and missing objects.
    Lacking,
    /// Damaged objects, and missing ones that stored commits link to. A missing commit may have been
    /// collected as garbage, together with its content, since it was found stored. Storing it again
    /// would leave a commit without its content, because a restored object is stored without a check
    /// of its links.
    Linked,
    /// Damaged objects. Missing ones are new, and are stored by another path.
    Damaged,
}

/// Returns whether an error reports a stored but damaged object.
pub(crate) fn is_corrupt(error: &Error) -> bool {
    let Error::Store(error) = error else { return false };
    matches!(error.kind, StoreErrorKind::Corrupt { object: Some(_) })
}

/// Objects in the requested order, and the ids of damaged ones.
struct ReadObjects<K, T> {
    found: Vec<Option<T>>,
    damaged: HashSet<K>,
}

impl<K: Copy + Eq + std::hash::Hash, T> ReadObjects<K, T> {
    /// Reads objects; a damaged one counts as not found.
    async fn read<F>(ids: &[K], read: impl Fn(Vec<K>) -> F) -> StoreResult<Self>
    where
        F: Future<Output = StoreResult<Vec<Option<T>>>>,
    {
        let mut damaged = HashSet::new();
        let failed = |id: &K, error: StoreError| match error.kind {
            StoreErrorKind::Corrupt { .. } => {
                damaged.insert(*id);
                Ok(())
            }
            StoreErrorKind::Missing { .. } | StoreErrorKind::Erased { .. } => Ok(()),
            _ => Err(error),
        };
        let found = if ids.is_empty() { Vec::new() } else { each(ids, read, failed).await? };
        Ok(Self { found, damaged })
    }

    /// Returns the ids of the objects to replace.
    fn replaced(&self, ids: &[K], replace: Replace) -> Vec<K> {
        let lacking = ids.iter().zip(&self.found).filter(|(_, found)| found.is_none());
        let is_meant = |id: &K| replace != Replace::Damaged || self.damaged.contains(id);
        lacking.map(|(id, _)| *id).filter(is_meant).collect()
    }
}

async fn commits(repo: &Repo, ids: &[CommitId]) -> StoreResult<ReadObjects<CommitId, Commit>> {
    let (store, name) = (repo.store(), repo.name());
    ReadObjects::read(ids, |ids| async move { store.commits(name, &ids).await }).await
}

async fn blobs(repo: &Repo, ids: &[BlobId]) -> StoreResult<ReadObjects<BlobId, Blob>> {
    let (store, name) = (repo.store(), repo.name());
    ReadObjects::read(ids, |ids| async move {
        let keys: Vec<BlobKey> = ids.into_iter().map(BlobKey::from).collect();
        store.blobs(name, &keys).await
    })
    .await
}

async fn toolsets(repo: &Repo, ids: &[ToolsetId]) -> StoreResult<ReadObjects<ToolsetId, Toolset>> {
    let (store, name) = (repo.store(), repo.name());
    ReadObjects::read(ids, |ids| async move { store.toolsets(name, &ids).await }).await
}

/// Compares objects of a repository with those of another one, and replaces those that cannot be
/// read.
pub(crate) struct Restorer<'a> {
    from: &'a Repo,
    to: &'a Repo,
    /// Objects that were compared already, because many commits share them.
    blobs: HashSet<BlobId>,
    toolsets: HashSet<ToolsetId>,
    /// The blobs erased from the target, read on first use: they must not be restored.
    erased: Option<HashSet<BlobId>>,
    /// Number of blobs that are compared together next.
    together: usize,
    /// Number of objects that were replaced.
    pub(crate) restored: usize,
    /// Whether a lost commit was stored again at another location.
    pub(crate) is_moved: bool,
}

impl<'a> Restorer<'a> {
    /// Replaces objects, the history of the commits among them as in the source, and everything
    /// that these link to.
    pub(crate) async fn objects(&mut self, objects: &[ObjectId]) -> Result<()> {
        let (commits, blobs, toolsets) = by_kind(objects.iter().copied());
        let mut reached = CommitGraph::default();
        for commit in commits {
            reached.add(self.from.store().as_ref(), self.from.name(), commit).await?;
        }
        self.commits(&reached.parents_first(), Replace::Lacking).await?;
        self.blobs(&blobs, Replace::Lacking).await?;
        self.toolsets(&toolsets, Replace::Lacking).await
    }

    pub(crate) fn new(from: &'a Repo, to: &'a Repo) -> Self {
        let (blobs, toolsets) = Default::default();
        Self { from, to, blobs, toolsets, erased: None, together: 64, restored: 0, is_moved: false }
    }

    /// Compares commits, parents first, and everything that they link to except other commits.
    pub(crate) async fn commits(&mut self, ids: &[CommitId], replace: Replace) -> Result<()> {
        if !self.to.store().capabilities().restores {
            return Ok(());
        }
        for ids in ids.chunks(COMMITS) {
            let copies = commits(self.from, ids).await?;
            let found: Vec<Commit> = copies.found.into_iter().flatten().collect();
            let sets = found.iter().flat_map(|commit| [commit.toolset, commit.active]).flatten();
            let sets: Vec<ToolsetId> = sets.filter(|id| self.toolsets.insert(*id)).collect();
            let links: Vec<BlobId> =
                found.iter().flat_map(|commit| commit.linked_blobs()).collect();
            let of_commits = match replace {
                Replace::Lacking => Replace::Lacking,
                Replace::Linked | Replace::Damaged => Replace::Damaged,
            };
            let lacking = commits(self.to, ids).await?.replaced(ids, of_commits);
            let lacking: HashSet<CommitId> = lacking.into_iter().collect();
            // Blobs before commits: a store remembers the location of a commit's content.
            self.blobs(&links, replace).await?;
            self.toolsets(&sets, replace).await?;
            let missing = found.into_iter().filter(|commit| lacking.contains(&commit.id()));
            let copies = ObjectCopies { commits: missing.collect(), ..ObjectCopies::default() };
            self.restore(copies).await?;
        }
        Ok(())
    }

    /// Compares toolsets and the schemas that they list.
    pub(crate) async fn toolsets(&mut self, ids: &[ToolsetId], replace: Replace) -> Result<()> {
        if ids.is_empty() || !self.to.store().capabilities().restores {
            return Ok(());
        }
        let found = toolsets(self.from, ids).await?.found;
        let found: Vec<Toolset> = found.into_iter().flatten().collect();
        let entries = found.iter().flat_map(Toolset::entries);
        let schemas: Vec<BlobId> = entries.map(|entry| entry.schema).collect();
        self.blobs(&schemas, replace).await?;
        let lacking = toolsets(self.to, ids).await?.replaced(ids, replace);
        let missing = found.into_iter().filter(|set| lacking.contains(&set.id()));
        self.restore(ObjectCopies { toolsets: missing.collect(), ..ObjectCopies::default() }).await
    }

    /// Compares blobs.
    pub(crate) async fn blobs(&mut self, ids: &[BlobId], replace: Replace) -> Result<()> {
        if !self.to.store().capabilities().restores {
            return Ok(());
        }
        let new: Vec<BlobId> = ids.iter().filter(|id| self.blobs.insert(**id)).copied().collect();
        let mut rest = new.as_slice();
        while !rest.is_empty() {
            let (ids, after) = rest.split_at(self.together.min(rest.len()));
            rest = after;
            let read = blobs(self.to, ids).await?;
            let bytes: usize = read.found.iter().flatten().map(|blob| blob.bytes().len()).sum();
            self.together = (BYTES * ids.len() / bytes.max(1)).clamp(1, BLOBS);
            let mut lacking = read.replaced(ids, replace);
            if lacking.is_empty() {
                continue;
            }
            let erased = match self.erased.take() {
                Some(erased) => erased,
                None => self.to.erased_blobs().await?,
            };
            lacking.retain(|id| !erased.contains(id));
            self.erased = Some(erased);
            // Limited by the average size of the readable blobs, as the size of the damaged ones is
            // unknown.
            for ids in lacking.chunks(self.together.min(64)) {
                let found = blobs(self.from, ids).await?.found.into_iter().flatten();
                let copies = ObjectCopies { blobs: found.collect(), ..ObjectCopies::default() };
                self.restore(copies).await?;
            }
        }
        Ok(())
    }

    async fn restore(&mut self, copies: ObjectCopies) -> Result<()> {
        if !copies.is_empty() {
            let restored = self.to.store().restore(self.to.name(), copies).await?;
            self.restored += restored.len();
        }
        Ok(())
    }

    /// Updates derived data after objects were replaced, because their locations may have changed.
    pub(crate) async fn finish(&self) {
        settle(self.to, self.restored > 0 || self.is_moved).await;
    }
}

/// Updates derived data after objects were replaced.
pub(crate) async fn settle(repo: &Repo, is_changed: bool) {
    if is_changed {
        // The objects are restored in any case; `verify` reports what is still not up to date.
        let _checked = repo.store().check(repo.name(), true).await;
    }
}

/// Reads commits, and returns the ids of damaged ones.
pub(crate) async fn readable_commits(
    repo: &Repo,
    ids: &[CommitId],
) -> StoreResult<(Vec<Option<Commit>>, HashSet<CommitId>)> {
    let ReadObjects { found, damaged } = commits(repo, ids).await?;
    Ok((found, damaged))
}

/// Returns the commits that are damaged or missing in a repository.
pub(crate) async fn lacking_commits(repo: &Repo, ids: &[CommitId]) -> StoreResult<Vec<CommitId>> {
    let mut lacking = Vec::new();
    for ids in ids.chunks(COMMITS) {
        lacking.extend(commits(repo, ids).await?.replaced(ids, Replace::Lacking));
    }
    Ok(lacking)
}

/// Returns the blobs that are damaged or missing in a repository.
pub(crate) async fn lacking_blobs(repo: &Repo, ids: &[BlobId]) -> StoreResult<Vec<BlobId>> {
    let mut lacking = Vec::new();
    for ids in ids.chunks(64) {
        lacking.extend(blobs(repo, ids).await?.replaced(ids, Replace::Lacking));
    }
    Ok(lacking)
}

/// Returns the toolsets that are damaged or missing in a repository.
pub(crate) async fn lacking_toolsets(
    repo: &Repo,
    ids: &[ToolsetId],
) -> StoreResult<Vec<ToolsetId>> {
    Ok(toolsets(repo, ids).await?.replaced(ids, Replace::Lacking))
}

/// Fails if the store cannot replace objects.
pub(crate) fn require_restores(repo: &Repo) -> Result<()> {
    let store = repo.store();
    if store.capabilities().restores {
        return Ok(());
    }
    let message = "this store cannot replace damaged objects: copy the source to a new store";
    let kind = StoreErrorKind::Unsupported;
    Err(StoreError::new(kind, store.backend(), "restore", message).into())
}

/// Splits object ids by type.
pub(crate) fn by_kind(
    objects: impl IntoIterator<Item = ObjectId>,
) -> (Vec<CommitId>, Vec<BlobId>, Vec<ToolsetId>) {
    let (mut commits, mut blobs, mut toolsets) = (Vec::new(), Vec::new(), Vec::new());
    for object in objects {
        match object {
            ObjectId::Commit(id) => commits.push(id),
            ObjectId::Blob(id) => blobs.push(id),
            ObjectId::Toolset(id) => toolsets.push(id),
            ObjectId::Tool(_) => {}
        }
    }
    (commits, blobs, toolsets)
}
