//! The handle: a repository and the branch it works on.

use std::fmt;
use std::sync::Arc;

use tract_core::{Commit, CommitId, Content, RefName, Store};
use tract_engine::Repo;

use crate::error::Result;
use crate::revision::{NamedRevision, Revision};

/// A repository and the branch that verbs work on: what [`open`](crate::open) gives.
///
/// A handle keeps its branch for life; [`fork`](Self::fork) and [`on`](Self::on) give another
/// one. Cheap to clone; every verb takes `&self`, so a handle can be shared between tasks.
#[derive(Clone)]
pub struct Tract {
    repo: Repo,
    branch: RefName,
}

impl fmt::Debug for Tract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tract").field("repo", &self.repo).field("branch", &self.branch).finish()
    }
}

impl Tract {
    pub(crate) fn new(repo: Repo, branch: RefName) -> Self {
        Self { repo, branch }
    }

    pub(crate) fn branch_ref(&self) -> &RefName {
        &self.branch
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

    /// Returns the name of the branch that this handle works on.
    pub fn branch_name(&self) -> &str {
        self.branch.branch_name().unwrap_or(self.branch.as_str())
    }

    /// Reads the commit that this handle's branch is at; `None` before the first.
    ///
    /// # Errors
    /// What the store says.
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

    /// Finds the commits that revisions name.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), for the first that names nothing.
    pub async fn resolve_all<R: Into<Revision>>(
        &self,
        revisions: impl IntoIterator<Item = R>,
    ) -> Result<Vec<CommitId>> {
        let mut ids = Vec::new();
        for revision in revisions {
            ids.push(self.resolve(revision).await?);
        }
        Ok(ids)
    }

    /// Finds the commit that a revision names, where there is a revision.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub async fn resolve_optional(&self, revision: Option<&str>) -> Result<Option<CommitId>> {
        match revision {
            Some(revision) => self.resolve(revision).await.map(Some),
            None => Ok(None),
        }
    }

    /// The stored `HEAD` may have moved on since this handle was made, and is nothing to it.
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

    /// Reads what a commit says; `None` when it says nothing.
    ///
    /// # Errors
    /// What the store says, and `bad_content` when the blob is not what the record states.
    pub async fn content_of(&self, commit: &Commit) -> Result<Option<Content>> {
        let (Some(id), Some(kind)) = (commit.content, &commit.kind) else { return Ok(None) };
        let blob = self.repo.require_blob(id).await?;
        let text = blob.text().ok_or(tract_core::ContentError::NotText)?;
        Ok(Some(Content::from_blob(kind, text)?))
    }
}
