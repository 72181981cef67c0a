//! The border between tract and the stores that keep its bytes.
//!
//! A store keeps objects by hash and moves refs by compare-and-swap; it knows nothing of
//! messages. There are three levels at which one can be written: `KvEngine` of `tract-kv` (a few
//! functions over ordered keys), [`BlockingStore`] behind [`ThreadedStore`], or [`Store`] itself.

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

/// A place in a store. Only the store that gave it can read it, and it says nothing about order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocationHint(pub u64);

/// A blob to read: its id and, if a walk gave one, a hint to its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobKey {
    /// The id.
    pub id: BlobId,
    /// Hint to its place. A wrong hint only makes the read slower, since every read is hashed.
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
    /// Makes a query from a commit to the root, with pages of 4,096 commits.
    pub fn from(head: CommitId) -> Self {
        Self { head, until: None, limit: 4096, stop_at: None }
    }
}

/// One commit of a walk.
#[derive(Clone, Debug)]
pub struct WalkEntry {
    /// The commit.
    pub commit: Commit,
    /// Hint to the place of its content.
    pub content: Option<LocationHint>,
}

/// One page of a walk: commits along first parents, newest first.
#[derive(Clone, Debug, Default)]
pub struct WalkPage {
    /// The commits.
    pub steps: Vec<WalkEntry>,
    /// The commit and derived row at which the walk stopped.
    pub stopped: Option<(CommitId, Bytes)>,
    /// The first commit of the next page; `None` at the end of the walk.
    pub next: Option<CommitId>,
}

/// A query of the ref log; the answer is newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Only moves of this ref.
    pub name: Option<RefName>,
    /// Only moves of this batch.
    pub batch: Option<BatchId>,
    /// Only moves of batches with this id prefix. The batches of one command share it (see
    /// [`OperationId::batch_prefix`](crate::OperationId::batch_prefix)), so its moves are found in
    /// time proportional to their number, not to the length of the log.
    pub batch_prefix: Option<[u8; 8]>,
    /// Only moves with a lower number.
    pub before: Option<u64>,
    /// Maximum number of moves; 0 means all.
    pub limit: usize,
}

/// Optional capabilities of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// An acknowledged write survives the end of the process and of the machine's power.
    pub durable: bool,
    /// Several processes may use the same store at once.
    pub multi_process: bool,
    /// Data survives closing and opening again.
    pub persistent: bool,
    /// It can list and delete objects that nothing needs.
    pub collects_garbage: bool,
    /// A ref under `erasures/` deletes the blob that it names, and keeps it from being stored again.
    pub erases: bool,
    /// Blobs can be written again, smaller.
    pub repacks: bool,
    /// Damaged and missing objects can be replaced by sound copies.
    pub restores: bool,
}

impl Capabilities {
    /// A store that forgets when it is dropped.
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

    /// The same store, which can also collect garbage.
    #[must_use]
    pub const fn collecting(self) -> Self {
        Self { collects_garbage: true, ..self }
    }

    /// The same store, which can also erase.
    #[must_use]
    pub const fn erasing(self) -> Self {
        Self { erases: true, ..self }
    }

    /// The same store, which can also replace damaged objects.
    #[must_use]
    pub const fn restoring(self) -> Self {
        Self { restores: true, ..self }
    }

    /// The same store, which can also repack, if `repacks`.
    #[must_use]
    pub const fn repacking(self, repacks: bool) -> Self {
        Self { repacks, ..self }
    }
}

/// Counts and sizes of one repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Commits.
    pub commits: u64,
    /// Blobs.
    pub blobs: u64,
    /// Bytes of blobs as they are stored: compressed ones take less than they hold.
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
    /// Derived rows of all kinds, the tool index apart.
    pub derived: u64,
    /// Bytes in derived rows.
    pub derived_bytes: u64,
    /// Bytes that the whole store takes on disk, all repositories together; 0 in memory.
    pub disk_bytes: u64,
}

