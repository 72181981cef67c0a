//! Remotes: other stores by name, and transfers between them and this one.

use std::fs::File;
use std::sync::Arc;

use tract_core::Store;
use tract_engine::{BundleError, FetchOptions, FetchReport, PushOptions, PushReport, Remote};

use crate::error::{Error, Result};
use crate::handle::Tract;
use crate::open::OpenOptions;
use crate::store::{self, StoreOptions, WriteMode};

impl Tract {
    /// Returns the remotes of this repository.
    ///
    /// ```
    /// # if !cfg!(feature = "sqlite") { return }
    /// # tract::block_on(async {
    /// use tract::engine::{FetchOptions, PullBranches, PushOptions, Remote};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("team.db");
    /// # let url = format!("sqlite:{}", path.display());
    /// let tract = tract::open("memory:").await?;
    /// tract.user("Do I need a coat?").await?;
    /// tract.remotes().add(Remote::new("team", url.as_str())).await?;
    /// tract.remotes().push("team", &PushOptions::new()).await?;
    ///
    /// let elsewhere = tract::open("memory:").await?;
    /// elsewhere.remotes().add(Remote::new("team", url.as_str())).await?;
    /// elsewhere.remotes().fetch("team", &FetchOptions::new().pull(PullBranches::All)).await?;
    /// assert_eq!(elsewhere.head().await?, tract.head().await?);
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn remotes(&self) -> Remotes<'_> {
        Remotes { tract: self }
    }
}

/// The remotes of a repository.
#[derive(Clone, Copy, Debug)]
pub struct Remotes<'a> {
    tract: &'a Tract,
}

impl Remotes<'_> {
    /// Lists them, sorted by name. Their urls may hold passwords; [`store::hide_passwords`] takes
    /// these out.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn list(&self) -> Result<Vec<Remote>> {
        Ok(self.tract.repo().remotes().await?)
    }

    /// Adds one: the url of a store, or `bundle:PATH`. The url is kept in this store, as it is; a
    /// password that is not in it is taken from `PGPASSWORD` when it is used.
    ///
    /// # Errors
    /// [`Error::NoSuchStore`] if this build lacks the engine of the URL; `remote_exists`; a bad name.
    pub async fn add(&self, remote: Remote) -> Result<()> {
        if remote.bundle().is_none() {
            store::file_of(&remote.url)?;
        }
        Ok(self.tract.repo().add_remote(remote).await?)
    }

    /// Removes one, with the remote-tracking refs of its branches.
    ///
    /// # Errors
    /// `unknown_remote`.
    pub async fn remove(&self, name: &str) -> Result<()> {
        Ok(self.tract.repo().remove_remote(name).await?)
    }

    /// Brings the branches of a remote here, to `remotes/NAME/BRANCH`, and its tags; with
    /// [`FetchOptions::pull`] also moves branches of this repository forward.
    ///
    /// # Errors
    /// `unknown_remote`; as [`tract_engine::fetch`] or [`tract_engine::fetch_bundle`]; errors of opening
    /// the remote.
    pub async fn fetch(&self, name: &str, options: &FetchOptions) -> Result<FetchReport> {
        let repo = self.tract.repo();
        let remote = repo.remote(Some(name)).await?;
        if let Some(path) = remote.bundle() {
            let file = File::open(path).map_err(|error| {
                let error = std::io::Error::new(error.kind(), format!("{path}: {error}"));
                tract_engine::Error::Bundle(BundleError::Read(error))
            })?;
            return Ok(tract_engine::fetch_bundle(repo, file, name, options).await?);
        }
        let (store, other) = self.open(&remote, false).await?;
        let report = tract_engine::fetch(repo, other.repo(), name, options).await;
        // All writes are durable already, so an error of closing does not change the result.
        let _ = store.close().await;
        Ok(report?)
    }

    /// Brings branches of this repository to a remote. The store and its repository are made when
    /// they are missing.
    ///
    /// # Errors
    /// `unknown_remote`; [`Error::Invalid`] when it is a bundle; as [`tract_engine::push`];
    /// errors of opening the remote.
    pub async fn push(&self, name: &str, options: &PushOptions) -> Result<PushReport> {
        let repo = self.tract.repo();
        let remote = repo.remote(Some(name)).await?;
        if remote.bundle().is_some() {
            return Err(Error::Invalid {
                message: format!("remote {name:?} is a bundle, which cannot be pushed to"),
                note: Some("`tract bundle create FILE` makes a new one".to_owned()),
            });
        }
        let (store, other) = self.open(&remote, true).await?;
        let report = tract_engine::push(repo, other.repo(), name, options).await;
        // All writes are durable already, so an error of closing does not change the result.
        let _ = store.close().await;
        Ok(report?)
    }

    async fn open(&self, remote: &Remote, create: bool) -> Result<(Arc<dyn Store>, Tract)> {
        let options = StoreOptions::new().create(create).write_mode(WriteMode::InPlace);
        let store = store::open_with(&remote.url, &options).await?;
        let own = self.tract.repo();
        let name = remote.repo.as_deref().unwrap_or(own.name().as_str());
        let options = OpenOptions::new().repo(name).create(create).who(own.who());
        let opened = options.open_store(Arc::clone(&store)).await?.one_operation()?;
        Ok((store, opened))
    }
}
