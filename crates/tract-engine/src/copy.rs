//! Copy: what the refs of one repository lead to, into another, across stores of any kind.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use tract_core::store::BlobKey;
use tract_core::{
    Applied, Batch, Blob, BlobId, Changes, Commit, CommitId, Expect, LogNote, ObjectId, RefEdit,
    RefName, RefTarget, StoreError, StoreErrorKind, ToolRow, ToolSchema, Toolset, ToolsetId,
};

use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::reach::{CommitGraph, damage};
use crate::received::{descends, shaped, time_of};
use crate::repo::Repo;
use crate::txn::tell;

/// How far a copy has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyProgress {
    /// Commits that are there already.
    pub commits_done: usize,
    /// Commits that the refs lead to.
    pub commits: usize,
}

/// Called after every write with the progress of a copy.
pub type OnCopy = Arc<dyn Fn(CopyProgress) + Send + Sync>;

/// How [`copy`] goes about it.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct CopyOptions {
    /// The refs to copy; every one, and `HEAD`, when absent.
    pub refs: Option<Vec<RefName>>,
    /// Called with the progress.
    pub progress: Option<OnCopy>,
}

impl CopyOptions {
    /// Starts from the defaults: everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Chooses the refs to copy.
    #[must_use]
    pub fn refs(mut self, refs: Vec<RefName>) -> Self {
        self.refs = Some(refs);
        self
    }

    /// Sets what is called with the progress.
    #[must_use]
    pub fn progress(mut self, progress: OnCopy) -> Self {
        self.progress = Some(progress);
        self
    }
}

impl fmt::Debug for CopyOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyOptions").field("refs", &self.refs).finish_non_exhaustive()
    }
}

/// What became of a ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyStatus {
    /// It was not there.
    Created,
    /// A branch whose new head descends from the one it had.
    Forwarded,
    /// It pointed there already.
    Unchanged,
    /// It points elsewhere, and stays there.
    Diverged {
        /// Where it points.
        found: RefTarget,
    },
}

impl CopyStatus {
    /// Returns the word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Forwarded => "forwarded",
            Self::Unchanged => "unchanged",
            Self::Diverged { .. } => "diverged",
        }
    }
}

/// A ref that was to be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedRef {
    /// Its name.
    pub name: RefName,
    /// Where it points in the source.
    pub to: RefTarget,
    /// What became of it.
    pub status: CopyStatus,
}

/// What [`copy`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyReport {
    /// Commits that the refs lead to.
    pub commits: usize,
    /// Those that were there already.
    pub reused: usize,
    /// The refs, sorted by name, `HEAD` first.
    pub refs: Vec<CopiedRef>,
    /// Blobs that were erased in the source and now are in the target.
    pub erased: usize,
    /// Why the target's files may still have the bytes of those; `None` when they have not.
    pub not_wiped: Option<String>,
}

impl CopyReport {
    /// Returns whether a ref points elsewhere in the target and was left alone.
    pub fn diverged(&self) -> bool {
        self.refs.iter().any(|at| matches!(at.status, CopyStatus::Diverged { .. }))
    }
}

/// Bytes of blobs and commits that are read for one write, about.
const WRITE_BYTES: usize = 8 << 20;
/// Commits in one write at most.
const WRITE_COMMITS: usize = 256;
/// Refs in one write at most.
const WRITE_REFS: usize = 512;

