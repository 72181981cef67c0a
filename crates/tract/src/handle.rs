//! The handle: a repository and a branch.

use std::sync::Arc;

use tract_core::{Commit, CommitId, RefName, Store};
use tract_engine::{NamedMessage, Repo};

use crate::error::Result;
use crate::revision::{NamedRevision, Revision};

/// A handle on a repository and one of its branches; [`open`](crate::open) returns one.
///
/// The verbs are methods of the handle. What belongs to the repository is reached through
/// [`branches`](Self::branches), [`tags`](Self::tags), [`tools`](Self::tools),
/// [`turns`](Self::turns) and [`pending`](Self::pending), with the feature `tools` also `pins`;
/// everything else through [`repo`](Self::repo) and the functions of
/// [`engine`](crate::engine).
///
/// A handle keeps its branch as long as it lives; [`fork`](Self::fork) and [`on`](Self::on) return
/// another handle. Cheap to clone; every verb takes `&self`, so a handle can be shared between tasks.
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

    /// Returns the repository: what the engine's functions work on.
    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.repo.store()
    }

    /// Returns the ref of this handle's branch, which functions of the engine take.
    pub fn branch(&self) -> &RefName {
        &self.branch
    }

    /// Returns the name of this handle's branch.
    pub fn branch_name(&self) -> &str {
        self.branch.branch_name().unwrap_or(self.branch.as_str())
    }

    /// Reads the commit that this handle's branch points to; `None` before the first.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn head(&self) -> Result<Option<CommitId>> {
        Ok(self.repo.head_of(&self.branch).await?)
    }

    /// Finds the commit that a revision names. In text, `HEAD` is this handle's branch.
    ///
    /// # Errors
    /// [`Error::UnknownRevision`](crate::Error::UnknownRevision) with names that are like it; an
    /// ambiguous prefix lists what it could be.
    pub async fn resolve(&self, revision: impl Into<Revision>) -> Result<CommitId> {
        match revision.into().0 {
            NamedRevision::Id(id) => Ok(id),
            NamedRevision::Text(text) => Ok(self.repo.resolve(&self.own_head(text)).await?),
        }
    }

    /// Finds the place in a history that a revision names: as [`resolve`](Self::resolve), but `#20`
    /// is the commit that added the 20th message, or merged it, regardless of later edits.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub async fn resolve_position(&self, revision: impl Into<Revision>) -> Result<CommitId> {
        match revision.into().0 {
            NamedRevision::Id(id) => Ok(id),
            NamedRevision::Text(text) => {
                Ok(self.repo.resolve_position(&self.own_head(text)).await?)
            }
        }
    }

    /// Finds the message that a text ending in `#20` names; `None` for any other revision.
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
                Ok(self.repo.resolve_message(&self.own_head(text)).await?)
            }
        }
    }

    /// Replaces `HEAD` with this handle's branch: the stored `HEAD` may name another one.
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
    /// As [`resolve`](Self::resolve), and when the commit is not stored.
    pub async fn show(&self, revision: impl Into<Revision>) -> Result<Commit> {
        let id = self.resolve(revision).await?;
        Ok(self.repo.require_commit(id).await?)
    }
}
