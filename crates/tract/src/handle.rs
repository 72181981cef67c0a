//! The handle: a repository and a branch.

use std::sync::Arc;

use tract_core::{Commit, CommitId, RefName, Store};
use tract_engine::{NamedMessage, Repo};

use crate::error::{Error, Result};
use crate::revision::{NamedRevision, Revision};

/// A handle on a repository and one of its branches; [`open`](crate::open) returns one.
///
/// The verbs are methods of the handle. The repository's own data is reached through
/// [`branches`](Self::branches), [`tags`](Self::tags), [`tools`](Self::tools),
/// [`turns`](Self::turns) and [`pending`](Self::pending), and with the feature `tools` also through
/// `pins`; everything else through [`repo`](Self::repo) and the functions of
/// [`engine`](crate::engine).
///
/// The branch of a handle never changes; [`fork`](Self::fork) and [`on`](Self::on) return another
/// handle. Handles are cheap to clone, and every verb takes `&self`, so that tasks can share one.
#[derive(Clone, Debug)]
pub struct Tract {
    repo: Repo,
    branch: RefName,
}

impl Tract {
    pub(crate) fn new(repo: Repo, branch: RefName) -> Self {
        Self { repo, branch }
    }

    pub(crate) fn at(&self, branch: RefName) -> Self {
        Self { repo: self.repo.clone(), branch }
    }

    /// Returns the repository, for functions of the engine.
    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.repo.store()
    }

    /// Returns the ref of this handle's branch, for functions of the engine.
    pub fn branch(&self) -> &RefName {
        &self.branch
    }

    /// Returns the name of this handle's branch.
    pub fn branch_name(&self) -> &str {
        self.branch.branch_name().unwrap_or(self.branch.as_str())
    }

    /// Returns the head of this handle's branch; `None` before the first commit.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn head(&self) -> Result<Option<CommitId>> {
        Ok(self.repo.head_of(&self.branch).await?)
    }

    /// Finds the commit of a revision. In text, `HEAD` is this handle's branch.
    ///
    /// # Errors
    /// [`Error::UnknownRevision`] with similar names, or with the matches of an ambiguous prefix;
    /// [`Error::NoCommits`] with the other branches, if this handle's branch has no commits yet and
    /// the revision starts there.
    pub async fn resolve(&self, revision: impl Into<Revision>) -> Result<CommitId> {
        match revision.into().0 {
            NamedRevision::Id(id) => Ok(id),
            NamedRevision::Text(text) => {
                let text = self.own_head(text);
                let found = self.repo.resolve(&text).await;
                self.or_no_commits(&text, found).await
            }
        }
    }

    /// Finds the position in a history of a revision. As [`resolve`](Self::resolve), but `#20` is
    /// the commit that added or merged the 20th message, regardless of later edits.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub async fn resolve_position(&self, revision: impl Into<Revision>) -> Result<CommitId> {
        match revision.into().0 {
            NamedRevision::Id(id) => Ok(id),
            NamedRevision::Text(text) => {
                let text = self.own_head(text);
                let found = self.repo.resolve_position(&text).await;
                self.or_no_commits(&text, found).await
            }
        }
    }

    /// Finds the message of a revision that ends in `#20`; `None` for any other revision.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub async fn resolve_message(
        &self,
        revision: impl Into<Revision>,
    ) -> Result<Option<NamedMessage>> {
        match revision.into().0 {
            NamedRevision::Id(_) => Ok(None),
            NamedRevision::Text(text) => {
                let text = self.own_head(text);
                let found = self.repo.resolve_message(&text).await;
                self.or_no_commits(&text, found).await
            }
        }
    }

    /// Replaces the error of a revision that starts at this handle's branch by
    /// [`Error::NoCommits`], if the branch has no commits yet.
    async fn or_no_commits<T>(
        &self,
        text: &str,
        found: Result<T, tract_engine::Error>,
    ) -> Result<T> {
        let error = match found {
            Ok(found) => return Ok(found),
            Err(error) => error,
        };
        let base = text.trim().split(['~', '#', '@']).next().unwrap_or_default();
        let is_own = base.is_empty() || base == self.branch_name();
        if !is_own || self.head().await?.is_some() {
            return Err(error.into());
        }
        let branches = self.branches().newest_first().await?;
        let others = branches.into_iter().map(|branch| branch.name).collect();
        Err(Error::NoCommits { branch: self.branch_name().to_owned(), others })
    }

    /// Replaces `HEAD` by this handle's branch, because the stored `HEAD` may be another one.
    fn own_head(&self, text: String) -> String {
        match text.strip_prefix("HEAD") {
            Some(rest) if rest.is_empty() || rest.starts_with(['~', '#', '@']) => {
                format!("{}{rest}", self.branch_name())
            }
            _ => text,
        }
    }

    /// Reads a commit.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), and if the commit is not stored.
    pub async fn show(&self, revision: impl Into<Revision>) -> Result<Commit> {
        let id = self.resolve(revision).await?;
        Ok(self.repo.require_commit(id).await?)
    }
}
