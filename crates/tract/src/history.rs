//! Log, undo, verification, streams.

use std::collections::BTreeMap;

use tract_core::store::WipeReport;
use tract_core::stream::StreamOp;
use tract_core::{BlobId, Commit, CommitId};
use tract_engine::{
    EraseReport, EraseRequest, Erasure, GcOptions, GcReport, OnRepack, PruneOptions, PruneReport,
    RepackReport, UndoReport, VerifyOptions, VerifyReport,
};

use crate::error::{Error, Result};
use crate::handle::Tract;
use crate::hooks::Hooks;
use crate::revision::Revision;

impl Tract {
    /// Reverts the last operation on this handle's branch, including all other refs that it moved:
    /// refs move back, commits are kept. The next undo continues from there. A `chat`, a run of an
    /// agent, an import and a stream are one operation each; [`one_operation`](Self::one_operation)
    /// combines any writes. Effects of tools and decisions about pending approvals are not undone.
    ///
    /// # Errors
    /// `nothing_to_undo`; `conflict` with the ref that another operation has moved since. Nothing
    /// moves then.
    pub async fn undo(&self) -> Result<UndoReport> {
        Ok(self.repo().undo(self.branch()).await?)
    }

    /// Reverts the last undo.
    ///
    /// # Errors
    /// As [`undo`](Self::undo). After another operation there is nothing to redo.
    pub async fn redo(&self) -> Result<UndoReport> {
        Ok(self.repo().redo(self.branch()).await?)
    }

    /// Returns a handle whose writes are one operation, so that one [`undo`](Self::undo) reverts
    /// all of them. This handle is unchanged.
    ///
    /// ```
    /// # tract::block_on(async {
    /// let tract = tract::open("memory:").await?;
    /// let import = tract.one_operation()?;
    /// import.user("one").await?;
    /// import.user("two").await?;
    /// tract.undo().await?;
    /// assert_eq!(tract.head().await?, None);
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the operating system cannot provide randomness.
    pub fn one_operation(&self) -> Result<Self> {
        let repo = self.repo().within(tract_engine::Operation::begin()?);
        Ok(Self::new(repo, self.branch().clone()))
    }

    /// Reads the history of a commit, newest first. [`engine::LogPages`](crate::engine::LogPages)
    /// reads page by page, and can follow all parents.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), and errors of the store.
    pub async fn log(&self, head: impl Into<Revision>, limit: usize) -> Result<Vec<Commit>> {
        let head = self.resolve_position(head).await?;
        Ok(tract_engine::log(self.repo(), head, limit).await?.commits)
    }

    /// Verifies all hashes and links. [`engine::verify`](crate::engine::verify) accepts options.
    ///
    /// # Errors
    /// If the store fails, except for damage of a single object.
    pub async fn verify(&self) -> Result<VerifyReport> {
        Ok(tract_engine::verify(self.repo(), &VerifyOptions::default()).await?)
    }

    /// Deletes unreachable objects of the repository, and returns the space to the
    /// file system: see [`gc`](tract_engine::gc).
    ///
    /// ```
    /// # tract::block_on(async {
    /// use std::time::Duration;
    /// use tract::engine::GcOptions;
    /// let tract = tract::open("memory:").await?;
    /// tract.user("Never mind").await?;
    /// tract.undo().await?;
    /// let kept = tract.gc(&GcOptions::default()).await?;
    /// assert_eq!(kept.deleted().objects, 0, "undo may need it for 30 days");
    /// let gone = tract.gc(&GcOptions { keep: Duration::ZERO, ..GcOptions::default() }).await?;
    /// assert_eq!(gone.deleted().objects, 2, "the commit and its text");
    /// # Ok::<(), tract::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `unsupported` if the store cannot collect garbage; `corrupt` if a needed object is damaged.
    /// Nothing is deleted then.
    pub async fn gc(&self, options: &GcOptions) -> Result<GcReport> {
        Ok(tract_engine::gc(self.repo(), options).await?)
    }

    /// Rewrites the objects of the repository in less space: see [`repack`](tract_engine::repack).
    ///
    /// # Errors
    /// `unsupported` if the store does not compress its objects.
    pub async fn repack(&self, progress: Option<&OnRepack>) -> Result<RepackReport> {
        Ok(tract_engine::repack(self.repo(), progress).await?)
    }

