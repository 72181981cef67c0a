//! Refs as a write finds them, and as it leaves them.

use tract_core::{CommitId, Expect, RefEdit, RefName, RefTarget};

use super::Txn;
use crate::plan::BranchTip;
use crate::repo::error::{Error, Result};

/// A ref as it was found, and as it shall be.
pub(super) struct StagedRef {
    pub(super) found: Option<RefTarget>,
    pub(super) to: Option<RefTarget>,
    /// Whether it has to be as it was found even where it is not moved.
    pub(super) held: bool,
}

impl Txn<'_> {
    /// Whether some ref will point elsewhere than it was found to.
    pub fn moves_refs(&self) -> bool {
        self.refs.values().any(|moved| moved.to != moved.found)
    }

    /// Reads many refs at once, which are then known to [`target`](Self::target).
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

    /// Returns where a ref points, with what this write does to it.
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

    /// Returns the head of a branch, with what this write adds to it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn head(&mut self, branch: &RefName) -> Result<Option<CommitId>> {
        Ok(self.target(branch).await?.and_then(|target| target.commit()))
    }

    /// Says where a ref must be when this write happens.
    ///
    /// # Errors
    /// [`Error::Conflict`] when it is known to be elsewhere already.
    pub async fn expect(&mut self, name: &RefName, at: Option<RefTarget>) -> Result<()> {
        let found = self.target(name).await?;
        if found == at {
            Ok(())
        } else {
            let expected = at.map_or(Expect::Absent, Expect::Is);
            Err(Error::Conflict { name: name.clone(), expected, found })
        }
    }

    /// Moves, makes or deletes a ref; it must not have moved since this write first looked at it.
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

    /// Moves a ref whose present value is known from elsewhere, and must still hold.
    pub fn move_from(&mut self, name: &RefName, from: Option<RefTarget>, to: Option<RefTarget>) {
        self.found(name, from).to = to;
    }

    /// Refuses the write when this commit is not stored.
    pub(crate) fn require(&mut self, id: CommitId) {
        self.requires.insert(id);
    }

    /// Refuses the write when this ref is not as it was read. It is not moved, unless something
    /// else of this write moves it.
    pub(crate) fn hold(&mut self, name: &RefName, at: Option<RefTarget>) {
        self.found(name, at).held = true;
    }

    /// Takes a branch to be where this handle left it: the write is refused when it is not.
    pub(crate) fn assume_tip(&mut self, branch: &RefName, tip: BranchTip) {
        self.found(branch, tip.head.map(RefTarget::Commit));
        self.tip = Some(tip);
    }

    pub(super) fn found(&mut self, name: &RefName, found: Option<RefTarget>) -> &mut StagedRef {
        let moved = StagedRef { to: found.clone(), found, held: false };
        self.refs.entry(name.clone()).or_insert_with(|| Box::new(moved))
    }
}

/// Makes the edit that moves a ref from where it was found.
pub(crate) fn ref_edit(name: RefName, found: Option<RefTarget>, to: Option<RefTarget>) -> RefEdit {
    RefEdit { name, expect: found.map_or(Expect::Absent, Expect::Is), to }
}
