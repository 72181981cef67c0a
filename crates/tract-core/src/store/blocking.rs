//! The second level of a store: blocking functions, wrapped by
//! [`ThreadedStore`](super::ThreadedStore).

use std::fmt;

use bytes::Bytes;

use super::sweep::unsupported;
use super::{
    BlobKey, Capabilities, Damage, LogQuery, ObjectCopies, ObjectListing, ObjectPage, RepackPage,
    RepackStep, SpaceRelease, StoreResult, StoreStats, Sweep, SweepAnswer, Walk, WalkPage,
    WipeReport, WritePosition,
};
use crate::batch::{Applied, Batch, DerivedKind};
use crate::commit::Commit;
use crate::id::{CommitId, RepoName, ToolId, ToolsetId};
use crate::object::{Blob, IdPrefix, ObjectId, ToolDefinition, Toolset};
use crate::refs::{LogEntry, RefName, RefTarget};

/// Returns queued batches that join a transaction in progress; empty if none are queued or no more
/// fit.
pub type JoinBatches<'a> = dyn FnMut() -> Vec<(RepoName, Batch)> + 'a;

/// A store with blocking calls. Reads may run on several threads at once; only one thread at a time
/// writes a group.
///
/// Each method has the contract of the method of the same name in [`Store`](super::Store).
#[allow(missing_docs, reason = "each method promises what its namesake of `Store` does")]
pub trait BlockingStore: fmt::Debug + Send + Sync + 'static {
    fn backend(&self) -> &'static str;
    fn capabilities(&self) -> Capabilities;
    fn blobs(&self, repo: &RepoName, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>>;
    fn toolsets(&self, repo: &RepoName, ids: &[ToolsetId]) -> StoreResult<Vec<Option<Toolset>>>;
    fn resolve_prefix(
        &self,
        repo: &RepoName,
        prefix: &IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>>;
    fn commits(&self, repo: &RepoName, ids: &[CommitId]) -> StoreResult<Vec<Option<Commit>>>;
    fn walk(&self, repo: &RepoName, walk: Walk) -> StoreResult<WalkPage>;
    fn tools(&self, repo: &RepoName, ids: &[ToolId]) -> StoreResult<Vec<Option<ToolDefinition>>>;
    fn tools_by_name(&self, repo: &RepoName, name: &str) -> StoreResult<Vec<ToolDefinition>>;
    fn tool_names(&self, repo: &RepoName) -> StoreResult<Vec<String>>;
    fn refs(&self, repo: &RepoName, names: &[RefName]) -> StoreResult<Vec<Option<RefTarget>>>;
    fn list_refs(&self, repo: &RepoName, prefix: &str) -> StoreResult<Vec<(RefName, RefTarget)>>;
    fn ref_log(&self, repo: &RepoName, query: &LogQuery) -> StoreResult<Vec<LogEntry>>;
    fn derived(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
        commits: &[CommitId],
    ) -> StoreResult<Vec<Option<Bytes>>>;
    fn derived_commits(
        &self,
        _repo: &RepoName,
        _kind: DerivedKind,
    ) -> StoreResult<Option<Vec<CommitId>>> {
        Ok(None)
    }
    fn drop_derived(&self, repo: &RepoName) -> StoreResult<()>;
    fn repos(&self) -> StoreResult<Vec<RepoName>>;
    fn stats(&self, repo: &RepoName) -> StoreResult<StoreStats>;
    fn check(&self, repo: &RepoName, repair: bool) -> StoreResult<Vec<Damage>>;

    /// Writes a group of batches in one durable transaction, in order: later ones see the writes of
    /// earlier ones. Returns one result per batch. A rejected batch leaves no trace, and does not
    /// affect the others.
    ///
    /// It must not return before the transaction is durable. If the flush fails, every result is an
    /// error, and the store is poisoned.
    fn apply_group(&self, group: &[(RepoName, Batch)]) -> Vec<StoreResult<Applied>>;

    /// As [`apply_group`](Self::apply_group), for a group that grows: `joining` returns the batches
    /// queued since, up to the size limit of one transaction. Their results follow those of
    /// `group`, one per batch in the order in which they joined. If a store does not call it,
    /// queued batches wait for the next transaction.
    fn apply_joined(
        &self,
        group: &[(RepoName, Batch)],
        _joining: &mut JoinBatches<'_>,
    ) -> Vec<StoreResult<Applied>> {
        self.apply_group(group)
    }

    /// No group is written through the same handle while this runs.
    fn restore(&self, _repo: &RepoName, _copies: &ObjectCopies) -> StoreResult<Vec<ObjectId>> {
        Err(super::restore::unsupported(self.backend()))
    }
    fn list_objects(&self, _repo: &RepoName, _listing: ObjectListing) -> StoreResult<ObjectPage> {
        Err(unsupported(self.backend(), "list_objects"))
    }
    fn write_position(&self, _repo: &RepoName) -> StoreResult<WritePosition> {
        Err(unsupported(self.backend(), "write_position"))
    }
    /// No group is written through the same handle while this runs.
    fn sweep(&self, _repo: &RepoName, _sweep: &Sweep) -> StoreResult<SweepAnswer> {
        Err(unsupported(self.backend(), "sweep"))
    }
    fn release_space(&self) -> StoreResult<SpaceRelease> {
        Err(unsupported(self.backend(), "release_space"))
    }
    fn wipe(&self) -> StoreResult<WipeReport> {
        Err(super::erase::unsupported(self.backend(), "wipe"))
    }
    fn repack(&self, _repo: &RepoName, _step: RepackStep) -> StoreResult<RepackPage> {
        Err(super::repack::unsupported(self.backend()))
    }

    /// Flushes pending work and releases files and locks; later calls fail.
    fn close(&self) -> StoreResult<()> {
        Ok(())
    }
}
