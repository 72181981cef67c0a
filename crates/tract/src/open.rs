//! Opens a handle from a URL.

use std::sync::Arc;

use tract_core::{Clock, Limits, RefName, RepoName, Store, TokenCounter};
use tract_engine::{Repo, RepoOptions};

use crate::error::{Error, Result};
use crate::handle::Tract;
use crate::hooks::Hooks;
use crate::store::{self, StoreOptions, WriteMode};

/// Opens the store of a URL, and creates it if it is missing. The handle is on the branch that
/// `HEAD` names.
///
/// URLs are `memory:`, and with the feature of that name `sqlite:PATH` or `sqlite://PATH`, and
/// `postgres://USER@HOST/DATABASE`.
///
/// ```
/// # tract::block_on(async {
/// let tract = tract::open("memory:").await?;
/// tract.user("Do I need a coat?").await?;
/// assert_eq!(tract.compile().await?.message_count(), 1);
/// # Ok::<(), tract::Error>(())
/// # }).unwrap();
/// ```
///
/// # Errors
/// [`Error::NoSuchStore`] if this build lacks the engine of the URL; else the errors of the engine.
pub async fn open(url: &str) -> Result<Tract> {
    OpenOptions::new().open(url).await
}

/// Options for opening a repository, like [`std::fs::OpenOptions`].
///
/// ```
/// # tract::block_on(async {
/// use tract::OpenOptions;
/// let customer = OpenOptions::new().repo("customer-42").branch("draft").open("memory:").await?;
/// assert_eq!(customer.branch_name(), "draft");
/// # Ok::<(), tract::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    repo: String,
    branch: Option<String>,
    store: StoreOptions,
    options: RepoOptions,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            repo: RepoName::DEFAULT.to_owned(),
            branch: None,
            store: StoreOptions::default(),
            options: RepoOptions::default(),
        }
    }
}

impl OpenOptions {
    /// Starts from the defaults: the repository `default`, which is created if it is missing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the repository; a store can contain many.
    #[must_use]
    pub fn repo(mut self, name: impl Into<String>) -> Self {
        self.repo = name.into();
        self
    }

    /// Sets the branch of the handle. Default: the one that `HEAD` names. It need not exist: the
    /// first commit creates it.
    #[must_use]
    pub fn branch(mut self, name: impl Into<String>) -> Self {
        self.branch = Some(name.into());
        self
    }

    /// Sets whether a missing store or repository is created. Default: true.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.store.create = create;
        self
    }

    /// Sets how writes reach an embedded store.
    #[must_use]
    pub fn write_mode(mut self, mode: WriteMode) -> Self {
        self.store.write_mode = mode;
        self
    }

    /// Sets the author in the ref log.
    #[must_use]
    pub fn who(mut self, who: impl Into<String>) -> Self {
        self.options.who = who.into();
        self
    }

    /// Sets the checks of writes.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.options.limits = limits;
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.options.clock = clock;
        self
    }

    /// Sets the token counter. Default: an estimate by length. Stored counts contain the counter's
    /// name, and are not used with another counter.
    #[must_use]
    pub fn counter(mut self, counter: Arc<dyn TokenCounter>) -> Self {
        self.options.counter = counter;
        self
    }

    /// Sets the handlers that check writes.
    #[must_use]
    pub fn hooks(mut self, hooks: Hooks) -> Self {
        self.options.hooks = hooks;
        self
    }

    /// Opens the store of a URL.
    ///
    /// # Errors
    /// As [`open`]; with `create(false)` also if the store or repository is missing.
    pub async fn open(&self, url: &str) -> Result<Tract> {
        self.open_shared(store::open_with(url, &self.store).await?).await
    }

    /// Opens a repository in any store.
    ///
    /// # Errors
    /// [`Error::BadName`] for an invalid name; [`Error::NoRepo`] with `create(false)` if the
    /// repository is missing; errors of the store.
    pub async fn open_store(&self, store: impl Store) -> Result<Tract> {
        self.open_shared(Arc::new(store)).await
    }

    async fn open_shared(&self, store: Arc<dyn Store>) -> Result<Tract> {
        let name = RepoName::new(self.repo.clone())?;
        let branch = self.branch.as_deref().map(RefName::branch).transpose()?;
        let repo = Repo::new(store, RepoOptions { name, ..self.options.clone() });
        let exists = repo.ref_target(&RefName::head()).await?.is_some();
        if !exists && !self.store.create {
            return Err(Error::NoRepo { name: self.repo.clone() });
        }
        if !exists {
            repo.init().await?;
        }
        let head = repo.current_branch().await?;
        Ok(Tract::new(repo, branch.unwrap_or(head)))
    }
}
