//! The remotes of a repository: their names and URLs, stored in one document.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tract_core::{Blob, ObjectId, RefEdit, RefName, RefTarget, nearest};

use crate::repo::Repo;
use crate::repo::batch::{apply_and_tell, require_done};
use crate::repo::error::{Error, Result};
use crate::write::txn::ref_edit;

/// The ref of the document.
const DOCUMENT: &str = "config/remotes";

/// A remote: another store, by a local name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its local name.
    pub name: String,
    /// The URL of the store, or `bundle:PATH`. It may contain a password: do not print it
    /// unchanged.
    pub url: String,
    /// The repository in that store; the same name as this one if absent.
    pub repo: Option<String>,
}

impl Remote {
    /// Creates a remote.
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self { name: name.into(), url: url.into(), repo: None }
    }

    /// Returns the path if the remote is a bundle.
    pub fn bundle(&self) -> Option<&str> {
        self.url.strip_prefix("bundle:")
    }
}

#[derive(Deserialize, Serialize)]
struct Entry {
    url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repo: Option<String>,
}

type Entries = BTreeMap<String, Entry>;

impl Repo {
    /// Lists the remotes, sorted by name.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the document of the remotes is invalid.
    pub async fn remotes(&self) -> Result<Vec<Remote>> {
        let (_, entries) = self.remote_entries().await?;
        Ok(entries
            .into_iter()
            .map(|(name, Entry { url, repo })| Remote { name, url, repo })
            .collect())
    }

    /// Returns the remote with a name; without a name `origin`, or else the only one.
    ///
    /// # Errors
    /// [`Error::UnknownRemote`] when there is no such remote, or when no name is given and there is
    /// not exactly one.
    pub async fn remote(&self, name: Option<&str>) -> Result<Remote> {
        let mut remotes = self.remotes().await?;
        let wanted = name.unwrap_or("origin");
        if let Some(at) = remotes.iter().position(|remote| remote.name == wanted) {
            return Ok(remotes.swap_remove(at));
        }
        if name.is_none() && remotes.len() == 1 {
            return Ok(remotes.swap_remove(0));
        }
        Err(unknown(name, remotes.into_iter().map(|remote| remote.name)))
    }

    /// Adds a remote.
    ///
    /// # Errors
    /// [`Error::RemoteExists`]; [`Error::BadName`].
    pub async fn add_remote(&self, remote: Remote) -> Result<()> {
        RefName::check_new_remote(&remote.name)?;
        let (at, mut entries) = self.remote_entries().await?;
        let Remote { name, url, repo } = remote;
        if entries.contains_key(&name) {
            return Err(Error::RemoteExists { name });
        }
        entries.insert(name, Entry { url, repo });
        self.write_remotes("remote add", at, &entries, Vec::new()).await
    }

    /// Removes a remote, with its remote-tracking refs.
    ///
    /// # Errors
    /// [`Error::UnknownRemote`].
    pub async fn remove_remote(&self, name: &str) -> Result<()> {
        let (at, mut entries) = self.remote_entries().await?;
        if entries.remove(name).is_none() {
            return Err(unknown(Some(name), entries.into_keys()));
        }
        let seen = self.store().list_refs(self.name(), &format!("remotes/{name}/")).await?;
        let gone = seen.into_iter().map(|(name, target)| ref_edit(name, Some(target), None));
        self.write_remotes("remote remove", at, &entries, gone.collect()).await
    }

    async fn remote_entries(&self) -> Result<(Option<RefTarget>, Entries)> {
        let Some(target) = self.ref_target(&RefName::new(DOCUMENT)?).await? else {
            return Ok((None, Entries::new()));
        };
        let Some(id) = target.blob() else { return Ok((Some(target), Entries::new())) };
        let blob = self.require_blob(id).await?;
        match serde_json::from_slice(blob.bytes()) {
            Ok(entries) => Ok((Some(target), entries)),
            Err(error) => Err(Error::Damaged {
                object: Some(ObjectId::Blob(id)),
                what: format!("as the list of remotes: {error}"),
            }),
        }
    }

    async fn write_remotes(
        &self,
        what: &str,
        at: Option<RefTarget>,
        entries: &Entries,
        mut edits: Vec<RefEdit>,
    ) -> Result<()> {
        let text = serde_json::to_string(entries).map_err(|error| Error::Damaged {
            object: None,
            what: format!("as the list of remotes: {error}"),
        })?;
        let blob = Blob::seal(text.into_bytes());
        let operation = self.operation_or_new(None)?;
        let to = (!entries.is_empty()).then(|| RefTarget::Blob(blob.id()));
        edits.push(ref_edit(RefName::new(DOCUMENT)?, at, to));
        let mut batch = self.batch(&operation, what)?;
        if !entries.is_empty() {
            batch.blobs.push(blob);
        }
        batch.refs = edits;
        require_done(apply_and_tell(self, &operation, batch).await?)
    }
}

fn unknown(name: Option<&str>, known: impl Iterator<Item = String>) -> Error {
    let known: Vec<String> = known.collect();
    let near = name.and_then(|name| nearest(name, known.iter().map(String::as_str)));
    let nearest = near.map(str::to_owned);
    Error::UnknownRemote { name: name.map(str::to_owned), nearest, known }
}
