//! Which branch a handle is on, and handles on others.

use tract_core::{CommitId, RefName};
use tract_engine::plan::MergeConflict;
use tract_engine::{Branch, DescribedConflict, MergeOptions, Merged};

use crate::error::Result;
use crate::handle::Tract;
use crate::revision::Revision;

impl Tract {
    /// Returns a handle on another branch; it need not exist yet: the first commit makes it.
    ///
    /// # Errors
    /// [`Error::BadName`](crate::Error::BadName) when the name breaks a rule.
    pub fn on(&self, branch: &str) -> Result<Self> {
        Ok(self.at(RefName::branch(branch)?))
    }

    /// Makes a branch that begins at a revision, and returns a handle on it: one ref write,
    /// nothing is copied. This handle stays where it is.
    ///
    /// # Errors
    /// `exists` when there is one of this name; as [`resolve`](Self::resolve).
    pub async fn fork(&self, name: &str, from: impl Into<Revision>) -> Result<Self> {
        self.branch(name, from).await?;
        self.on(name)
    }

    /// Makes a branch that begins at a revision; returns the commit.
    ///
    /// # Errors
    /// As [`fork`](Self::fork).
    pub async fn branch(&self, name: &str, from: impl Into<Revision>) -> Result<CommitId> {
        let from = self.resolve(from).await?;
        self.repo().create_branch(name, from).await?;
        Ok(from)
    }

    /// Lists the branches with their heads, sorted by name.
    ///
    /// # Errors
    /// What the store says.
    pub async fn branches(&self) -> Result<Vec<Branch>> {
        Ok(self.repo().branches().await?)
    }

    /// Deletes a branch; its commits stay. Returns its last head.
    ///
    /// # Errors
    /// `unknown_branch`, or `checked_out` when `HEAD` points to it.
    pub async fn delete_branch(&self, name: &str) -> Result<CommitId> {
        Ok(self.repo().delete_branch(name).await?)
    }

    /// Points the stored `HEAD` to a branch, and returns a handle on it. Other handles stay
    /// where they are.
    ///
    /// # Errors
    /// `unknown_branch` with the name that is like it.
    pub async fn checkout(&self, name: &str) -> Result<Self> {
        let branch = self.repo().checkout(name).await?;
        Ok(self.at(branch))
    }

    /// Names a commit for good; returns it.
    ///
    /// # Errors
    /// `exists` when there is a tag of this name; as [`resolve`](Self::resolve).
    pub async fn tag(&self, name: &str, revision: impl Into<Revision>) -> Result<CommitId> {
        let id = self.resolve(revision).await?;
        self.repo().create_tag(name, id).await?;
        Ok(id)
    }

    /// Lists the tags with their commits, sorted by name.
    ///
    /// # Errors
    /// What the store says.
    pub async fn tags(&self) -> Result<Vec<(String, CommitId)>> {
        Ok(self.repo().tags().await?)
    }

    /// Brings what a revision has into this handle's branch.
    ///
    /// # Errors
    /// `merge_conflicts` naming what both sides changed; nothing is written then.
    pub async fn merge(&self, from: impl Into<Revision>) -> Result<Merged> {
        self.merge_with(from, &MergeOptions::new()).await
    }

    /// Brings what a revision has into this handle's branch.
    ///
    /// # Errors
    /// As [`merge`](Self::merge).
    pub async fn merge_with(
        &self,
        from: impl Into<Revision>,
        options: &MergeOptions,
    ) -> Result<Merged> {
        let source = self.resolve(from).await?;
        Ok(self.repo().merge(self.branch_ref(), source, options).await?)
    }

    /// Plans a merge into this handle's branch and writes nothing. No hook is asked.
    ///
    /// # Errors
    /// As [`merge`](Self::merge).
    pub async fn preview_merge(
        &self,
        from: impl Into<Revision>,
        options: &MergeOptions,
    ) -> Result<Merged> {
        let source = self.resolve(from).await?;
        Ok(self.repo().preview_merge(self.branch_ref(), source, options).await?)
    }

    /// Reads what both sides of conflicts have, for people who decide them.
    ///
    /// # Errors
    /// When the revision is unknown, or the store fails.
    pub async fn describe_conflicts(
        &self,
        from: impl Into<Revision>,
        conflicts: &[MergeConflict],
    ) -> Result<Vec<DescribedConflict>> {
        let (ours, theirs) = (self.head().await?, self.resolve(from).await?);
        Ok(self.repo().describe_conflicts(ours, theirs, conflicts).await?)
    }
}
