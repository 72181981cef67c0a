//! The second level: plain functions that block, wrapped by [`ThreadedStore`](super::ThreadedStore).

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

/// Returns the batches that may join a transaction in progress; empty when none are queued or no
/// more fit.
pub type JoinBatches<'a> = dyn FnMut() -> Vec<(RepoName, Batch)> + 'a;

/// A store whose calls block. Reads may come from several threads at once; a group of writes
/// comes from one thread at a time.
///
/// Each method promises what the method of the same name of [`Store`](super::Store) does.
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

    /// Writes a group of batches in one durable transaction, in order: later ones see what
    /// earlier ones wrote. Gives one answer per batch; a batch that is refused leaves no trace
    /// and does not keep its neighbors from going through.
    ///
    /// No answer may be given before the transaction is durable. When making it durable fails,
    /// every answer is an error, and the store is poisoned.
    fn apply_group(&self, group: &[(RepoName, Batch)]) -> Vec<StoreResult<Applied>>;

    /// Does what [`apply_group`](Self::apply_group) does, for a group that grows: `joining` gives
    /// what was queued since, as much of it as one transaction may still hold. Its answers follow
    /// those of `group`, one per batch in the order in which they joined. A store that does not ask
    /// leaves the others to the next transaction.
    fn apply_joined(
        &self,
        group: &[(RepoName, Batch)],
        _joining: &mut JoinBatches<'_>,
    ) -> Vec<StoreResult<Applied>> {
        self.apply_group(group)
    }

    /// While it runs, no group is written through the same handle.
    fn restore(&self, _repo: &RepoName, _copies: &ObjectCopies) -> StoreResult<Vec<ObjectId>> {
        Err(super::restore::unsupported(self.backend()))
    }
    fn list_objects(&self, _repo: &RepoName, _listing: ObjectListing) -> StoreResult<ObjectPage> {
        Err(unsupported(self.backend(), "list_objects"))
    }
    fn write_position(&self, _repo: &RepoName) -> StoreResult<WritePosition> {
        Err(unsupported(self.backend(), "write_position"))
    }
    /// While it runs, no group is written through the same handle.
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