/// Copies what refs lead to, into another repository.
///
/// # Behavior
/// - Objects go before refs: at every moment the target holds only what is whole. What an earlier
///   copy brought is found by its id and not read again, so copying again continues one that was
///   cut short.
/// - Every commit is hashed when read, and changes only what its operation may change.
/// - A branch is made when it is absent, forwarded when the new head descends from its own, else
///   left alone and said to be diverged; tags and documents are made, never moved. `HEAD` follows
///   when the target's names a branch without commits, else it stays.
/// - The log of the target contains the moves here; the source's log stays behind.
/// - What was erased in the source is erased in the target first, and what was erased in the target
///   is not brought back.
///
/// # Errors
/// [`Error::UnknownBranch`] or [`Error::UnknownRevision`] when a chosen ref does not exist; [`Error::Damaged`] when something
/// that the refs lead to is damaged or missing; [`Error::KeptMoving`] when others keep moving refs
/// of the target: copying again continues.
pub async fn copy(from: &Repo, to: &Repo, options: &CopyOptions) -> Result<CopyReport> {
    let (store, name) = (from.store().as_ref(), from.name());
    let mut refs = store.list_refs(name, "").await?;
    if let Some(chosen) = &options.refs {
        refs.retain(|(name, _)| chosen.contains(name));
        if let Some(absent) = chosen.iter().find(|name| refs.iter().all(|(n, _)| n != *name)) {
            return Err(match absent.branch_name() {
                Some(branch) => from.unknown_branch(branch).await?,
                None => {
                    Error::UnknownRevision { text: absent.as_str().to_owned(), nearest: Vec::new() }
                }
            });
        }
    }
    // They go first, and all of them.
    refs.retain(|(name, _)| name.erased_blob().is_none());
    let mut reach = CommitGraph::default();
    for (_, target) in &refs {
        if let RefTarget::Commit(id) = target {
            reach.add(store, name, *id).await?;
        }
    }
    if let Some(found) = reach.damage.iter().find(|damage| !damage.derived) {
        return Err(Error::Damaged { object: found.object, what: found.what.clone() });
    }
    let order = reach.parents_first();
    let mut report = CopyReport { commits: order.len(), ..CopyReport::default() };
    let mut carrier = ObjectCopier {
        from,
        to,
        operation: match to.operation() {
            Some(operation) => operation.clone(),
            None => Operation::begin()?,
        },
        times: HashMap::new(),
        erased: HashMap::new(),
    };
    report.erased = carrier.erasures().await?;
    // Small to begin with, since the size of the messages is not known yet.
    let (mut done, mut take) = (0, 8);
    let mut races = to.races();
    while let Some(ids) = order.get(done..).filter(|rest| !rest.is_empty()) {
        let ids = ids.get(..take).unwrap_or(ids);
        let (reused, bytes) = match carrier.carry(ids).await {
            Ok(carried) => carried,
            // No ref leads to what was carried so far, and it was collected as garbage.
            Err(Error::Store(error))
                if matches!(
                    error.kind,
                    tract_core::StoreErrorKind::Missing { .. }
                        | tract_core::StoreErrorKind::Erased { .. }
                ) =>
            {
                races.lose().await?;
                report.erased += carrier.erasures().await?;
                (done, report.reused) = (0, 0);
                continue;
            }
            Err(error) => return Err(error),
        };
        report.reused += reused;
        done += ids.len();
        take = match bytes {
            bytes if bytes > WRITE_BYTES => (take / 2).max(1),
            bytes if bytes < WRITE_BYTES / 4 => (take * 2).min(WRITE_COMMITS),
            _ => take,
        };
        if let Some(progress) = &options.progress {
            progress(CopyProgress { commits_done: done, commits: order.len() });
        }
    }
    // A part has no HEAD of its own: the first of its branches is where to begin, unless one of
    // them is where the target begins. So it comes after them.
    let begin =
        refs.iter().find(|(name, _)| options.refs.is_some() && name.branch_name().is_some());
    let begin = begin.map(|(branch, _)| (RefName::head(), RefTarget::Ref(branch.clone())));
    for group in refs.chunks(WRITE_REFS).chain(begin.as_slice().chunks(1)) {
        let statuses = carrier.point(group).await?;
        for ((name, target), status) in group.iter().zip(statuses) {
            // What is short has no rows to lack.
            if let (RefTarget::Commit(head), CopyStatus::Created | CopyStatus::Forwarded) =
                (target, &status)
                && report.commits as u64 >= to.turn_rows_every()
            {
                crate::turns::catch_up(to, *head).await;
            }
            report.refs.push(CopiedRef { name: name.clone(), to: target.clone(), status });
        }
    }
    if report.erased > 0 {
        let wiped = crate::erase::finish_erasures(to).await;
        report.not_wiped = wiped.err().map(|error| error.to_string());
    }
    Ok(report)
}

/// Carries objects from one repository to the other.
struct ObjectCopier<'a> {
    from: &'a Repo,
    to: &'a Repo,
    operation: Operation,
    /// When the commits count as made that do not say so: what follows them asks for it.
    times: HashMap<CommitId, i64>,
    /// What is erased here or there, with the document that the target has of it.
    erased: HashMap<BlobId, RefTarget>,
}

