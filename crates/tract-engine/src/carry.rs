//! Objects from one repository to another: commits with all that they link to, in batches.

use std::collections::{HashMap, HashSet};

use tract_core::store::BlobKey;
use tract_core::{
    Batch, Blob, BlobId, Changes, Commit, CommitId, Expect, ObjectId, RefEdit, RefName, RefTarget,
    StoreError, StoreErrorKind, ToolRow, ToolSchema, Toolset, ToolsetId,
};

use crate::copy::{CopyProgress, OnCopy, WRITE_REFS};
use crate::erase::CarriedErasures;
use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::reach::{damage, links};
use crate::received::{shaped, time_of};
use crate::repo::Repo;
use crate::txn::{apply_and_tell, apply_batch, require_done};

/// Bytes of blobs and commits that are read for one write, about.
const WRITE_BYTES: usize = 8 << 20;
/// Commits in one write at most.
const WRITE_COMMITS: usize = 256;

/// Whether a write failed because something that was found stored is so no more: it was unreachable
/// and collected as garbage, or it was erased.
pub(crate) fn collected(error: &Error) -> bool {
    let gone = |kind: &StoreErrorKind| {
        matches!(kind, StoreErrorKind::Missing { .. } | StoreErrorKind::Erased { .. })
    };
    matches!(error, Error::Store(error) if gone(&error.kind))
}

/// Carries objects from one repository to the other.
pub(crate) struct ObjectCopier<'a> {
    from: &'a Repo,
    pub(crate) to: &'a Repo,
    pub(crate) operation: Operation,
    /// The verb in the ref log.
    what: &'static str,
    /// When the commits count as made that do not say so: what follows them asks for it.
    times: HashMap<CommitId, i64>,
    /// What is erased here or there, with the document that the target has of it.
    erased: HashMap<BlobId, RefTarget>,
    /// What [`erasures`](Self::erasures) brought.
    pub(crate) carried: CarriedErasures,
}

impl<'a> ObjectCopier<'a> {
    /// Makes one whose writes belong to the operation of the target's handle, or to a new one.
    pub(crate) fn new(from: &'a Repo, to: &'a Repo, what: &'static str) -> Result<Self> {
        let operation = to.operation_or_new(None)?;
        let (times, erased, carried) = Default::default();
        Ok(Self { from, to, operation, what, times, erased, carried })
    }

    pub(crate) fn batch(&self) -> Result<Batch> {
        self.to.batch(&self.operation, self.what)
    }

    /// Carries what was erased: the target deletes its bytes of it, and none are brought to it.
    pub(crate) async fn erasures(&mut self) -> Result<()> {
        let list =
            async |repo: &Repo| repo.store().list_refs(repo.name(), RefName::erasures()).await;
        let (from, there) = (list(self.from).await?, list(self.to).await?);
        let by_blob = |refs: Vec<(RefName, RefTarget)>| {
            let blobs = refs.into_iter();
            blobs
                .filter_map(|(name, to)| Some((name.erased_blob()?, to)))
                .collect::<HashMap<_, _>>()
        };
        self.erased = by_blob(there);
        let new: Vec<(BlobId, RefTarget)> =
            by_blob(from).into_iter().filter(|(id, _)| !self.erased.contains_key(id)).collect();
        if !new.is_empty() && !self.to.store().capabilities().erases {
            let (kind, backend) = (StoreErrorKind::Unsupported, self.to.store().backend());
            let message = "something of the source was erased, and this store cannot erase";
            return Err(StoreError::new(kind, backend, self.what, message).into());
        }
        let (mut written, mut outcome) = (0, Ok(()));
        for chunk in new.chunks(WRITE_REFS) {
            outcome = self.write_erasures(chunk).await;
            if outcome.is_err() {
                break;
            }
            written += chunk.len();
        }
        // Also those before one that failed: the next try finds them done.
        self.carried.finish(self.to, written).await;
        outcome
    }

