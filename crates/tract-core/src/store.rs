//! The traits that a store implements.
//!
//! A store keeps objects by hash and moves refs by compare-and-swap; it does not interpret
//! messages. It can be written at one of three levels: `KvEngine` of `tract-kv` (a few functions
//! over ordered keys), [`BlockingStore`] behind [`ThreadedStore`], or [`Store`] itself.

mod access;
mod blocking;
mod erase;
mod error;
mod ext;
mod in_force;
mod leftovers;
mod opened_file;
mod pointers;
mod repack;
mod restore;
mod sweep;
mod threaded;

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

pub use self::access::{Ownership, copy_access};
pub use self::blocking::{BlockingStore, JoinBatches};
pub(crate) use self::erase::NEWEST as NEWEST_ERASURE;
pub use self::erase::WipeReport;
pub use self::error::{StoreError, StoreErrorKind, StoreResult};
pub use self::ext::StoreExt;
pub use self::in_force::{SeenCommit, ToolChanges, ToolsInForce};
pub use self::leftovers::{
    create_unfinished, damaged_log_path, format_copy_path, remove_copies, remove_unfinished,
    remove_unfinished_names, require_space, unfinished_copy_path, unfinished_path,
};
pub use self::opened_file::{OpenedFile, adjacent_path, resolve_path};
pub use self::repack::{RepackPage, RepackStep};
pub use self::restore::ObjectCopies;
pub use self::sweep::{
    ListKind, ObjectListing, ObjectPage, SpaceRelease, Sweep, SweepAnswer, WritePosition,
};
pub use self::threaded::{ThreadedStore, WriteMode, off_thread, oneshot};
use crate::batch::{Applied, Batch, DerivedKind};
use crate::commit::Commit;
use crate::id::{BatchId, BlobId, CommitId, RepoName, ToolId, ToolsetId};
use crate::object::{Blob, IdPrefix, ObjectId, ToolDefinition, Toolset};
use crate::refs::{LogEntry, RefName, RefTarget};

/// The location of an object in a store. Opaque to all other stores, and unordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocationHint(pub u64);

/// A blob to read: its id and, if a walk returned one, a hint to its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobKey {
    /// The id.
    pub id: BlobId,
    /// Hint to its location. A wrong hint makes the read slower but never wrong, since every read
    /// is hashed.
    pub hint: Option<LocationHint>,
}

impl From<BlobId> for BlobKey {
    fn from(id: BlobId) -> Self {
        Self { id, hint: None }
    }
}

/// A query for a walk along first parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The first commit of the result.
    pub head: CommitId,
    /// The commit to stop before.
    pub until: Option<CommitId>,
    /// Maximum number of commits; at least 1.
    pub limit: usize,
    /// Stop before the first commit that has a derived row of this kind, and return that row.
    pub stop_at: Option<DerivedKind>,
}

impl Walk {
    /// Creates a query from a commit to the root, with pages of 4,096 commits.
    pub fn from(head: CommitId) -> Self {
        Self { head, until: None, limit: 4096, stop_at: None }
    }
}

/// One commit of a walk.
#[derive(Clone, Debug)]
pub struct WalkEntry {
    /// The commit.
    pub commit: Commit,
    /// Hint to the location of its content.
    pub content: Option<LocationHint>,
}

/// One page of a walk: commits along first parents, newest first.
#[derive(Clone, Debug, Default)]
pub struct WalkPage {
    /// The commits.
    pub entries: Vec<WalkEntry>,
    /// The commit and derived row at which the walk stopped.
    pub stopped: Option<(CommitId, Bytes)>,
    /// The first commit of the next page; `None` at the end of the walk.
    pub next: Option<CommitId>,
}

/// A query of the ref log. Results are newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Only moves of this ref.
    pub name: Option<RefName>,
    /// Only moves of this batch.
    pub batch: Option<BatchId>,
    /// Only moves of batches with this id prefix. The batches of one command share it (see
    /// [`OperationId::batch_prefix`](crate::OperationId::batch_prefix)), so the time to find its
    /// moves is proportional to their number, and not to the length of the log.
    pub batch_prefix: Option<[u8; 8]>,
    /// Only moves with a lower sequence number.
    pub before: Option<u64>,
    /// Maximum number of moves; 0 is unlimited.
    pub limit: usize,
}

