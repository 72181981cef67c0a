//! The context of a verb: the global flags, the streams, and the store they name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tract::store::{StoreOptions, WriteMode};
#[cfg(feature = "http")]
use tract::{ChatModel, hooks::ModelSummarizer};
use tract::{OpenOptions, RepoName, Store, Tract};

use crate::ending::Opening;
use crate::failure::{Failure, Outcome};
use crate::global::Global;
use crate::out::Output;
use crate::summarize::CommandSummarizer;

/// Path of the default store within its folder.
fn default_path() -> PathBuf {
    [".tract", "tract.db"].iter().collect()
}

/// The context of a verb.
pub(crate) struct Context<'a> {
    pub(crate) global: Global,
    pub(crate) out: &'a mut Output,
    /// The open stores, by URL.
    opened: Vec<(String, Arc<dyn Store>)>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(global: Global, out: &'a mut Output) -> Self {
        Self { global, out, opened: Vec::new() }
    }

    /// Closes the opened stores. Their writes are already durable, so an error is a warning and
    /// does not change the command's result.
    pub(crate) async fn close(&mut self) {
        for (_, store) in std::mem::take(&mut self.opened) {
            if let Err(error) = store.close().await {
                let warning = "closing the store failed; what was reported as done is stored";
                self.out.say(format_args!("warning: {warning}: {error}"));
            }
        }
    }

    /// Opens the named store, or searches from here upwards; it must exist.
    pub(crate) async fn open(&mut self) -> Outcome<Tract> {
        let store = self.open_named_store().await?;
        self.open_repo(store, false).await
    }

    /// Opens the named store, and creates it if it is missing. Without a name it must exist here or
    /// above.
    pub(crate) async fn open_or_create(&mut self) -> Outcome<Tract> {
        let url = self.url()?;
        let store = self.open_store(&url, true).await?;
        self.open_repo(store, true).await
    }

    /// Opens the named store, or the one found from here upwards. If there is none, creates the default
    /// store in this folder, as `init` does, and reports it.
    pub(crate) async fn open_or_init(&mut self) -> Outcome<Tract> {
        if !self.url().is_err_and(|failure| failure.is_no_store()) {
            return self.open_or_create().await;
        }
        let url = self.url_to_make();
        let store = self.open_store(&url, true).await?;
        let tract = self.open_repo(store, true).await?;
        self.out.say(format_args!("created {url}"));
        Ok(tract)
    }

    /// Returns the URL of the named store, or of the one found from here upwards.
    pub(crate) fn url(&self) -> Outcome<String> {
        match &self.global.store {
            Some(url) => Ok(url.clone()),
            None => found_upwards(
                &std::env::current_dir().map_err(|error| Failure::file(Path::new("."), &error))?,
            ),
        }
    }

    /// Opens the named store, or searches from here upwards; it must exist.
    pub(crate) async fn open_named_store(&mut self) -> Outcome<Arc<dyn Store>> {
        let url = self.url()?;
        self.open_store(&url, false).await
    }

    /// Opens the store of a URL.
    pub(crate) async fn open_store(&mut self, url: &str, create: bool) -> Outcome<Arc<dyn Store>> {
        // An engine that locks its file cannot open it twice in one process.
        if let Some((_, store)) = self.opened.iter().find(|(known, _)| known == url) {
            return Ok(Arc::clone(store));
        }
        let options = StoreOptions { create, write_mode: WriteMode::InPlace };
        let opening = Opening::begin();
        let store = tract::store::open_with(url, &options).await?;
        opening.register(&store);
        self.opened.push((url.to_owned(), Arc::clone(&store)));
        Ok(store)
    }

    /// Opens the repository in a store.
    pub(crate) async fn open_repo(&self, store: Arc<dyn Store>, create: bool) -> Outcome<Tract> {
        // All writes of a command are one operation, so that one undo reverts them.
        let tract = self.open_as("cli", store, create).await?.one_operation()?;
        Ok(match &self.global.summarizer {
            Some(command) => {
                let hooks = tract.repo().hooks().clone();
                tract.with_hooks(hooks.summarizer(CommandSummarizer::new(command)))
            }
            None => tract,
        })
    }

    async fn open_as(&self, who: &str, store: Arc<dyn Store>, create: bool) -> Outcome<Tract> {
        let options = OpenOptions::new().repo(&self.global.repo).create(create).who(who);
        Ok(options.open_store(store).await?)
    }

    /// Returns the repositories of a command: all of a store, or the named one.
    pub(crate) async fn repos(&self, store: &Arc<dyn Store>, all: bool) -> Outcome<Vec<RepoName>> {
        Ok(match all {
            true => store.repos().await?,
            false => vec![RepoName::new(self.global.repo.clone())?],
        })
    }

    /// Opens the named store, or the one found from here upwards, for a recording: each exchange is
    /// a separate operation. A named store is created if it is missing.
    #[cfg(feature = "record")]
    pub(crate) async fn open_to_record(&mut self) -> Outcome<Tract> {
        let url = self.url()?;
        let store = self.open_store(&url, true).await?;
        self.open_as("record", store, true).await
    }

    /// Opens the repository for a server: each of its writes is a separate operation, under this
    /// name.
    #[cfg(any(feature = "serve", feature = "ui", feature = "view"))]
    pub(crate) async fn open_to_serve(&mut self, who: &str) -> Outcome<Tract> {
        let store = self.open_named_store().await?;
        self.open_as(who, store, false).await
    }

    /// Makes a model write the summaries of a repository, unless a program was named.
    #[cfg(feature = "http")]
    pub(crate) fn summarized_by(&self, tract: Tract, model: Arc<dyn ChatModel>) -> Tract {
        if self.global.summarizer.is_some() {
            return tract;
        }
        let hooks = tract.repo().hooks().clone();
        tract.with_hooks(hooks.summarizer(ModelSummarizer::new(model)))
    }

    /// Returns the URL at which `init` creates a store: the named one, else the default here.
    pub(crate) fn url_to_make(&self) -> String {
        self.global.store.clone().unwrap_or_else(|| url_of(&default_path()))
    }
}

/// Returns the URL of an SQLite file.
pub(crate) fn url_of(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

pub(crate) fn found_upwards(from: &Path) -> Outcome<String> {
    let candidate = |folder: &Path| folder.join(default_path());
    let found = from.ancestors().map(candidate).enumerate().find(|(_, path)| path.exists());
    let (above, path) = found.ok_or_else(|| Failure::no_store(from))?;
    Ok(match path.to_str() {
        Some(_) => url_of(&path),
        // A URL is text. A relative path also works if the folders above do not have UTF-8 names.
        None => url_of(&Path::new(&"../".repeat(above)).join(default_path())),
    })
}