    async fn write_erasures(&mut self, erasures: &[(BlobId, RefTarget)]) -> Result<()> {
        let mut batch = self.batch()?;
        let documents = erasures.iter().filter_map(|(_, target)| target.blob());
        batch.blobs = self.blobs(documents.collect()).await?;
        for (id, target) in erasures {
            let (name, to) = (RefName::erasure(*id), Some(target.clone()));
            batch.refs.push(RefEdit { name, expect: Expect::Any, to });
        }
        require_done(apply_and_tell(self.to, &self.operation, batch).await?)?;
        self.erased.extend(erasures.iter().cloned());
        Ok(())
    }

    /// Brings commits, parents first, with all that they link to and that the target has not.
    /// Returns how many were there already. With `ask` the target is asked for each; without, it is
    /// known to have none of them.
    ///
    /// # Errors
    /// Those of the stores; one that is [`collected`] calls for another try.
    pub(crate) async fn carry_all(
        &mut self,
        order: &[CommitId],
        ask: bool,
        progress: Option<&OnCopy>,
    ) -> Result<usize> {
        // Small to begin with, since the size of the messages is not known yet.
        let (mut done, mut take, mut reused) = (0, 8, 0);
        while let Some(ids) = order.get(done..).filter(|rest| !rest.is_empty()) {
            let ids = ids.get(..take).unwrap_or(ids);
            let there = if ask { self.there(ids).await? } else { HashSet::new() };
            let missing: Vec<CommitId> =
                ids.iter().filter(|id| !there.contains(id)).copied().collect();
            let bytes = if missing.is_empty() { 0 } else { self.carry(&missing).await? };
            reused += there.len();
            done += ids.len();
            take = match bytes {
                bytes if bytes > WRITE_BYTES => (take / 2).max(1),
                bytes if bytes < WRITE_BYTES / 4 => (take * 2).min(WRITE_COMMITS),
                _ => take,
            };
            if let Some(progress) = progress {
                progress(CopyProgress { commits_done: done, commits: order.len() });
            }
        }
        Ok(reused)
    }

    async fn there(&self, ids: &[CommitId]) -> Result<HashSet<CommitId>> {
        let found = self.to.store().commits(self.to.name(), ids).await?;
        Ok(found.iter().flatten().map(Commit::id).collect())
    }

    /// Brings commits with all that they link to; their other links are there already, or among
    /// them. Returns the bytes read.
    async fn carry(&mut self, ids: &[CommitId]) -> Result<usize> {
        let commits = self.from.require_commits(ids).await?;
        let mut batch = self.batch()?;
        batch.toolsets = self.toolsets(&commits).await?;
        let schemas =
            batch.toolsets.iter().flat_map(|set| set.entries().iter().map(|entry| entry.schema));
        let linked: Vec<BlobId> =
            commits.iter().flat_map(|commit| commit.linked_blobs()).chain(schemas).collect();
        for id in &linked {
            if let Some(target) = self.erased.get(id)
                && !batch.erases(*id)
            {
                let (name, to) = (RefName::erasure(*id), Some(target.clone()));
                batch.refs.push(RefEdit { name, expect: Expect::Any, to });
            }
        }
        batch.blobs = self.blobs(linked).await?;
        let mut required = HashSet::new();
        for commit in &commits {
            let changes = match &commit.changes {
                Changes::List(list) => list.clone(),
                Changes::Blob(id) => {
                    let blob = batch.blobs.iter().find(|blob| blob.id() == *id);
                    let blob = blob.ok_or(Error::Missing(ObjectId::Blob(*id)))?;
                    Changes::from_blob(blob.bytes())?
                }
            };
            // The store requires what a record names. What changes and reverts name, it cannot know.
            let named = links(commit, &changes);
            required.extend(named.into_iter().filter(|id| !commit.parents.contains(id)));
            shaped(self.from, commit, &changes).await?;
        }
        for commit in &commits {
            required.remove(&commit.id());
        }
        batch.requires = required.into_iter().map(ObjectId::Commit).collect();
        batch.tools = self.tool_rows(&commits, &batch).await?;
        let bytes = batch.blobs.iter().map(|blob| blob.bytes().len()).sum::<usize>()
            + commits.iter().map(|commit| commit.encode().len()).sum::<usize>();
        batch.commits = commits;
        require_done(apply_batch(self.to.store().as_ref(), self.to.name(), batch).await?)?;
        Ok(bytes)
    }

