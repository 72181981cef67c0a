//! Copies objects from one repository to another: commits with everything that they link to, in
//! batches.
//!
//! Objects are written before refs. The first batch is written without a lease, because small
//! transfers move their refs immediately afterwards; later batches are covered by a lease. Garbage
//! collection or an erasure on either side can still interfere. Every batch therefore requires the
//! objects that it links to, a missing one is an error, and the callers retry the whole transfer
//! with [`Attempts`](crate::Attempts). Objects that arrived are found again and not copied twice.

use std::collections::{BTreeSet, HashMap, HashSet};

use futures_util::future::join;
use tract_core::store::{BlobKey, LocationHint, Walk};
use tract_core::{
    Applied, Batch, Blob, BlobId, Changes, Commit, CommitId, Expect, ObjectId, RefEdit, RefName,
    RefTarget, StoreError, StoreErrorKind, ToolRow, ToolSchema, Toolset, ToolsetId,
};

use crate::history::reach::{damage, links};
use crate::history::received::{shaped, time_of};
use crate::repo::Repo;
use crate::repo::batch::{apply_batch, require_done};
use crate::repo::error::{Error, Result};
use crate::repo::operation::Operation;
use crate::sync::copy::{CopyProgress, OnCopy};
use crate::upkeep::erase::slot_in;
use crate::upkeep::restore::{Replace, Restorer, is_corrupt, readable_commits};
use crate::write::lease::Lease;

/// Approximate size of the blobs and commits in one write.
const WRITE_BYTES: usize = 32 << 20;
/// Number of commits in the first write.
const FIRST_COMMITS: usize = 8;
/// Maximum number of commits in one write. Each commit changes random pages of the indexes, and the
/// more commits a write has, the more of them share a page.
const WRITE_COMMITS: usize = 65_536;
/// Approximate size of the record of a commit.
const RECORD_BYTES: usize = 256;
/// Number of commits read first of a history; more while it continues.
const LINE: usize = 16;

fn has_changes_blob(commit: &Commit) -> bool {
    matches!(commit.changes, Changes::Blob(_))
}

/// Commits of the source, and what they link to.
struct ReadCommits {
    commits: Vec<Commit>,
    /// The locations of their contents.
    hints: HashMap<BlobId, LocationHint>,
    toolsets: Vec<Toolset>,
    /// The blobs that they link to.
    linked: Vec<BlobId>,
    /// These blobs; `None` if one of them was erased in the source or in the target.
    blobs: Option<Vec<Blob>>,
}

/// Copies objects from one repository to another.
pub(crate) struct ObjectCopier<'a> {
    pub(crate) from: &'a Repo,
    pub(crate) to: &'a Repo,
    pub(crate) operation: Operation,
    /// The verb for the ref log.
    pub(crate) what: &'static str,
    /// Effective times of commits without a time, for the commits that follow them.
    times: HashMap<CommitId, i64>,
    /// The blobs erased in the source, with their documents.
    sent: HashMap<BlobId, RefTarget>,
    /// The blobs erased in the target, with their documents.
    erased: HashMap<BlobId, RefTarget>,
    /// Keeps the copied objects until refs lead to them.
    pub(crate) lease: Lease,
    /// Replaces damaged and missing objects of the target.
    pub(crate) restorer: Restorer<'a>,
    /// Number of copied commits. While it is 0, no lease is needed: the refs follow the first write
    /// immediately.
    pub(crate) brought: usize,
    /// Number of commits of the next write.
    chunk: usize,
    /// Whether rows of the turn index are copied too. Only into a repository whose content the user
    /// of the source decides: derived rows of others are not trusted.
    pub(crate) brings_rows: bool,
}

impl<'a> ObjectCopier<'a> {
    /// Creates a copier whose writes belong to the operation of the target's handle, or to a new
    /// one.
    pub(crate) fn new(from: &'a Repo, to: &'a Repo, what: &'static str) -> Result<Self> {
        let operation = to.operation_or_new(None)?;
        let (times, sent, erased) = Default::default();
        let (lease, restorer) = (Lease::new(to, false)?, Restorer::new(from, to));
        let (brought, chunk, brings_rows) = (0, FIRST_COMMITS, false);
        Ok(Self {
            from,
            to,
            operation,
            what,
            times,
            sent,
            erased,
            lease,
            restorer,
            brought,
            chunk,
            brings_rows,
        })
    }

