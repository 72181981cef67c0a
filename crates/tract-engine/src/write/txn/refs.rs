//! The refs of a transaction: as they were read, and where they are moved.

use tract_core::{CommitId, Expect, RefEdit, RefName, RefTarget};

use super::{Txn, WriteOptions};
use crate::plan::BranchTip;
use crate::repo::Repo;
use crate::repo::batch::require_done;
use crate::repo::error::{Error, Result};
use crate::write::hooks::NotWritten;
use crate::write::pending::Document;

/// A ref as it was read, and its new target.
pub(super) struct StagedRef {
    pub(super) found: Option<RefTarget>,
    pub(super) to: Option<RefTarget>,
    /// Whether the ref must be unchanged even if it is not moved.
    pub(super) held: bool,
}

impl Txn<'_> {
    /// Returns whether any ref is moved.
    pub fn moves_refs(&self) -> bool {
        self.refs.values().any(|moved| moved.to != moved.found)
    }

    /// Reads many refs at once and caches them for [`target`](Self::target).
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn look_up(&mut self, names: &[RefName]) -> Result<()> {
        let unknown = names.iter().filter(|name| !self.refs.contains_key(*name));
        let unknown: Vec<RefName> = unknown.cloned().collect();
        let found = self.repo.store().refs(self.repo.name(), &unknown).await?;
        for (name, target) in unknown.iter().zip(found) {
            self.found(name, target);
        }
        Ok(())
    }

    /// Returns the target of a ref, including moves by this transaction.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn target(&mut self, name: &RefName) -> Result<Option<RefTarget>> {
        if let Some(moved) = self.refs.get(name) {
            return Ok(moved.to.clone());
        }
        let found = self.repo.ref_target(name).await?;
        self.found(name, found.clone());
        Ok(found)
    }

    /// Returns the head of a branch, including commits of this transaction.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn head(&mut self, branch: &RefName) -> Result<Option<CommitId>> {
        Ok(self.target(branch).await?.and_then(|target| target.commit()))
    }

    /// Requires a ref to have this target when the write is applied.
    ///
    /// # Errors
    /// [`Error::Conflict`] when it already has another target.
    pub async fn expect(&mut self, name: &RefName, at: Option<RefTarget>) -> Result<()> {
        let found = self.target(name).await?;
        if found == at {
            Ok(())
        } else {
            let expected = at.map_or(Expect::Absent, Expect::Is);
            Err(Error::Conflict { name: name.clone(), expected, found })
        }
    }

    /// Moves, creates or deletes a ref. The write conflicts if it was moved since it was first
    /// read.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn move_ref(&mut self, name: &RefName, to: Option<RefTarget>) -> Result<()> {
        self.target(name).await?;
        if let Some(moved) = self.refs.get_mut(name) {
            moved.to = to;
        }
        Ok(())
    }

    /// Moves a ref whose current target is known to the caller. The write conflicts if it differs.
    pub fn move_from(&mut self, name: &RefName, from: Option<RefTarget>, to: Option<RefTarget>) {
        self.found(name, from).to = to;
    }

    /// Adds a document, which must not exist yet.
    pub(crate) fn add_document(&mut self, document: &Document) -> Result<()> {
        self.replace_document(document, None)
    }

    /// Adds a document in place of the current target of its ref.
    pub(crate) fn replace_document(
        &mut self,
        document: &Document,
        now: Option<RefTarget>,
    ) -> Result<()> {
        self.blob(document.blob.clone())?;
        self.move_from(&document.name, now, Some(document.target()));
        Ok(())
    }

    /// Stores a document in a transaction of its own.
    pub(crate) async fn store_document(repo: &Repo, document: &Document, what: &str) -> Result<()> {
        let mut txn = Txn::new(repo)?;
        txn.add_document(document)?;
        require_done(txn.apply(what, &WriteOptions::default()).await?)
    }

    /// Stores the document of a decision against a request. Returns the error to report.
    pub(crate) async fn store_stopped(repo: &Repo, stopped: NotWritten) -> Error {
        let (document, what, error) = match stopped {
            NotWritten::Rejected(rejected, document) => {
                (document, "reject", Error::Rejected(rejected))
            }
            NotWritten::Deferred(deferred, document) => {
                (document, "defer", Error::Deferred(deferred))
            }
            NotWritten::Failed(error) => return error,
        };
        Self::store_document(repo, &document, what).await.err().unwrap_or(error)
    }

    /// Requires this commit to be stored when the write is applied.
    pub(crate) fn require(&mut self, id: CommitId) {
        self.requires.insert(id);
    }

    /// Requires this ref to have the target `at` when the write is applied. It is not moved, unless
    /// another part of the transaction moves it.
    pub(crate) fn hold(&mut self, name: &RefName, at: Option<RefTarget>) {
        self.found(name, at).held = true;
    }

    /// Assumes that a branch has the tip that this handle left it at. The write conflicts if not.
    pub(crate) fn assume_tip(&mut self, branch: &RefName, tip: BranchTip) {
        self.found(branch, tip.head.map(RefTarget::Commit));
        self.tip = Some(tip);
    }

    pub(super) fn found(&mut self, name: &RefName, found: Option<RefTarget>) -> &mut StagedRef {
        let moved = StagedRef { to: found.clone(), found, held: false };
        self.refs.entry(name.clone()).or_insert_with(|| Box::new(moved))
    }
}

/// Returns the edit that moves a ref from the target it was read with.
pub(crate) fn ref_edit(name: RefName, found: Option<RefTarget>, to: Option<RefTarget>) -> RefEdit {
    RefEdit { name, expect: found.map_or(Expect::Absent, Expect::Is), to }
}
