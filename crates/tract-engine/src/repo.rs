//! A repository in a store: what all verbs are functions over.

use std::fmt;
use std::sync::Arc;

use tract_core::{
    Blob, BlobId, Changes, Clock, Commit, CommitId, Limits, ObjectId, RefName, RefTarget, RepoName,
    Store, StoreExt, SystemClock, Toolset, ToolsetId,
};

use crate::error::{Error, Result};
use crate::plan::Line;

/// What a repository handle is made of beside its store.
#[derive(Clone)]
#[non_exhaustive]
pub struct RepoOptions {
    /// The repository's name in the store; `default` by default.
    pub name: RepoName,
    /// Tells the time; the operating system's by default.
    pub clock: Arc<dyn Clock>,
    /// What writing checks.
    pub limits: Limits,
    /// Who the ref log names; empty by default.
    pub who: String,
}

impl Default for RepoOptions {
    fn default() -> Self {
        Self {
            name: RepoName::default(),
            clock: Arc::new(SystemClock),
            limits: Limits::default(),
            who: String::new(),
        }
    }
}

impl RepoOptions {
    /// Starts from the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the repository's name.
    #[must_use]
    pub fn name(mut self, name: RepoName) -> Self {
        self.name = name;
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets who the ref log names.
    #[must_use]
    pub fn who(mut self, who: impl Into<String>) -> Self {
        self.who = who.into();
        self
    }
}

impl fmt::Debug for RepoOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RepoOptions")
            .field("name", &self.name)
            .field("limits", &self.limits)
            .field("who", &self.who)
            .finish_non_exhaustive()
    }
}

/// A named repository in a store. It has no position: verbs name a branch or a head. Cheap to
/// clone.
#[derive(Clone)]
pub struct Repo {
    store: Arc<dyn Store>,
    options: Arc<RepoOptions>,
}

impl fmt::Debug for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repo")
            .field("store", &self.store.backend())
            .field("name", &self.options.name)
            .finish_non_exhaustive()
    }
}

impl Repo {
    /// Names a repository in a store. Nothing is read or written.
    pub fn new(store: Arc<dyn Store>, options: RepoOptions) -> Self {
        Self { store, options: Arc::new(options) }
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the repository's name.
    pub fn name(&self) -> &RepoName {
        &self.options.name
    }

    /// Returns what writing checks.
    pub fn limits(&self) -> &Limits {
        &self.options.limits
    }

    /// Returns who the ref log names.
    pub fn who(&self) -> &str {
        &self.options.who
    }

    /// Returns the time: microseconds since 1970, UTC.
    pub fn now_us(&self) -> i64 {
        self.options.clock.now_us()
    }

    /// Reads a ref as it is: a symbolic one is not followed.
    pub async fn ref_target(&self, name: &RefName) -> Result<Option<RefTarget>> {
        Ok(self.store.ref_target(self.name(), name).await?)
    }

    /// Reads the commit that a ref points at, following symbolic refs; `None` when it does not
    /// exist yet or points at no commit.
    pub async fn head_of(&self, name: &RefName) -> Result<Option<CommitId>> {
        let mut name = name.clone();
        // HEAD names a branch; a longer chain of names is nobody's intention.
        for _ in 0..5 {
            match self.ref_target(&name).await? {
                Some(RefTarget::Ref(next)) => name = next,
                Some(RefTarget::Commit(id)) => return Ok(Some(id)),
                Some(RefTarget::Blob(_)) | None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Reads a commit.
    pub async fn commit(&self, id: CommitId) -> Result<Option<Commit>> {
        Ok(self.store.commit(self.name(), id).await?)
    }

    /// Reads a commit that must be there.
    ///
    /// # Errors
    /// [`Error::Missing`] when it is not.
    pub async fn require_commit(&self, id: CommitId) -> Result<Commit> {
        self.commit(id).await?.ok_or(Error::Missing(ObjectId::Commit(id)))
    }

    /// Reads a blob that must be there.
    ///
    /// # Errors
    /// [`Error::Missing`] when it is not.
    pub async fn require_blob(&self, id: BlobId) -> Result<Blob> {
        let blob = self.store.blob(self.name(), id).await?;
        blob.ok_or(Error::Missing(ObjectId::Blob(id)))
    }

    /// Reads a toolset that must be there.
    ///
    /// # Errors
    /// [`Error::Missing`] when it is not.
    pub async fn require_toolset(&self, id: ToolsetId) -> Result<Toolset> {
        let found = self.store.toolsets(self.name(), &[id]).await?.into_iter().flatten().next();
        found.ok_or(Error::Missing(ObjectId::Toolset(id)))
    }

    /// Reads what a commit changes, wherever its record keeps the list.
    ///
    /// # Errors
    /// [`Error::Missing`] when the list's blob is not stored, [`Error::Record`] when it is no
    /// such list.
    pub async fn changes(&self, commit: &Commit) -> Result<Vec<tract_core::Change>> {
        match &commit.changes {
            Changes::List(list) => Ok(list.clone()),
            Changes::Blob(id) => Ok(Changes::from_blob(self.require_blob(*id).await?.bytes())?),
        }
    }

    /// Reads what planners plan on at a head.
    ///
    /// # Errors
    /// [`Error::Missing`] when a commit of the line is not stored, [`Error::Change`] when one of
    /// them does not fit its parent's view.
    pub async fn line(&self, head: Option<CommitId>) -> Result<Line> {
        let mut line = Line::empty();
        let Some(head) = head else { return Ok(line) };
        for commit in self.store.walk_all(self.name(), head).await?.into_iter().rev() {
            let changes = self.changes(&commit).await?;
            line = line.advance(&commit, &changes)?;
        }
        Ok(line)
    }
}
