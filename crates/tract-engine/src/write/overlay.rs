//! A store that holds writes back until they are written together.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::repo::error::Result;
use crate::repo::operation::Operation;
use crate::write::lease::Lease;
use async_trait::async_trait;
use bytes::Bytes;
use tract_core::store::{
    BlobKey, Capabilities, CommitRepository, Damage, DerivedRepository, LogQuery, ObjectCopies,
    ObjectRepository, RefRepository, StoreResult, StoreStats, ToolRepository, Walk, WalkEntry,
    WalkPage,
};
use tract_core::{
    Applied, Batch, BatchId, Blob, BlobId, Commit, CommitId, DerivedKind, DerivedRow, IdPrefix,
    LogEntry, LogNote, ObjectId, RefName, RefTarget, RepoName, Store, StoreError, StoreErrorKind,
    ToolDefinition, ToolId, ToolRow, Toolset, ToolsetId,
};

use crate::repo::batch::{apply_to_store_once, require_done};
use crate::write::txn::ref_edit;

/// The objects and ref moves that are held back.
#[derive(Debug, Default)]
struct Pending {
    blobs: HashMap<BlobId, Blob>,
    toolsets: HashMap<ToolsetId, Toolset>,
    commits: HashMap<CommitId, Commit>,
    /// The commits in order of arrival, parents first.
    order: Vec<CommitId>,
    tools: Vec<ToolRow>,
    derived: HashMap<(DerivedKind, CommitId), Bytes>,
    /// The current target of each ref that was moved here.
    refs: BTreeMap<RefName, Option<RefTarget>>,
    /// The target of each ref when it was first read from the store below. Reads repeat it, and the
    /// flush expects it: a move by another writer in between is a conflict of the flush.
    seen: HashMap<RefName, Option<RefTarget>>,
    /// The id and note of the first batch, and whether more batches followed.
    first: Option<(BatchId, LogNote)>,
    several: bool,
    /// Approximate size of the objects in memory, in bytes.
    bytes: usize,
}

/// Approximate size of a commit and its entries in memory, in bytes, without its blobs.
const COMMIT_BYTES: usize = 1 << 10;

impl Pending {
    /// Adds the objects to a batch, parents before their children.
    fn objects(&self, batch: &mut Batch) {
        batch.blobs.extend(self.blobs.values().cloned());
        batch.toolsets.extend(self.toolsets.values().cloned());
        let commits = self.order.iter().filter_map(|id| self.commits.get(id));
        batch.commits.extend(commits.cloned());
        let rows = self.derived.iter();
        batch.derived.extend(rows.map(|((kind, commit), bytes)| DerivedRow {
            kind: *kind,
            commit: *commit,
            bytes: bytes.clone(),
        }));
    }
}

/// A repository of a store with uncommitted writes on top. Only readers of this overlay see them.
/// [`flush`](Self::flush) writes them as one batch.
///
/// Nothing may be written to the overlay while a flush or a stage is in progress: both copy the
/// pending writes, and drop all of them once the store has answered.
///
/// The ref log shows moves only once they are written.
#[derive(Debug)]
pub(crate) struct Overlay {
    below: Arc<dyn Store>,
    pending: Mutex<Pending>,
}

impl Overlay {
    pub(crate) fn new(below: Arc<dyn Store>) -> Self {
        Self { below, pending: Mutex::default() }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        // No code panics in the middle of a change under this lock, so the state is consistent.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops all writes that are held back.
    pub(crate) fn clear(&self) {
        *self.pending() = Pending::default();
    }

    /// Writes everything that is held back as one batch and drops it, unless the store fails or
    /// reports a conflict. `note` is used for several batches; a single one keeps its own.
    pub(crate) async fn flush(
        &self,
        repo: &RepoName,
        note: LogNote,
        operation: &Operation,
        lease: &Lease,
    ) -> Result<(Applied, Option<BatchId>)> {
        let Some(mut batch) = self.batch(note, operation)? else {
            self.clear();
            return Ok((Applied::Done, None));
        };
        // Streams may bring commits before the lines that move refs to them. A lease keeps such
        // commits from garbage collection.
        let cover = batch.stores_ahead().then(|| lease.cover(&mut batch, &[]));
        let applied = apply_to_store_once(self.below.as_ref(), repo, &batch).await?;
        if applied.is_stored() {
            cover.into_iter().for_each(|cover| lease.covered(cover));
            operation.recorded(self.below.as_ref(), repo, batch.id, batch.refs.len()).await;
            self.clear();
        }
        Ok((applied, Some(batch.id)))
    }

    /// Replaces damaged objects in the store with those that are held back. Returns their number.
    pub(crate) async fn restore_held(&self, repo: &RepoName) -> Result<usize> {
        if !self.below.capabilities().restores {
            return Ok(0);
        }
        let copies = {
            let pending = self.pending();
            ObjectCopies {
                commits: Vec::new(),
                blobs: pending.blobs.values().cloned().collect(),
                toolsets: pending.toolsets.values().cloned().collect(),
            }
        };
        Ok(self.below.restore(repo, copies).await?.len())
    }

    /// Returns the approximate size of the objects that are held back, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.pending().bytes
    }

