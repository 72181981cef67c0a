//! Branches and tags.

use tract_core::{CommitId, RefName};
use tract_engine::{Branch, MergeOptions, Merged};

use crate::error::Result;
use crate::handle::Tract;
use crate::revision::Revision;

impl Tract {
    /// Returns the branches of the repository.
    ///
    /// ```
    /// # tract::block_on(async {
    /// let tract = tract::open("memory:").await?;
    /// tract.user("Do I need a coat?").await?;
    /// tract.branches().create("draft", "HEAD").await?;
    /// let names: Vec<_> = tract.branches().list().await?.into_iter().map(|b| b.name).collect();
    /// assert_eq!(names, ["draft", "main"]);
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn branches(&self) -> Branches<'_> {
        Branches { tract: self }
    }

    /// Returns the tags of the repository.
    pub fn tags(&self) -> Tags<'_> {
        Tags { tract: self }
    }

    /// Returns a handle on another branch. It need not exist yet: the first commit creates it.
    ///
    /// # Errors
    /// [`Error::BadName`](crate::Error::BadName) if the name is invalid.
    pub fn on(&self, branch: &str) -> Result<Self> {
        Ok(self.at(RefName::branch(branch)?))
    }

    /// Creates a branch that begins at a revision, and returns a handle on it. This is one ref
    /// write; nothing is copied. This handle keeps its branch.
    ///
    /// # Errors
    /// `exists` if there is a branch of this name; errors of [`resolve`](Self::resolve).
    pub async fn fork(&self, name: &str, from: impl Into<Revision>) -> Result<Self> {
        self.branches().create(name, from).await?;
        self.on(name)
    }

    /// Points the stored `HEAD` to a branch, and returns a handle on it. Other handles keep their
    /// branch.
    ///
    /// # Errors
    /// `unknown_branch` with a similar name.
    pub async fn checkout(&self, name: &str) -> Result<Self> {
        let branch = self.repo().checkout(name).await?;
        Ok(self.at(branch))
    }

    /// Merges a revision into this handle's branch. [`Repo::merge`](tract_engine::Repo::merge)
    /// accepts options.
    ///
    /// # Errors
    /// `merge_conflicts` with the changes on both sides; nothing is written then.
    pub async fn merge(&self, from: impl Into<Revision>) -> Result<Merged> {
        let source = self.resolve_position(from).await?;
        Ok(self.repo().merge(self.branch(), source, &MergeOptions::default()).await?)
    }
}

/// The branches of a repository, returned by [`Tract::branches`].
#[derive(Clone, Copy, Debug)]
pub struct Branches<'a> {
    pub(crate) tract: &'a Tract,
}

impl Branches<'_> {
    /// Lists the branches with their heads, sorted by name.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn list(&self) -> Result<Vec<Branch>> {
        Ok(self.tract.repo().branches().await?)
    }

    /// Lists the branches with their heads, those with the newest commit first. Heads without a
    /// time are last; branches of the same time are sorted by name.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn newest_first(&self) -> Result<Vec<Branch>> {
        let branches = self.list().await?;
        let heads: Vec<CommitId> = branches.iter().map(|branch| branch.head).collect();
        let repo = self.tract.repo();
        let commits = repo.store().commits(repo.name(), &heads).await?;
        let times = commits.into_iter().map(|commit| commit.and_then(|commit| commit.created_at));
        let mut dated: Vec<_> = branches.into_iter().zip(times).collect();
        dated.sort_by_key(|(_, at)| std::cmp::Reverse(*at));
        Ok(dated.into_iter().map(|(branch, _)| branch).collect())
    }

    /// Creates a branch that begins at a revision; returns the commit.
    ///
    /// # Errors
    /// As [`Tract::fork`].
    pub async fn create(&self, name: &str, from: impl Into<Revision>) -> Result<CommitId> {
        let from = self.tract.resolve_position(from).await?;
        self.tract.repo().create_branch(name, from).await?;
        Ok(from)
    }

    /// Renames a branch; returns its head.
    ///
    /// # Errors
    /// `unknown_branch`, or `exists` if there is a branch of the new name.
    pub async fn rename(&self, name: &str, to: &str) -> Result<Option<CommitId>> {
        Ok(self.tract.repo().rename_branch(name, to).await?)
    }

    /// Deletes a branch; its commits are kept. Returns its last head.
    ///
    /// # Errors
    /// `unknown_branch`, or `checked_out` when `HEAD` points to it.
    pub async fn delete(&self, name: &str) -> Result<CommitId> {
        Ok(self.tract.repo().delete_branch(name).await?)
    }
}

/// The tags of a repository, returned by [`Tract::tags`].
#[derive(Clone, Copy, Debug)]
pub struct Tags<'a> {
    tract: &'a Tract,
}

impl Tags<'_> {
    /// Lists the tags with their commits, sorted by name.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn list(&self) -> Result<Vec<(String, CommitId)>> {
        Ok(self.tract.repo().tags().await?)
    }

    /// Creates a tag, which never moves; returns its commit.
    ///
    /// # Errors
    /// `exists` if there is a tag of this name; errors of [`Tract::resolve`].
    pub async fn create(&self, name: &str, revision: impl Into<Revision>) -> Result<CommitId> {
        let id = self.tract.resolve_position(revision).await?;
        self.tract.repo().create_tag(name, id).await?;
        Ok(id)
    }

    /// Deletes all of these tags, or none. Returns their commits.
    ///
    /// # Errors
    /// `unknown_tag` with the missing tag.
    pub async fn delete(&self, names: &[impl AsRef<str>]) -> Result<Vec<CommitId>> {
        Ok(self.tract.repo().delete_tags(names).await?)
    }
}