/// Damage that the store's own check found: in its engine, indexes, places or log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The damaged object, if it is one.
    pub object: Option<ObjectId>,
    /// What is wrong.
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
    /// - Gives one answer per key, in order; `None` for what is not stored.
    /// - The same id twice gives the same answer twice.
    /// - Reads any number of ids in one call.
    ///
    /// # Errors
    /// `Corrupt` naming the object when stored bytes do not hash to their id.
    async fn blobs(&self, repo: &RepoName, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>>;

    /// Reads toolsets.
    ///
    /// # Behavior
    /// - Gives one answer per id, in order; `None` for what is not stored.
    /// - A toolset keeps order and repeats; the empty one is a toolset.
    ///
    /// # Errors
    /// `Corrupt` naming the object when stored bytes do not hash to their id.
    async fn toolsets(
        &self,
        repo: &RepoName,
        ids: &[ToolsetId],
    ) -> StoreResult<Vec<Option<Toolset>>>;

    /// Finds the objects whose id begins with these digits: commits, blobs, toolsets and tools.
    ///
    /// # Behavior
    /// - Gives at most `limit` ids, sorted: commits, then blobs, toolsets and tools, so that no
    ///   number of other objects hides a commit. Finds nothing of other repositories.
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
    /// - Gives one answer per id, in order; `None` for what is not stored.
    /// - A commit is complete: all that its record says is there.
    ///
    /// # Errors
    /// `Corrupt` naming the object when stored bytes do not hash to their id.
    async fn commits(&self, repo: &RepoName, ids: &[CommitId]) -> StoreResult<Vec<Option<Commit>>>;

    /// Walks first parents, newest first.
    ///
    /// # Behavior
    /// - Equals following `parents[0]` one by one, regardless of the places that the store
    ///   assigned.
    /// - Ends at the root, before `until`, before a commit with a `stop_at` row, or after `limit`
    ///   commits, and then says where to continue. Of a head that is `until`, none is read.
    /// - Pages join without gap or repeat while others write.
    ///
    /// # Errors
    /// `Missing` when `head` or a parent is not stored; `Corrupt` when a record is damaged.
    async fn walk(&self, repo: &RepoName, walk: Walk) -> StoreResult<WalkPage>;
}

/// Reads the tool index.
#[async_trait]
pub trait ToolRepository: ObjectRepository + CommitRepository {
    /// Reads definitions from the tool index.
    ///
    /// # Behavior
    /// - Gives one answer per id, in order; `None` for a tool never seen.
    async fn tools(
        &self,
        repo: &RepoName,
        ids: &[ToolId],
    ) -> StoreResult<Vec<Option<ToolDefinition>>>;

    /// Reads all versions of a name.
    ///
    /// # Behavior
    /// - Orders them by the time of the first commit that has them, then by that commit's id.
    async fn tools_by_name(&self, repo: &RepoName, name: &str) -> StoreResult<Vec<ToolDefinition>>;

    /// Lists the names in the tool index, sorted, each once.
    async fn tool_names(&self, repo: &RepoName) -> StoreResult<Vec<String>>;

    /// Reads the identities of the tools in force after a commit.
    ///
    /// # Behavior
    /// - Keeps order and repeats; empty when the commit has no toolset or an empty one.
    ///
    /// # Errors
    /// `Missing` when the commit or its toolset is not stored.
    async fn tool_ids_of(&self, repo: &RepoName, commit: CommitId) -> StoreResult<Vec<ToolId>> {
        Ok(toolset_of(self, repo, commit)
            .await?
            .iter()
            .flat_map(|set| set.entries())
            .map(|entry| entry.tool)
            .collect())
    }

    /// Reads the schemas of the tools in force after a commit, as they were given to it.
    ///
    /// # Behavior
    /// - Keeps order and repeats; the bytes are those given to that commit.
    ///
    /// # Errors
    /// `Missing` when the commit, its toolset or a schema is not stored.
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
    /// - Gives one answer per name, in order; `None` for what does not exist.
    /// - A symbolic ref is given as it is, not followed.
    async fn refs(&self, repo: &RepoName, names: &[RefName])
    -> StoreResult<Vec<Option<RefTarget>>>;