    /// Writes the objects that are held back, and drops them from memory. They become part of the
    /// repository when the [`flush`](Self::flush) moves refs to them; until then the lease keeps
    /// them. The rows of the tool index stay behind: readers would find them without a ref.
    pub(crate) async fn stage(
        &self,
        note: LogNote,
        operation: &Operation,
        lease: &Lease,
    ) -> Result<()> {
        let mut batch = Batch::new(operation.next_batch()?, note);
        self.pending().objects(&mut batch);
        require_done(lease.store(operation, batch, &[]).await?)?;
        let mut pending = self.pending();
        // The objects are stored under an id of their own, so the flush counts as a further batch.
        let Pending { tools, refs, seen, first, .. } = std::mem::take(&mut *pending);
        *pending = Pending { tools, refs, seen, first, several: true, ..Pending::default() };
        Ok(())
    }

    fn batch(&self, note: LogNote, operation: &Operation) -> Result<Option<Batch>> {
        let pending = self.pending();
        let (id, note) = match &pending.first {
            None => return Ok(None),
            // Commits name the id of their batch, and a retry by another writer looks for it in the
            // ref log. So a single batch keeps its id.
            Some((id, own)) if !pending.several => {
                (*id, LogNote { operation: operation.id(), ..own.clone() })
            }
            Some(_) => (operation.next_batch()?, note),
        };
        let mut batch = Batch::new(id, note);
        pending.objects(&mut batch);
        batch.tools.clone_from(&pending.tools);
        for (name, after) in &pending.refs {
            let before = pending.seen.get(name).cloned().flatten();
            if before != *after {
                batch.refs.push(ref_edit(name.clone(), before, after.clone()));
            }
        }
        // Staged objects were not reachable from a ref until now, so the batch requires those that
        // refs will point to: garbage collection may have deleted them.
        batch.require_targets();
        Ok(Some(batch))
    }
}

/// Looks each id up in the pending objects, then the remaining ones in the store below.
pub(crate) async fn both<K: Copy, T, F>(
    ids: &[K],
    held: impl Fn(&K) -> Option<T>,
    below: impl FnOnce(Vec<K>) -> F,
) -> StoreResult<Vec<Option<T>>>
where
    F: Future<Output = StoreResult<Vec<Option<T>>>>,
{
    let mut found: Vec<Option<T>> = ids.iter().map(held).collect();
    let rest = ids.iter().zip(&found).filter(|(_, found)| found.is_none());
    let rest: Vec<K> = rest.map(|(id, _)| *id).collect();
    if !rest.is_empty() {
        let mut below = below(rest).await?.into_iter();
        for found in found.iter_mut().filter(|found| found.is_none()) {
            *found = below.next().flatten();
        }
    }
    Ok(found)
}

