//! Remotes: other stores by name, with fetch and push.

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
    /// tract.remotes().push("team", &PushOptions::default()).await?;
    ///
    /// let elsewhere = tract::open("memory:").await?;
    /// elsewhere.remotes().add(Remote::new("team", url.as_str())).await?;
    /// elsewhere.remotes().fetch("team", &FetchOptions { pull: PullBranches::All, ..FetchOptions::default() }).await?;
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
    /// Lists the remotes, sorted by name. Their URLs may contain passwords;
    /// [`store::hide_passwords`] redacts them.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn list(&self) -> Result<Vec<Remote>> {
        Ok(self.tract.repo().remotes().await?)
    }

    /// Adds a remote: the URL of a store, or `bundle:PATH`. The URL is stored unchanged. A missing
    /// password is read from `PGPASSWORD` when the remote is used.
    ///
    /// # Errors
    /// [`Error::NoSuchStore`] if this build lacks the engine of the URL; `remote_exists`; an
    /// invalid name.
    pub async fn add(&self, remote: Remote) -> Result<()> {
        if remote.bundle().is_none() {
            store::file_of(&remote.url)?;
        }
        Ok(self.tract.repo().add_remote(remote).await?)
    }

    /// Removes a remote, with the remote-tracking refs of its branches.
    ///
    /// # Errors
    /// `unknown_remote`.
    pub async fn remove(&self, name: &str) -> Result<()> {
        Ok(self.tract.repo().remove_remote(name).await?)
    }

    /// Fetches the branches of a remote to `remotes/NAME/BRANCH`, and its tags. With
    /// [`FetchOptions::pull`] it also fast-forwards branches of this repository.
    ///
    /// # Errors
    /// `unknown_remote`; errors of [`tract_engine::fetch`] or [`tract_engine::fetch_bundle`], and
    /// of opening the remote.
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

    /// Pushes branches of this repository to a remote. A missing store or repository is created.
    ///
    /// # Errors
    /// `unknown_remote`; [`Error::Invalid`] if it is a bundle; errors of [`tract_engine::push`],
    /// and of opening the remote.
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
        // A push reads the next commits while these are written.
        let options = StoreOptions { create, write_mode: WriteMode::Thread };
        let store = store::open_with(&remote.url, &options).await?;
        let own = self.tract.repo();
        let name = remote.repo.as_deref().unwrap_or(own.name().as_str());
        let options = OpenOptions::new().repo(name).create(create).who(own.who());
        let opened = options.open_store(Arc::clone(&store)).await?.one_operation()?;
        Ok((store, opened))
    }
}