    /// Lists the refs whose name begins with `prefix`, sorted by name.
    async fn list_refs(
        &self,
        repo: &RepoName,
        prefix: &str,
    ) -> StoreResult<Vec<(RefName, RefTarget)>>;

    /// Reads the ref log, newest first.
    ///
    /// # Behavior
    /// - Replaying all entries from the oldest, from no refs at all, gives the refs.
    /// - A write that moved nothing logged nothing.
    /// - A query by batch or by its prefix reads an index, not the whole log.
    async fn ref_log(&self, repo: &RepoName, query: &LogQuery) -> StoreResult<Vec<LogEntry>>;
}

/// Reads derived rows.
#[async_trait]
pub trait DerivedRepository: Send + Sync {
    /// Reads the derived rows of a kind.
    ///
    /// # Behavior
    /// - Gives one answer per commit, in order; `None` where there is none.
    async fn derived(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
        commits: &[CommitId],
    ) -> StoreResult<Vec<Option<Bytes>>>;

    /// Lists the commits that have a derived row of a kind, each once, in any order; `None` from a
    /// store that would have to look at every commit for that. A row that is damaged may be listed
    /// or not.
    async fn derived_commits(
        &self,
        _repo: &RepoName,
        _kind: DerivedKind,
    ) -> StoreResult<Option<Vec<CommitId>>> {
        Ok(None)
    }

    /// Deletes all derived rows of the repository, the tool index and the places apart.
    async fn drop_derived(&self, repo: &RepoName) -> StoreResult<()>;
}