/// Optional capabilities of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// An acknowledged write survives a crash of the process and a power failure.
    pub durable: bool,
    /// Several processes may use the same store at once.
    pub multi_process: bool,
    /// Data survives closing and reopening.
    pub persistent: bool,
    /// The store can list objects and delete unreachable ones.
    pub collects_garbage: bool,
    /// A ref under `erasures/` deletes the blob in its name, and prevents it from being stored
    /// again.
    pub erases: bool,
    /// Blobs can be rewritten in a smaller form.
    pub repacks: bool,
    /// Damaged and missing objects can be replaced by intact copies.
    pub restores: bool,
}

impl Capabilities {
    /// A store that is lost when it is dropped.
    pub const IN_MEMORY: Self = Self {
        durable: false,
        multi_process: false,
        persistent: false,
        collects_garbage: false,
        erases: false,
        repacks: false,
        restores: false,
    };
    /// A store on disk for one process.
    pub const ONE_PROCESS: Self = Self { durable: true, persistent: true, ..Self::IN_MEMORY };
    /// A store on disk or on a server, for several processes.
    pub const MANY_PROCESSES: Self = Self { multi_process: true, ..Self::ONE_PROCESS };

    /// Adds the capability to collect garbage.
    #[must_use]
    pub const fn collecting(self) -> Self {
        Self { collects_garbage: true, ..self }
    }

    /// Adds the capability to erase.
    #[must_use]
    pub const fn erasing(self) -> Self {
        Self { erases: true, ..self }
    }

    /// Adds the capability to replace damaged objects.
    #[must_use]
    pub const fn restoring(self) -> Self {
        Self { restores: true, ..self }
    }

    /// Sets the capability to repack.
    #[must_use]
    pub const fn repacking(self, repacks: bool) -> Self {
        Self { repacks, ..self }
    }
}

/// Counts and sizes of one repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Commits.
    pub commits: u64,
    /// Blobs.
    pub blobs: u64,
    /// Bytes of blobs as stored, after compression.
    pub blob_bytes: u64,
    /// Bytes in commit records.
    pub commit_bytes: u64,
    /// Toolsets.
    pub toolsets: u64,
    /// Tool definitions.
    pub tools: u64,
    /// Refs.
    pub refs: u64,
    /// Entries of the ref log.
    pub log_entries: u64,
    /// Derived rows of all kinds, without the tool index.
    pub derived: u64,
    /// Bytes in derived rows.
    pub derived_bytes: u64,
    /// Bytes of the whole store on disk, including all repositories; 0 in memory.
    pub disk_bytes: u64,
}

/// Damage found by the store's own check: in its engine, indexes, locations or log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The damaged object, if it is one.
    pub object: Option<ObjectId>,
    /// The defect.
    pub what: String,
    /// Whether only derived data is damaged, which can be rebuilt.
    pub derived: bool,
}