    pub(crate) fn batch(&self) -> Result<Batch> {
        self.to.batch(&self.operation, self.what)
    }

    /// Reads the erasures of the source, which lacks those bytes, and of the target, which must not
    /// get them back.
    pub(crate) async fn read_erasures(&mut self) -> Result<()> {
        let list = async |repo: &Repo| -> Result<HashMap<BlobId, RefTarget>> {
            let refs = repo.store().list_refs(repo.name(), RefName::erasures()).await?;
            let by_blob = refs.into_iter().filter_map(|(name, to)| Some((name.erased_blob()?, to)));
            Ok(by_blob.collect())
        };
        (self.sent, self.erased) = (list(self.from).await?, list(self.to).await?);
        Ok(())
    }

    /// Handles the erased blobs that commits link to, and adds the refs of their erasures to the
    /// batch. Returns the blobs whose bytes are not copied.
    async fn erased_links(
        &self,
        commits: &[Commit],
        linked: &[BlobId],
        batch: &mut Batch,
    ) -> Result<HashSet<BlobId>> {
        let is_erased = |id: &BlobId| self.sent.contains_key(id) || self.erased.contains_key(id);
        // Sorted, so that equal transfers send equal batches and a simulation can replay them.
        let found: BTreeSet<BlobId> = linked.iter().copied().filter(is_erased).collect();
        if found.is_empty() {
            return Ok(HashSet::new());
        }
        // Before the blobs are looked up: a message that gets one of them afterwards must not lose it
        // to the erasure that this batch brings.
        let position = match self.to.store().capabilities().collects_garbage {
            true => Some(self.to.store().write_position(self.to.name()).await?),
            false => None,
        };
        let keys: Vec<BlobKey> = found.iter().map(|id| BlobKey::from(*id)).collect();
        let there = self.to.store().blobs(self.to.name(), &keys).await?;
        let there: HashSet<BlobId> = there.iter().flatten().map(Blob::id).collect();
        let mut left = HashSet::new();
        for id in found {
            let name = RefName::erasure(id);
            match (self.sent.get(&id), self.erased.get(&id)) {
                // Other messages of the target contain the blob, and keep it.
                (Some(_), None) if there.contains(&id) => {}
                (Some(target), None) => {
                    if !self.to.store().capabilities().erases {
                        let (kind, backend) =
                            (StoreErrorKind::Unsupported, self.to.store().backend());
                        let message =
                            "something of the source was erased, and this store cannot erase";
                        return Err(StoreError::new(kind, backend, self.what, message).into());
                    }
                    let document = target.blob();
                    let keys: Vec<BlobKey> = document.map(BlobKey::from).into_iter().collect();
                    let documents = self.from.store().blobs(self.from.name(), &keys).await?;
                    batch.blobs.extend(documents.into_iter().flatten());
                    let to = Some(target.clone());
                    batch.refs.push(RefEdit { name, expect: Expect::Absent, to });
                    batch.position = position;
                }
                // Lifts the erasure in the same batch that stores the bytes, and only if it is
                // still the one that was read.
                (None, Some(target)) if self.may_return(commits, id).await? => {
                    let expect = Expect::Is(target.clone());
                    batch.refs.push(RefEdit { name, expect, to: None });
                    continue;
                }
                (_, Some(target)) => {
                    // Only if it was not lifted since: making it again would delete the bytes of
                    // the message for which it was lifted.
                    let expect = Expect::Is(target.clone());
                    batch.refs.push(RefEdit { name, expect, to: Some(target.clone()) });
                }
                (None, None) => continue,
            }
            left.insert(id);
        }
        Ok(left)
    }