/// A store: keeps the objects of many repositories by hash, and moves their refs.
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

    /// Returns what the store can do.
    fn capabilities(&self) -> Capabilities;

    /// Writes a batch: all of it, or nothing.
    ///
    /// # Behavior
    /// - Checks in order: whether the batch's id is in the ref log (`Already`), every `expect`,
    ///   that everything required is stored or in the batch; then writes what is not yet stored,
    ///   moves the refs and logs the moves.
    /// - An edit whose value is already there succeeds regardless of what it expects, and logs
    ///   nothing.
    /// - Of racing batches with one expectation and different values exactly one is `Done`.
    /// - A batch that is refused leaves no trace.
    /// - Writing what is stored already changes nothing.
    /// - When the answer is `Done`, the write is as durable as [`Capabilities::durable`] says.
    /// - An edit that makes `erasures/<blob>` deletes that blob in the same write, where the store
    ///   can erase ([`Capabilities::erases`]). While that ref exists, a batch that brings the blob is
    ///   refused with `Erased`, and so is one that requires it or has a new commit or toolset that
    ///   links to it. A batch that names the erasure itself may link to the blob; one that deletes
    ///   the ref may bring it.
    ///
    /// # Errors
    /// `Missing` when something required or linked to ([`Batch::links`]) is neither stored nor in the
    /// batch: a commit's parent, content, verbatim, changes, keeps or toolset, a toolset's schema, the
    /// commit of a tool row or a derived row; `Invalid` for two edits of one ref, and for a ref that
    /// would point where its kind may not: a store calls [`Batch::check_refs`] before anything else.
    async fn apply(&self, repo: &RepoName, batch: Batch) -> StoreResult<Applied>;

    /// Lists the repositories, sorted by name.
    async fn repos(&self) -> StoreResult<Vec<RepoName>>;

    /// Counts the objects and bytes of a repository.
    async fn stats(&self, repo: &RepoName) -> StoreResult<StoreStats>;

    /// Checks what only the store can: its engine's file, places against parents, the tool index,
    /// checksums of the ref log. With `repair`, rebuilds what is derived.
    async fn check(&self, repo: &RepoName, repair: bool) -> StoreResult<Vec<Damage>>;

    /// Puts sound copies of objects in the place of those that a repository lacks or holds damaged.
    ///
    /// # Behavior
    /// - Returns the objects that were written. One that reads whole stays as it is, and is not among
    ///   them.
    /// - A blob that was erased is left out.
    /// - What the objects link to need not be stored: it may be damaged as well, and be restored later.
    /// - When something was written, this counts as a write that stores objects which its own ref moves
    ///   do not reach.
    /// - Where a restored commit lies may be new to derived data; [`check`](Self::check) with repair
    ///   brings that up to date.
    ///
    /// # Errors
    /// `Unsupported` when the store cannot replace objects.
    async fn restore(&self, _repo: &RepoName, _copies: ObjectCopies) -> StoreResult<Vec<ObjectId>> {
        Err(restore::unsupported(self.backend()))
    }

    /// Lists stored objects, in an order in which no page repeats or leaves out an object that is
    /// stored before the first page and not swept before the last.
    ///
    /// # Errors
    /// `Unsupported` when the store cannot collect garbage.
    async fn list_objects(
        &self,
        _repo: &RepoName,
        _listing: ObjectListing,
    ) -> StoreResult<ObjectPage> {
        Err(sweep::unsupported(self.backend(), "list_objects"))
    }

    /// Reads how far the writes of a repository have come.
    ///
    /// # Behavior
    /// - Every write that stores an object or moves a ref changes it; nothing else does.
    /// - A write that stores objects which its own ref moves do not reach raises the second count,
    ///   whether it moves a ref or not ([`Batch::stores_ahead`]).
    ///
    /// # Errors
    /// `Unsupported` when the store cannot collect garbage.
    async fn write_position(&self, _repo: &RepoName) -> StoreResult<WritePosition> {
        Err(sweep::unsupported(self.backend(), "write_position"))
    }

    /// Deletes objects of a repository, all of them or none, if its position is still the given
    /// one.
    ///
    /// # Behavior
    /// - Answers `Moved` with the position, and deletes nothing, when others wrote meanwhile.
    /// - What is deleted is not stored: reads give `None`, a batch that needs it is refused with
    ///   `Missing` by every handle and process, also by one that remembers it, and storing it again works.
    /// - Derived rows of deleted commits go with them.
    /// - The ref log stays as it is, also where it names what is deleted.
    /// - Other objects and other repositories stay as they are.
    /// - When the answer is `Done`, the deletion is as durable as a write.
    ///
    /// # Errors
    /// `Unsupported` when the store cannot collect garbage.
    async fn sweep(&self, _repo: &RepoName, _sweep: Sweep) -> StoreResult<SweepAnswer> {
        Err(sweep::unsupported(self.backend(), "sweep"))
    }

    /// Returns unused space to the file system, in steps short enough for concurrent writers.
    ///
    /// # Errors
    /// `Unsupported` when the store cannot collect garbage.
    async fn release_space(&self) -> StoreResult<SpaceRelease> {
        Err(sweep::unsupported(self.backend(), "release_space"))
    }

    /// Makes bytes that were deleted unrecoverable in the files of the store, as far as the engine
    /// can, and says where they may remain. Does no harm when nothing was deleted.
    ///
    /// # Errors
    /// `Unsupported` when the store cannot erase; `Busy` when others use the store, and then it has
    /// to be done again; `ReadOnly` when this user may not, and then the message says what who may
    /// does.
    async fn wipe(&self) -> StoreResult<WipeReport> {
        Err(erase::unsupported(self.backend(), "wipe"))
    }

    /// Does one step of a repack, which writes the blobs of a repository again so that they take less
    /// room: compressed with a dictionary that was trained on them.
    ///
    /// # Behavior
    /// - Objects, refs and the ref log read the same before, between and after the steps.
    /// - Others may write between the steps, also to the same blobs.
    /// - A repack that was cut short leaves a sound store, and can begin again.
    /// - After an erasure, [`wipe`](Self::wipe) also removes every dictionary that was trained before it.
    ///
    /// # Errors
    /// `Unsupported` when the store cannot repack.
    async fn repack(&self, _repo: &RepoName, _step: RepackStep) -> StoreResult<RepackPage> {
        Err(repack::unsupported(self.backend()))
    }

    /// Flushes pending work and releases files and locks; later calls fail.
    async fn close(&self) -> StoreResult<()> {
        Ok(())
    }
}