/// Reads blobs and toolsets.
#[async_trait]
pub trait ObjectRepository: Send + Sync {
    /// Reads blobs.
    ///
    /// # Behavior
    /// - Returns one result per key, in order; `None` for a blob that is not stored.
    /// - A repeated id is returned each time.
    /// - Accepts any number of ids in one call.
    ///
    /// # Errors
    /// `Corrupt`, with the object, if stored bytes do not hash to their id.
    async fn blobs(&self, repo: &RepoName, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>>;

    /// Reads toolsets.
    ///
    /// # Behavior
    /// - Returns one result per id, in order; `None` for a toolset that is not stored.
    /// - Keeps order and repeats of a toolset; the empty toolset is valid.
    ///
    /// # Errors
    /// `Corrupt`, with the object, if stored bytes do not hash to their id.
    async fn toolsets(
        &self,
        repo: &RepoName,
        ids: &[ToolsetId],
    ) -> StoreResult<Vec<Option<Toolset>>>;

    /// Finds the objects whose id starts with these digits: commits, blobs, toolsets and tools.
    ///
    /// # Behavior
    /// - Returns at most `limit` ids, sorted: commits, then blobs, toolsets and tools, so that
    ///   other objects never hide a commit. Searches this repository only.
    async fn resolve_prefix(
        &self,
        repo: &RepoName,
        prefix: &IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>>;
}

/// Reads commits.
#[async_trait]
pub trait CommitRepository: Send + Sync {
    /// Reads commits.
    ///
    /// # Behavior
    /// - Returns one result per id, in order; `None` for a commit that is not stored.
    /// - A commit that is returned is complete: the objects in its record are stored.
    ///
    /// # Errors
    /// `Corrupt`, with the object, if stored bytes do not hash to their id.
    async fn commits(&self, repo: &RepoName, ids: &[CommitId]) -> StoreResult<Vec<Option<Commit>>>;

    /// Walks first parents, newest first.
    ///
    /// # Behavior
    /// - Equals following `parents[0]` step by step, regardless of the locations that the store
    ///   assigned.
    /// - Ends at the root, before `until`, before a commit with a `stop_at` row, or after `limit`
    ///   commits, and then returns where to continue. If `head` is `until`, the page is empty.
    /// - Pages neither overlap nor have gaps, even if others write in between.
    ///
    /// # Errors
    /// `Missing` if `head` or a parent is not stored; `Corrupt` if a record is damaged.
    async fn walk(&self, repo: &RepoName, walk: Walk) -> StoreResult<WalkPage>;
}

/// Reads the tool index.
#[async_trait]
pub trait ToolRepository: ObjectRepository + CommitRepository {
    /// Reads definitions from the tool index.
    ///
    /// # Behavior
    /// - Returns one result per id, in order; `None` for an unknown tool.
    async fn tools(
        &self,
        repo: &RepoName,
        ids: &[ToolId],
    ) -> StoreResult<Vec<Option<ToolDefinition>>>;

    /// Reads all definitions with this name.
    ///
    /// # Behavior
    /// - Sorted by the time of the first commit with the definition in force, then by that commit's
    ///   id.
    async fn tools_by_name(&self, repo: &RepoName, name: &str) -> StoreResult<Vec<ToolDefinition>>;

    /// Lists the distinct names in the tool index, sorted.
    async fn tool_names(&self, repo: &RepoName) -> StoreResult<Vec<String>>;

    /// Reads the ids of the tools in force after a commit.
    ///
    /// # Behavior
    /// - Keeps order and repeats; empty if the commit lacks a toolset, or has an empty one.
    ///
    /// # Errors
    /// `Missing` if the commit or its toolset is not stored.
    async fn tool_ids_of(&self, repo: &RepoName, commit: CommitId) -> StoreResult<Vec<ToolId>> {
        Ok(toolset_of(self, repo, commit)
            .await?
            .iter()
            .flat_map(|set| set.entries())
            .map(|entry| entry.tool)
            .collect())
    }

    /// Reads the schemas of the tools in force after a commit, as given to that commit.
    ///
    /// # Behavior
    /// - Keeps order and repeats, and the exact bytes given to that commit.
    ///
    /// # Errors
    /// `Missing` if the commit, its toolset or a schema is not stored.
    async fn tools_of(&self, repo: &RepoName, commit: CommitId) -> StoreResult<Vec<Blob>> {
        let Some(toolset) = toolset_of(self, repo, commit).await? else { return Ok(Vec::new()) };
        let keys: Vec<BlobKey> =
            toolset.entries().iter().map(|entry| entry.schema.into()).collect();
        let blobs = self.blobs(repo, &keys).await?;
        let missing =
            |key: &BlobKey| StoreError::missing("store", "tools_of", ObjectId::Blob(key.id));
        keys.iter().zip(blobs).map(|(key, blob)| blob.ok_or_else(|| missing(key))).collect()
    }
}

async fn toolset_of<R: ToolRepository + ?Sized>(
    repository: &R,
    repo: &RepoName,
    commit: CommitId,
) -> StoreResult<Option<Toolset>> {
    let missing = |object| StoreError::missing("store", "tools_of", object);
    let found = repository.commits(repo, &[commit]).await?.into_iter().flatten().next();
    let Some(found) = found else { return Err(missing(ObjectId::Commit(commit))) };
    let Some(id) = found.toolset else { return Ok(None) };
    let toolset = repository.toolsets(repo, &[id]).await?.into_iter().flatten().next();
    toolset.map(Some).ok_or_else(|| missing(ObjectId::Toolset(id)))
}

/// Reads refs and their log.
#[async_trait]
pub trait RefRepository: Send + Sync {
    /// Reads refs.
    ///
    /// # Behavior
    /// - Returns one result per name, in order; `None` for a ref that does not exist.
    /// - Does not follow a symbolic ref.
    async fn refs(&self, repo: &RepoName, names: &[RefName])
    -> StoreResult<Vec<Option<RefTarget>>>;

    /// Lists the refs whose name starts with `prefix`, sorted by name.
    async fn list_refs(
        &self,
        repo: &RepoName,
        prefix: &str,
    ) -> StoreResult<Vec<(RefName, RefTarget)>>;

    /// Reads the ref log, newest first.
    ///
    /// # Behavior
    /// - Replaying all entries from the oldest, starting without refs, yields the current refs.
    /// - A write that moved no ref is not logged.
    /// - A query by batch or by its prefix uses an index and does not scan the log.
    async fn ref_log(&self, repo: &RepoName, query: &LogQuery) -> StoreResult<Vec<LogEntry>>;
}

/// Reads derived rows.
#[async_trait]
pub trait DerivedRepository: Send + Sync {
    /// Reads the derived rows of a kind.
    ///
    /// # Behavior
    /// - Returns one result per commit, in order; `None` for a commit without such a row.
    async fn derived(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
        commits: &[CommitId],
    ) -> StoreResult<Vec<Option<Bytes>>>;

    /// Lists the commits with a derived row of a kind, each once, in any order; `None` from a store
    /// that would have to scan all commits. A damaged row may be listed or not.
    async fn derived_commits(
        &self,
        _repo: &RepoName,
        _kind: DerivedKind,
    ) -> StoreResult<Option<Vec<CommitId>>> {
        Ok(None)
    }

    /// Deletes all derived rows of the repository, except for the tool index and the locations.
    async fn drop_derived(&self, repo: &RepoName) -> StoreResult<()>;
}

/// A store, which keeps the objects of any number of repositories by hash, and moves their refs.
#[async_trait]
pub trait Store:
    ObjectRepository
    + CommitRepository
    + ToolRepository
    + RefRepository
    + DerivedRepository
    + fmt::Debug
    + 'static
{
    /// Returns the engine's name, such as `sqlite`.
    fn backend(&self) -> &'static str;

    /// Returns the capabilities of the store.
    fn capabilities(&self) -> Capabilities;

    /// Writes a batch atomically.
    ///
    /// # Behavior
    /// - Checks, in this order, whether the batch's id is in the ref log (`Already`), whether the
    ///   position that it requires is the current one (`Moved`), every `expect`, and whether
    ///   everything required is stored or in the batch. Then writes the objects that are not stored
    ///   yet, moves the refs and logs the moves.
    /// - The position is compared atomically with the write, and includes earlier batches of the
    ///   same group. Only a store that collects garbage has positions.
    /// - An edit to the current value succeeds regardless of its `expect`, and is not logged.
    /// - Of concurrent batches with the same expectation and different values exactly one is
    ///   `Done`.
    /// - A rejected batch leaves no trace.
    /// - Writing an object that is stored already changes nothing.
    /// - When the result is `Done`, the write has the durability of [`Capabilities::durable`].
    /// - An edit that creates `erasures/<blob>` deletes that blob in the same write, if the store
    ///   can erase ([`Capabilities::erases`]). While that ref exists, a batch is rejected with
    ///   `Erased` if it contains the blob, requires it, or has a new commit or toolset that links
    ///   to it. A batch with an edit of the erasure itself may link to the blob; one that deletes
    ///   the ref may contain it.
    ///
    /// # Errors
    /// `Missing` if something required or linked to ([`Batch::links`]) is neither stored nor in the
    /// batch: a commit's parent, content, verbatim, changes, keeps or toolset, a toolset's schema,
    /// or the commit of a tool row or a derived row. `Invalid` for two edits of one ref, and for a
    /// target that is not valid for its kind of ref: a store calls [`Batch::check_refs`] first.
    async fn apply(&self, repo: &RepoName, batch: Batch) -> StoreResult<Applied>;

    /// Lists the repositories, sorted by name.
    async fn repos(&self) -> StoreResult<Vec<RepoName>>;

    /// Counts the objects and bytes of a repository.
    async fn stats(&self, repo: &RepoName) -> StoreResult<StoreStats>;

    /// Runs the checks that only the store can do: its engine's file, locations against parents,
    /// the tool index, checksums of the ref log. With `repair`, rebuilds derived data.
    async fn check(&self, repo: &RepoName, repair: bool) -> StoreResult<Vec<Damage>>;

    /// Stores intact copies of objects that are missing or damaged in a repository.
    ///
    /// # Behavior
    /// - Returns the objects that were written. An intact object is not written, and not returned.
    /// - Erased blobs are skipped.
    /// - The objects that a copy links to need not be stored: they may be damaged too, and be
    ///   restored later.
    /// - If something was written, this counts as a write with objects that its own ref moves do
    ///   not reach.
    /// - Derived data may not contain the location of a restored commit; [`check`](Self::check)
    ///   with repair updates it.
    ///
    /// # Errors
    /// `Unsupported` if the store cannot replace objects.
    async fn restore(&self, _repo: &RepoName, _copies: ObjectCopies) -> StoreResult<Vec<ObjectId>> {
        Err(restore::unsupported(self.backend()))
    }

    /// Lists stored objects. Every object that is stored before the first page and not swept before
    /// the last is listed exactly once.
    ///
    /// # Errors
    /// `Unsupported` if the store cannot collect garbage.
    async fn list_objects(
        &self,
        _repo: &RepoName,
        _listing: ObjectListing,
    ) -> StoreResult<ObjectPage> {
        Err(sweep::unsupported(self.backend(), "list_objects"))
    }

    /// Reads the position of the writes of a repository.
    ///
    /// # Behavior
    /// - Every write that stores an object or moves a ref changes it; no other call does.
    /// - A write that stores objects not reached by its own ref moves increases the second count,
    ///   whether it moves a ref or not ([`Batch::stores_ahead`]).
    ///
    /// # Errors
    /// `Unsupported` if the store cannot collect garbage.
    async fn write_position(&self, _repo: &RepoName) -> StoreResult<WritePosition> {
        Err(sweep::unsupported(self.backend(), "write_position"))
    }

    /// Deletes objects of a repository, all of them or none, if its position is still the one in
    /// `sweep`.
    ///
    /// # Behavior
    /// - Returns `Moved` with the new position, and deletes nothing, if others wrote in between.
    /// - Deleted objects are not stored any longer: reads return `None`. Every handle and process
    ///   rejects a batch that needs one with `Missing`, even if it has the object cached. Storing
    ///   it again works.
    /// - Derived rows of deleted commits are deleted too.
    /// - The ref log is unchanged, even where it contains ids of deleted objects.
    /// - Other objects and other repositories are unchanged.
    /// - When the result is `Done`, the deletion is as durable as a write.
    ///
    /// # Errors
    /// `Unsupported` if the store cannot collect garbage.
    async fn sweep(&self, _repo: &RepoName, _sweep: Sweep) -> StoreResult<SweepAnswer> {
        Err(sweep::unsupported(self.backend(), "sweep"))
    }

    /// Returns unused space to the file system, in steps short enough for concurrent writers.
    ///
    /// # Errors
    /// `Unsupported` if the store cannot collect garbage.
    async fn release_space(&self) -> StoreResult<SpaceRelease> {
        Err(sweep::unsupported(self.backend(), "release_space"))
    }

    /// Makes deleted bytes unrecoverable in the files of the store, as far as the engine can, and
    /// reports where they may remain. Harmless if nothing was deleted.
    ///
    /// # Errors
    /// `Unsupported` if the store cannot erase; `Busy` if others use the store, in which case it
    /// has to be repeated; `ReadOnly` if this user lacks the permission, with instructions for one
    /// who has it.
    async fn wipe(&self) -> StoreResult<WipeReport> {
        Err(erase::unsupported(self.backend(), "wipe"))
    }

    /// Does one step of a repack, which rewrites the blobs of a repository in less space:
    /// compressed with a dictionary that was trained on them.
    ///
    /// # Behavior
    /// - Objects, refs and the ref log read the same before, between and after the steps.
    /// - Others may write between the steps, even the same blobs.
    /// - An interrupted repack leaves an intact store, and can be started again.
    /// - After an erasure, [`wipe`](Self::wipe) also deletes every dictionary that was trained
    ///   before it.
    ///
    /// # Errors
    /// `Unsupported` if the store cannot repack.
    async fn repack(&self, _repo: &RepoName, _step: RepackStep) -> StoreResult<RepackPage> {
        Err(repack::unsupported(self.backend()))
    }

    /// Flushes pending work and releases files and locks; later calls fail.
    async fn close(&self) -> StoreResult<()> {
        Ok(())
    }
}