    /// Returns whether bytes that the target erased return with these commits: if they are not
    /// banned, and a message other than the erased ones contains them.
    async fn may_return(&self, commits: &[Commit], blob: BlobId) -> Result<bool> {
        let Some(erasure) = self.to.erasure_of(blob).await? else { return Ok(true) };
        // An erasure of an older version does not name its messages, so assume that it covers them
        // all.
        if erasure.ban || erasure.messages.is_empty() {
            return Ok(false);
        }
        for commit in commits.iter().filter(|it| it.linked_blobs().any(|id| id == blob)) {
            let changes = self.from.changes(commit).await?;
            if !erasure.messages.contains(&slot_in(commit, &changes)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Copies commits, parents first, with everything that they link to and that the target lacks.
    /// Returns the number of commits that it had. With `ask`, the target is queried for each
    /// commit, and its copies are checked; without, it is known to lack all of them.
    ///
    /// # Errors
    /// Those of the stores. [`Attempts`](crate::Attempts) decides which of them call for a retry.
    pub(crate) async fn carry_all(
        &mut self,
        order: &[CommitId],
        ask: bool,
        progress: Option<&OnCopy>,
    ) -> Result<usize> {
        // Start with few commits, since the size of the messages is unknown.
        self.chunk = FIRST_COMMITS;
        let (mut done, mut reused) = (0, 0);
        let mut before: Vec<CommitId> = Vec::new();
        let mut read: Option<ReadCommits> = None;
        while let Some(ids) = order.get(done..).filter(|rest| !rest.is_empty()) {
            let ids = match &read {
                Some(read) => ids.get(..read.commits.len()).unwrap_or(ids),
                None => ids.get(..self.chunk).unwrap_or(ids),
            };
            let mut parents = HashSet::new();
            let there = if ask { self.there(ids, &mut parents).await? } else { HashSet::new() };
            let missing: Vec<CommitId> =
                ids.iter().filter(|id| !there.contains(id)).copied().collect();
            // Which commits come next is known only if all of them are copied.
            let later = order.get(done + ids.len()..).filter(|_| !ask).unwrap_or_default();
            read = match missing.is_empty() {
                true => None,
                false => self.carry_over(&missing, read.take(), later).await?,
            };
            if missing.is_empty() {
                self.resize(0);
            }
            if missing.iter().chain(&before).any(|id| parents.contains(id)) {
                // The target has a child of this commit, so the commit had been lost, and is now
                // stored at another location.
                self.restorer.is_moved = true;
            }
            before = missing;
            reused += there.len();
            done += ids.len();
            if let Some(progress) = progress {
                progress.call(CopyProgress { commits_done: done, commits: order.len() });
            }
        }
        Ok(reused)
    }

    /// Sets the number of commits of the next write by the size of this one.
    fn resize(&mut self, bytes: usize) {
        self.chunk = match bytes {
            bytes if bytes > WRITE_BYTES => (self.chunk / 2).max(1),
            bytes if bytes < WRITE_BYTES / 2 => (self.chunk * 2).min(WRITE_COMMITS),
            _ => self.chunk,
        };
    }

    /// Returns the commits that the target has, after replacing damaged ones, and adds their
    /// parents.
    async fn there(
        &mut self,
        ids: &[CommitId],
        parents: &mut HashSet<CommitId>,
    ) -> Result<HashSet<CommitId>> {
        let (found, damaged) = readable_commits(self.to, ids).await?;
        parents.extend(found.iter().flatten().filter_map(|commit| commit.parent()));
        let mut there: HashSet<CommitId> = found.iter().flatten().map(Commit::id).collect();
        if self.to.store().capabilities().restores {
            there.extend(damaged);
        }
        let known: Vec<CommitId> = ids.iter().filter(|id| there.contains(id)).copied().collect();
        self.restorer.commits(&known, Replace::Linked).await?;
        Ok(there)
    }

    /// Copies commits that the target lacks, and reads the next ones of `later` meanwhile, which it
    /// returns. If objects that they link to are stored but damaged, replaces those and retries once.
    async fn carry_over(
        &mut self,
        ids: &[CommitId],
        read: Option<ReadCommits>,
        later: &[CommitId],
    ) -> Result<Option<ReadCommits>> {
        match self.carry(ids, read, later).await {
            Err(error) if is_corrupt(&error) => {
                let before = self.restorer.restored;
                self.restorer.commits(ids, Replace::Damaged).await?;
                // Without a replaced object a second try would fail in the same way.
                match self.restorer.restored == before {
                    true => Err(error),
                    false => self.carry(ids, None, &[]).await,
                }
            }
            carried => carried,
        }
    }

    /// Copies commits with everything that they link to. Commits that they link to must be in the
    /// target or among them.
    async fn carry(
        &mut self,
        ids: &[CommitId],
        read: Option<ReadCommits>,
        later: &[CommitId],
    ) -> Result<Option<ReadCommits>> {
        let mut races = self.to.races();
        let (mut read, mut later) = (read, later);
        loop {
            let commits = match read.take() {
                Some(read) => read,
                None => self.read(ids).await?,
            };
            let batch = self.prepare(commits).await?;
            let bytes = batch.blobs.iter().map(|blob| blob.bytes().len()).sum::<usize>()
                + batch.commits.len() * RECORD_BYTES;
            self.resize(bytes);
            let next = later.get(..self.chunk).unwrap_or(later);
            // The target writes while the source is read: two disks, two machines, or two threads.
            let (stored, read_next) = join(self.store(batch), self.read_next(next)).await;
            if stored? {
                self.brought += ids.len();
                // If they cannot be read, that is an error when it is their turn.
                return Ok(read_next.unwrap_or_default());
            }
            // Others wrote since the erasures were read, or since the target was searched for the
            // bytes that an erasure deletes. What was read meanwhile was read before that, too.
            races.lose().await?;
            self.read_erasures().await?;
            later = &[];
        }
    }

    /// Reads commits of the source that are copied next, if there are any.
    async fn read_next(&self, ids: &[CommitId]) -> Result<Option<ReadCommits>> {
        if ids.is_empty() { Ok(None) } else { self.read(ids).await.map(Some) }
    }

    /// Reads commits of the source with everything that they link to. Reads no blobs if one of them
    /// was erased: the target decides which of them are copied.
    async fn read(&self, ids: &[CommitId]) -> Result<ReadCommits> {
        let (commits, hints) = self.records(ids).await?;
        let toolsets = self.toolsets(&commits).await?;
        let schemas =
            toolsets.iter().flat_map(|set| set.entries().iter().map(|entry| entry.schema));
        let linked: Vec<BlobId> =
            commits.iter().flat_map(|commit| commit.linked_blobs()).chain(schemas).collect();
        let is_erased = |id: &BlobId| self.sent.contains_key(id) || self.erased.contains_key(id);
        let blobs = match linked.iter().any(is_erased) {
            true => None,
            false => Some(self.hinted_blobs(&linked, &HashSet::new(), &hints).await?),
        };
        Ok(ReadCommits { commits, hints, toolsets, linked, blobs })
    }

    /// Makes the batch that stores commits in the target.
    async fn prepare(&mut self, read: ReadCommits) -> Result<Batch> {
        let ReadCommits { commits, hints, toolsets, linked, blobs } = read;
        let mut batch = self.batch()?;
        batch.toolsets = toolsets;
        let mut left = HashSet::new();
        let blobs = match blobs {
            Some(blobs) => blobs,
            None => {
                left = self.erased_links(&commits, &linked, &mut batch).await?;
                self.hinted_blobs(&linked, &left, &hints).await?
            }
        };
        batch.blobs.extend(blobs);
        batch.requires = self.required(&commits, &batch.blobs).await?;
        batch.tools = self.tool_rows(&commits, &batch, &left).await?;
        batch.commits = commits;
        Ok(batch)
    }

    /// Returns the commits that others name in their changes. Versions and marks are links as well:
    /// a history that lacks them cannot be folded or reverted.
    async fn required(&self, commits: &[Commit], blobs: &[Blob]) -> Result<Vec<ObjectId>> {
        let listed: HashMap<BlobId, &Blob> = match commits.iter().any(has_changes_blob) {
            true => blobs.iter().map(|blob| (blob.id(), blob)).collect(),
            false => HashMap::new(),
        };
        let mut required = HashSet::new();
        for commit in commits {
            let changes = match &commit.changes {
                Changes::List(list) => list.clone(),
                Changes::Blob(id) => {
                    let blob = listed.get(id).ok_or(Error::Missing(ObjectId::Blob(*id)))?;
                    Changes::from_blob(blob.bytes())?
                }
            };
            // The store itself requires the links of a record. It cannot know the commits that
            // changes and reverts name, so require those explicitly.
            let named = links(commit, &changes);
            required.extend(named.into_iter().filter(|id| !commit.parents.contains(id)));
            shaped(self.from, commit, &changes).await?;
        }
        for commit in commits {
            required.remove(&commit.id());
        }
        Ok(required.into_iter().map(ObjectId::Commit).collect())
    }

    /// Stores a batch in the target. Returns `false` if it lost a race about an erasure.
    async fn store(&self, batch: Batch) -> Result<bool> {
        // Only the first batch goes without a lease, so that a small transfer needs no further
        // write. Its refs follow at once, and the caller retries if garbage collection comes
        // between.
        let applied = match self.brought {
            0 => apply_batch(self.to.store().as_ref(), self.to.name(), batch).await?,
            _ => self.lease.store(&self.operation, batch, &[]).await?,
        };
        match applied {
            Applied::Moved(_) => Ok(false),
            Applied::Conflict(conflict) if conflict.name.erased_blob().is_some() => Ok(false),
            applied => require_done(applied).map(|()| true),
        }
    }

    /// Reads commits, parents first, and the locations of their contents. Commits of a history are
    /// usually stored next to each other, and are read with a walk.
    async fn records(
        &self,
        ids: &[CommitId],
    ) -> Result<(Vec<Commit>, HashMap<BlobId, LocationHint>)> {
        let (store, name) = (self.from.store(), self.from.name());
        let (mut commits, mut hints) = (Vec::with_capacity(ids.len()), HashMap::new());
        let (mut rest, mut limit) = (ids, LINE);
        while let Some(head) = rest.last() {
            let walk = Walk { limit: limit.min(rest.len()), ..Walk::from(*head) };
            let most = walk.limit;
            let page = store.walk(name, walk).await?;
            let mut found = 0;
            // The order lists parents first and keeps histories together, so a walk from the last
            // id returns the ids before it, newest first. It stops where the order continues with
            // another history.
            for (entry, id) in page.entries.into_iter().zip(rest.iter().rev()) {
                if entry.commit.id() != *id {
                    break;
                }
                hints.extend(entry.commit.content.zip(entry.content));
                commits.push(entry.commit);
                found += 1;
            }
            if found == 0 {
                return Err(Error::Missing(ObjectId::Commit(*head)));
            }
            // After the end of a history, the next one may be just as short.
            limit = if found == most { limit * 4 } else { LINE };
            rest = rest.get(..rest.len() - found).unwrap_or_default();
        }
        commits.reverse();
        Ok((commits, hints))
    }

    /// Reads the toolsets of commits, without duplicates.
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

    /// Reads blobs, without duplicates and without those in `left`.
    pub(crate) async fn blobs(
        &self,
        ids: Vec<BlobId>,
        left: &HashSet<BlobId>,
    ) -> Result<Vec<Blob>> {
        self.hinted_blobs(&ids, left, &HashMap::new()).await
    }

    async fn hinted_blobs(
        &self,
        ids: &[BlobId],
        left: &HashSet<BlobId>,
        hints: &HashMap<BlobId, LocationHint>,
    ) -> Result<Vec<Blob>> {
        let mut seen = HashSet::new();
        let is_wanted = |id: &BlobId| !left.contains(id) && seen.insert(*id);
        let key = |id: BlobId| BlobKey { id, hint: hints.get(&id).copied() };
        let keys: Vec<BlobKey> = ids.iter().copied().filter(is_wanted).map(key).collect();
        let found = self.from.store().blobs(self.from.name(), &keys).await?;
        keys.iter()
            .zip(found)
            .map(|(key, blob)| blob.ok_or(Error::Missing(ObjectId::Blob(key.id))))
            .collect()
    }

    /// Creates tool index rows for the tools that commits have in force and their parents do not.
    async fn tool_rows(
        &mut self,
        commits: &[Commit],
        batch: &Batch,
        left: &HashSet<BlobId>,
    ) -> Result<Vec<ToolRow>> {
        if batch.toolsets.is_empty() && commits.iter().all(|commit| commit.created_at.is_some()) {
            return Ok(Vec::new());
        }
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
            // Without the cached times each imported commit would walk back to the nearest one with
            // a time.
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
                if !seen.insert(entry.schema) || left.contains(&entry.schema) {
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