impl ObjectCopier<'_> {
    fn batch(&self) -> Result<Batch> {
        let id = self.operation.next_batch()?;
        let note = LogNote {
            operation: self.operation.id(),
            what: "copy".to_owned(),
            who: self.to.who().to_owned(),
            why: None,
            undoes: None,
            at: self.to.now_us(),
        };
        Ok(Batch::new(id, note))
    }

    /// Carries what was erased: the target deletes its bytes of it, and none are brought to it.
    async fn erasures(&mut self) -> Result<usize> {
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
            return Err(StoreError::new(kind, backend, "copy", message).into());
        }
        for chunk in new.chunks(WRITE_REFS) {
            let mut batch = self.batch()?;
            batch.blobs =
                self.blobs(chunk.iter().filter_map(|(_, target)| target.blob()).collect()).await?;
            for (id, target) in chunk {
                let (name, to) = (RefName::erasure(*id), Some(target.clone()));
                batch.refs.push(RefEdit { name, expect: Expect::Any, to });
            }
            match self.to.store().apply(self.to.name(), batch).await? {
                Applied::Done | Applied::Already => self.erased.extend(chunk.iter().cloned()),
                Applied::Conflict(conflict) => return Err(conflict.into()),
            }
        }
        if !new.is_empty() {
            self.to.compiler().forget();
        }
        Ok(new.len())
    }

    /// Brings commits with all that they link to; their other links are there already, or among
    /// them. Returns how many were there already, and the bytes read.
    async fn carry(&mut self, ids: &[CommitId]) -> Result<(usize, usize)> {
        let there = self.to.store().commits(self.to.name(), ids).await?;
        let there: HashSet<CommitId> = there.iter().flatten().map(Commit::id).collect();
        let missing: Vec<CommitId> = ids.iter().filter(|id| !there.contains(id)).copied().collect();
        if missing.is_empty() {
            return Ok((there.len(), 0));
        }
        let found = self.from.store().commits(self.from.name(), &missing).await?;
        let mut commits = Vec::with_capacity(missing.len());
        for (id, commit) in missing.iter().zip(found) {
            commits.push(commit.ok_or(Error::Missing(ObjectId::Commit(*id)))?);
        }
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
        for commit in &commits {
            let changes = match &commit.changes {
                Changes::List(list) => list.clone(),
                Changes::Blob(id) => {
                    let blob = batch.blobs.iter().find(|blob| blob.id() == *id);
                    let blob = blob.ok_or(Error::Missing(ObjectId::Blob(*id)))?;
                    Changes::from_blob(blob.bytes())?
                }
            };
            shaped(self.from, commit, &changes).await?;
        }
        batch.tools = self.tool_rows(&commits, &batch).await?;
        let bytes = batch.blobs.iter().map(|blob| blob.bytes().len()).sum::<usize>()
            + commits.iter().map(|commit| commit.encode().len()).sum::<usize>();
        batch.commits = commits;
        match self.to.store().apply(self.to.name(), batch).await? {
            Applied::Done | Applied::Already => Ok((there.len(), bytes)),
            Applied::Conflict(conflict) => Err(conflict.into()),
        }
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
    async fn blobs(&self, ids: Vec<BlobId>) -> Result<Vec<Blob>> {
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
                    let found = damage(
                        ObjectId::Blob(entry.schema),
                        format!("it is no schema of tool {}", entry.tool),
                    );
                    return Err(Error::Damaged { object: found.object, what: found.what });
                };
                rows.push(ToolRow {
                    id: schema.id(),
                    name: schema.name().to_owned(),
                    schema: entry.schema,
                    commit: commit.id(),
                    created_at: at,
                });
            }
        }
        Ok(rows)
    }

    /// Makes refs in the target, or moves them forward, in one write; says what became of each.
    async fn point(&self, refs: &[(RefName, RefTarget)]) -> Result<Vec<CopyStatus>> {
        let names: Vec<RefName> = refs.iter().map(|(name, _)| name.clone()).collect();
        let mut races = self.to.races();
        loop {
            let found = self.to.store().refs(self.to.name(), &names).await?;
            let mut batch = self.batch()?;
            let mut documents = Vec::new();
            let mut statuses = Vec::with_capacity(refs.len());
            for ((name, to), at) in refs.iter().zip(found) {
                let status = self.status(name, to, at.as_ref()).await?;
                if let CopyStatus::Created | CopyStatus::Forwarded = status {
                    documents.extend(to.blob());
                    let expect = at.map_or(Expect::Absent, Expect::Is);
                    batch.refs.push(RefEdit { name: name.clone(), expect, to: Some(to.clone()) });
                }
                statuses.push(status);
            }
            if batch.refs.is_empty() {
                return Ok(statuses);
            }
            batch.blobs = self.blobs(documents).await?;
            batch.require_targets();
            let (id, moves) = (batch.id, batch.refs.len());
            let (store, name) = (self.to.store().as_ref(), self.to.name());
            match store.apply(name, batch).await? {
                Applied::Done | Applied::Already => {
                    self.operation.recorded(store, name, id, moves).await;
                    tell(self.to, id).await;
                    return Ok(statuses);
                }
                // Another writer moved one of them: it may have diverged, the others have not.
                Applied::Conflict(_) => races.lose().await?,
            }
        }
    }

    /// Decides what becomes of a ref that points to `at` in the target.
    async fn status(
        &self,
        name: &RefName,
        to: &RefTarget,
        at: Option<&RefTarget>,
    ) -> Result<CopyStatus> {
        Ok(match (at, to) {
            (None, _) => CopyStatus::Created,
            (Some(at), to) if at == to => CopyStatus::Unchanged,
            // A branch without commits: its place is free to be another's.
            (Some(RefTarget::Ref(at)), RefTarget::Ref(_))
                if self.to.head_of(at).await?.is_none() =>
            {
                CopyStatus::Forwarded
            }
            (Some(RefTarget::Commit(at)), RefTarget::Commit(to))
                if name.branch_name().is_some() && descends(self.to, *to, *at).await? =>
            {
                CopyStatus::Forwarded
            }
            // Which branch the target begins on is its own choice.
            (Some(RefTarget::Ref(_)), RefTarget::Ref(_)) => CopyStatus::Unchanged,
            (Some(found), _) => CopyStatus::Diverged { found: found.clone() },
        })
    }
}