    /// Deletes branches with an old head, in one write that undo reverts: see
    /// [`prune`](tract_engine::prune). Their commits are kept until [`gc`](Self::gc).
    ///
    /// ```
    /// # tract::block_on(async {
    /// use std::time::Duration;
    /// use tract::engine::PruneOptions;
    /// let tract = tract::open("memory:").await?;
    /// let first = tract.user("Hi").await?;
    /// tract.branches().create("draft", first.id()).await?;
    /// let options = PruneOptions::new(Duration::from_secs(90 * 24 * 60 * 60));
    /// assert_eq!(tract.prune(&options).await?.branches, [], "it is younger");
    /// # Ok::<(), tract::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `conflict` if refs keep moving; nothing is deleted then.
    pub async fn prune(&self, options: &PruneOptions) -> Result<PruneReport> {
        Ok(tract_engine::prune(self.repo(), options).await?)
    }

    /// Erases or redacts: permanently deletes the bytes of messages, and edits the messages that
    /// contain them.
    ///
    /// ```
    /// # tract::block_on(async {
    /// use tract::engine::{EraseRequest, EraseTarget};
    /// let tract = tract::open("memory:").await?;
    /// let leaked = tract.user("the door code is 4711-0815-2342").await?;
    /// tract.user("Thanks").await?;
    /// let request = EraseRequest::targets(vec![EraseTarget::Commit(leaked.id())], "leaked code");
    /// let report = tract.erase(&request).await?;
    /// assert_eq!((report.blobs.len(), report.edits), (1, 1));
    /// let compiled = tract.compile().await?;
    /// let first = compiled.messages().next().expect("a message stays");
    /// assert_eq!(first.content.text(), "[erased: leaked code]");
    /// let older = tract.repo().compile(Some(leaked.id())).await;
    /// assert_eq!(older.expect_err("the bytes are gone").code(), "erased");
    /// # Ok::<(), tract::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `unsupported` if the store cannot erase; `bad_erase` if a target cannot be erased.
    pub async fn erase(&self, request: &EraseRequest) -> Result<EraseReport> {
        Ok(tract_engine::erase(self.repo(), request).await?)
    }

    /// Lists erased blobs.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn erasures(&self) -> Result<BTreeMap<BlobId, Erasure>> {
        Ok(tract_engine::erasures(self.repo()).await?)
    }

    /// Lists erasures received from other stores that wait for confirmation, by blob.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn pending_erasures(&self) -> Result<BTreeMap<BlobId, Erasure>> {
        Ok(tract_engine::pending_erasures(self.repo()).await?)
    }

    /// Allows banned bytes to be stored again, or discards a pending erasure. Returns whether there
    /// was either.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn lift_erasure(&self, blob: BlobId) -> Result<bool> {
        Ok(tract_engine::lift_erasure(self.repo(), blob).await?)
    }

    /// Wipes the files of the store once more, as after a crash during an erasure.
    ///
    /// # Errors
    /// `unsupported` if the store cannot erase; `busy` if others use it; `read_only` if this user
    /// may not wipe it, with a message for its owner.
    pub async fn finish_erasures(&self) -> Result<WipeReport> {
        Ok(tract_engine::finish_erasures(self.repo()).await?)
    }

    /// Applies a stream atomically, in one durable write. Revisions in it may be marks of earlier
    /// operations.
    ///
    /// ```
    /// # tract::block_on(async {
    /// use tract::core::stream::StreamOp;
    /// let tract = tract::open("memory:").await?;
    /// let lines = [r#"{"op":"user","text":"Hi","mark":"q"}"#, r#"{"op":"edit","target":":q","text":"Hello"}"#];
    /// let steps: Vec<StreamOp> = lines.iter().map(|line| StreamOp::parse(line)).collect::<Result<_, _>>()?;
    /// let made = tract.apply(&steps).await?;
    /// assert_eq!(made.len(), 2);
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// The error of the first rejected operation; nothing is written then.
    pub async fn apply(&self, steps: &[StreamOp]) -> Result<Vec<Option<CommitId>>> {
        let applied = tract_engine::apply_all(self.repo(), self.branch(), steps).await?;
        applied.map_err(|(line, error)| Error::Line { line, error: Box::new(error) })
    }

    /// Returns a handle whose writes are checked by these handlers first. This handle is unchanged.
    #[must_use]
    pub fn with_hooks(&self, hooks: Hooks) -> Self {
        Self::new(self.repo().with_hooks(hooks), self.branch().clone())
    }
}