    /// Reads the toolsets that commits bring, each once.
    async fn toolsets(&self, commits: &[Commit]) -> Result<Vec<Toolset>> {
        let mut seen = HashSet::new();
        let ids: Vec<ToolsetId> = commits
            .iter()
            .flat_map(|commit| [commit.toolset, commit.active])
            .flatten()
            .filter(|id| seen.insert(*id))
            .collect();
        let found = self.from.store().toolsets(self.from.name(), &ids).await?;
        ids.iter()
            .zip(found)
            .map(|(id, set)| set.ok_or(Error::Missing(ObjectId::Toolset(*id))))
            .collect()
    }

    /// Reads blobs, each once.
    pub(crate) async fn blobs(&self, ids: Vec<BlobId>) -> Result<Vec<Blob>> {
        let mut seen = HashSet::new();
        let is_wanted = |id: &BlobId| !self.erased.contains_key(id) && seen.insert(*id);
        let keys: Vec<BlobKey> = ids.into_iter().filter(is_wanted).map(BlobKey::from).collect();
        let found = self.from.store().blobs(self.from.name(), &keys).await?;
        keys.iter()
            .zip(found)
            .map(|(key, blob)| blob.ok_or(Error::Missing(ObjectId::Blob(key.id))))
            .collect()
    }

    /// Makes the rows of the tool index for what commits have in force and their parents had not.
    async fn tool_rows(&mut self, commits: &[Commit], batch: &Batch) -> Result<Vec<ToolRow>> {
        let records: HashMap<CommitId, &Commit> =
            commits.iter().map(|commit| (commit.id(), commit)).collect();
        let sets: HashMap<ToolsetId, &Toolset> =
            batch.toolsets.iter().map(|set| (set.id(), set)).collect();
        let blobs: HashMap<BlobId, &Blob> =
            batch.blobs.iter().map(|blob| (blob.id(), blob)).collect();
        let mut rows = Vec::new();
        for commit in commits {
            let stored = match commit.parent() {
                Some(id) if !records.contains_key(&id) => Some(self.from.require_commit(id).await?),
                Some(_) | None => None,
            };
            let parent = commit.parent().and_then(|id| records.get(&id).copied());
            let parent = parent.or(stored.as_ref());
            let known = parent.and_then(|parent| {
                parent.created_at.or_else(|| self.times.get(&parent.id()).copied())
            });
            let at = match (commit.created_at, known) {
                (Some(at), _) => at,
                (None, known) => {
                    let at = match known {
                        Some(at) => at,
                        None => time_of(self.from, commit).await?,
                    };
                    self.times.insert(commit.id(), at);
                    at
                }
            };
            let set =
                commit.toolset.filter(|id| parent.and_then(|parent| parent.toolset) != Some(*id));
            let mut seen = HashSet::new();
            for entry in set.and_then(|id| sets.get(&id)).iter().flat_map(|set| set.entries()) {
                if !seen.insert(entry.schema) || self.erased.contains_key(&entry.schema) {
                    continue;
                }
                let text = blobs.get(&entry.schema).and_then(|blob| blob.text());
                let schema = text.and_then(|text| ToolSchema::parse(text).ok());
                let Some(schema) = schema.filter(|schema| schema.id() == entry.tool) else {
                    let what = format!("it is no schema of tool {}", entry.tool);
                    return Err(damage(ObjectId::Blob(entry.schema), what).into());
                };
                rows.push(ToolRow::of(&schema, entry.schema, commit.id(), at));
            }
        }
        Ok(rows)
    }
}