#[async_trait]
impl ObjectRepository for Overlay {
    async fn blobs(&self, repo: &RepoName, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>> {
        let held = |key: &BlobKey| self.pending().blobs.get(&key.id).cloned();
        both(keys, held, |rest| async move { self.below.blobs(repo, &rest).await }).await
    }

    async fn toolsets(
        &self,
        repo: &RepoName,
        ids: &[ToolsetId],
    ) -> StoreResult<Vec<Option<Toolset>>> {
        let held = |id: &ToolsetId| self.pending().toolsets.get(id).cloned();
        both(ids, held, |rest| async move { self.below.toolsets(repo, &rest).await }).await
    }

    async fn resolve_prefix(
        &self,
        repo: &RepoName,
        prefix: &IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>> {
        let below = self.below.resolve_prefix(repo, prefix, limit).await?;
        let mut found: BTreeSet<ObjectId> = below.into_iter().collect();
        let pending = self.pending();
        let held = pending
            .commits
            .keys()
            .map(|id| ObjectId::Commit(*id))
            .chain(pending.blobs.keys().map(|id| ObjectId::Blob(*id)))
            .chain(pending.toolsets.keys().map(|id| ObjectId::Toolset(*id)))
            .chain(pending.tools.iter().map(|row| ObjectId::Tool(row.id)));
        found.extend(held.filter(|id| prefix.matches(id.as_bytes())));
        Ok(found.into_iter().take(limit).collect())
    }
}

#[async_trait]
impl CommitRepository for Overlay {
    async fn commits(&self, repo: &RepoName, ids: &[CommitId]) -> StoreResult<Vec<Option<Commit>>> {
        let held = |id: &CommitId| self.pending().commits.get(id).cloned();
        both(ids, held, |rest| async move { self.below.commits(repo, &rest).await }).await
    }

    async fn walk(&self, repo: &RepoName, walk: Walk) -> StoreResult<WalkPage> {
        let mut page = WalkPage::default();
        let mut next = Some(walk.head);
        // A stored commit never has a parent that is held back: the store below has checked its
        // links. So once the walk has left the pending commits it stays in the store below.
        {
            let pending = self.pending();
            while let Some(id) = next.filter(|id| Some(*id) != walk.until) {
                let Some(commit) = pending.commits.get(&id) else { break };
                if let Some(bytes) = walk.stop_at.and_then(|kind| pending.derived.get(&(kind, id)))
                {
                    page.stopped = Some((id, bytes.clone()));
                    return Ok(page);
                }
                if page.entries.len() == walk.limit {
                    page.next = next;
                    return Ok(page);
                }
                page.entries.push(WalkEntry { commit: commit.clone(), content: None });
                next = commit.parent();
            }
        }
        let left = walk.limit - page.entries.len();
        match next.filter(|id| Some(*id) != walk.until) {
            None => {}
            Some(head) if left == 0 => page.next = Some(head),
            Some(head) => {
                let rest = self.below.walk(repo, Walk { head, limit: left, ..walk }).await?;
                page.entries.extend(rest.entries);
                page.stopped = rest.stopped;
                page.next = rest.next;
            }
        }
        Ok(page)
    }
}

/// Adds the pending rows of a tool to its stored definition.
fn define(known: Option<ToolDefinition>, rows: &[ToolRow], id: ToolId) -> Option<ToolDefinition> {
    rows.iter().filter(|row| row.id == id).fold(known, |known, row| match known {
        None => Some(ToolDefinition {
            id,
            name: row.name.clone(),
            schemas: vec![row.schema],
            first: row.commit,
            created_at: row.created_at,
        }),
        Some(mut known) => {
            if !known.schemas.contains(&row.schema) {
                known.schemas.push(row.schema);
            }
            Some(known)
        }
    })
}

#[async_trait]
impl ToolRepository for Overlay {
    async fn tools(
        &self,
        repo: &RepoName,
        ids: &[ToolId],
    ) -> StoreResult<Vec<Option<ToolDefinition>>> {
        let below = self.below.tools(repo, ids).await?;
        let pending = self.pending();
        let both = below.into_iter().zip(ids);
        Ok(both.map(|(known, id)| define(known, &pending.tools, *id)).collect())
    }

    async fn tools_by_name(&self, repo: &RepoName, name: &str) -> StoreResult<Vec<ToolDefinition>> {
        let mut found = self.below.tools_by_name(repo, name).await?;
        let pending = self.pending();
        let held: BTreeSet<ToolId> =
            pending.tools.iter().filter(|row| row.name == name).map(|row| row.id).collect();
        for id in held {
            let place = found.iter().position(|known| known.id == id);
            let known = place.map(|place| found.remove(place));
            found.extend(define(known, &pending.tools, id));
        }
        found.sort_by_key(|tool| (tool.created_at, tool.first));
        Ok(found)
    }

    async fn tool_names(&self, repo: &RepoName) -> StoreResult<Vec<String>> {
        let below = self.below.tool_names(repo).await?;
        let mut names: BTreeSet<String> = below.into_iter().collect();
        names.extend(self.pending().tools.iter().map(|row| row.name.clone()));
        Ok(names.into_iter().collect())
    }
}

#[async_trait]
impl RefRepository for Overlay {
    /// Reads refs, pending moves included. Each ref is read once from the store below, so that all
    /// readers of this overlay see one state.
    async fn refs(
        &self,
        repo: &RepoName,
        names: &[RefName],
    ) -> StoreResult<Vec<Option<RefTarget>>> {
        let unseen: Vec<RefName> = {
            let pending = self.pending();
            names.iter().filter(|name| !pending.seen.contains_key(*name)).cloned().collect()
        };
        if !unseen.is_empty() {
            let found = self.below.refs(repo, &unseen).await?;
            let mut pending = self.pending();
            for (name, found) in unseen.into_iter().zip(found) {
                pending.seen.entry(name).or_insert(found);
            }
        }
        let pending = self.pending();
        // A ref that was deleted here is `Some(None)` in `refs`, so it is not looked up in `seen`.
        let current = |name| pending.refs.get(name).or(pending.seen.get(name)).cloned().flatten();
        Ok(names.iter().map(current).collect())
    }

    async fn list_refs(
        &self,
        repo: &RepoName,
        prefix: &str,
    ) -> StoreResult<Vec<(RefName, RefTarget)>> {
        let below = self.below.list_refs(repo, prefix).await?;
        let mut refs: BTreeMap<RefName, RefTarget> = below.into_iter().collect();
        let mut pending = self.pending();
        // A listing reads each ref, too: later reads must repeat it.
        for (name, target) in &refs {
            if !pending.seen.contains_key(name) {
                pending.seen.insert(name.clone(), Some(target.clone()));
            }
        }
        let pending = &*pending;
        // Moves of this overlay come last, because they are newer than what it read.
        for (name, now) in pending.seen.iter().chain(&pending.refs) {
            match now {
                Some(now) if name.as_str().starts_with(prefix) => {
                    refs.insert(name.clone(), now.clone());
                }
                Some(_) => {}
                None => _ = refs.remove(name),
            }
        }
        Ok(refs.into_iter().collect())
    }

    async fn ref_log(&self, repo: &RepoName, query: &LogQuery) -> StoreResult<Vec<LogEntry>> {
        self.below.ref_log(repo, query).await
    }
}

#[async_trait]
impl DerivedRepository for Overlay {
    async fn derived(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
        commits: &[CommitId],
    ) -> StoreResult<Vec<Option<Bytes>>> {
        let held = |id: &CommitId| self.pending().derived.get(&(kind, *id)).cloned();
        both(commits, held, |rest| async move { self.below.derived(repo, kind, &rest).await }).await
    }

    async fn drop_derived(&self, repo: &RepoName) -> StoreResult<()> {
        self.pending().derived.clear();
        self.below.drop_derived(repo).await
    }
}

#[async_trait]
impl Store for Overlay {
    fn backend(&self) -> &'static str {
        self.below.backend()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::IN_MEMORY
    }

    async fn apply(&self, repo: &RepoName, batch: Batch) -> StoreResult<Applied> {
        batch.check_refs("overlay")?;
        if batch.position.is_some() {
            let message = "writes that are held back have no position";
            return Err(StoreError::new(StoreErrorKind::Unsupported, "overlay", "apply", message));
        }
        let names: Vec<RefName> = batch.refs.iter().map(|edit| edit.name.clone()).collect();
        // The check and the change below do not happen under one lock. An overlay has one writer,
        // so nothing can move a ref in between.
        let found = self.refs(repo, &names).await?;
        for (edit, found) in batch.refs.iter().zip(&found) {
            if let Some(conflict) = edit.conflict(found.as_ref()) {
                return Ok(Applied::Conflict(conflict));
            }
        }
        let mut pending = self.pending();
        match pending.first {
            None => pending.first = Some((batch.id, batch.note)),
            Some(_) => pending.several = true,
        }
        pending.bytes += batch.commits.len() * COMMIT_BYTES
            + batch.blobs.iter().map(|blob| blob.bytes().len()).sum::<usize>()
            + batch.derived.iter().map(|row| row.bytes.len()).sum::<usize>();
        pending.blobs.extend(batch.blobs.into_iter().map(|blob| (blob.id(), blob)));
        pending.toolsets.extend(batch.toolsets.into_iter().map(|set| (set.id(), set)));
        for commit in batch.commits {
            let id = commit.id();
            if pending.commits.insert(id, commit).is_none() {
                pending.order.push(id);
            }
        }
        pending.tools.extend(batch.tools);
        let rows = batch.derived.into_iter();
        pending.derived.extend(rows.map(|row| ((row.kind, row.commit), row.bytes)));
        pending.refs.extend(batch.refs.into_iter().map(|edit| (edit.name, edit.to)));
        Ok(Applied::Done)
    }

    async fn repos(&self) -> StoreResult<Vec<RepoName>> {
        self.below.repos().await
    }

    async fn stats(&self, repo: &RepoName) -> StoreResult<StoreStats> {
        self.below.stats(repo).await
    }

    async fn check(&self, repo: &RepoName, repair: bool) -> StoreResult<Vec<Damage>> {
        self.below.check(repo, repair).await
    }
}
