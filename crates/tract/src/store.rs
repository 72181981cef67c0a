//! From a url to a store.
//!
//! `memory:` is always there; every other scheme comes with the feature that names its engine.

use std::path::PathBuf;
use std::sync::Arc;

use crate::Error;
use crate::error::Result;
pub use crate::password::{hide_anywhere, hide_passwords};
pub use tract_core::store::*;

/// The schemes that urls may have, each with its feature and whether this build has it.
const SCHEMES: [(&str, &str, bool); 6] = [
    ("memory", "", true),
    ("redb", "redb", cfg!(feature = "redb")),
    ("sled", "sled", cfg!(feature = "sled")),
    ("postgres", "postgres", cfg!(feature = "postgres")),
    ("postgresql", "postgres", false),
    ("sqlite", "sqlite", cfg!(feature = "sqlite")),
];

/// Options for opening a store.
///
/// ```
/// use tract::store::{StoreOptions, WriteMode};
/// let options = StoreOptions::new().create(false).write_mode(WriteMode::InPlace);
/// assert!(!options.creates());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreOptions {
    create: bool,
    write_mode: WriteMode,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { create: true, write_mode: WriteMode::default() }
    }
}

impl StoreOptions {
    /// Makes the defaults: the store is made when it is missing, and writes go through the
    /// store's own thread.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether a missing store is made.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Returns whether a missing store is made.
    pub fn creates(&self) -> bool {
        self.create
    }

    /// Sets how writes reach an embedded store.
    #[must_use]
    pub fn write_mode(mut self, mode: WriteMode) -> Self {
        self.write_mode = mode;
        self
    }
}

/// Opens the store that a url names, making it when it is missing.
///
/// Urls are `memory:`, and with the feature of that name `sqlite:PATH`, `redb:PATH` or `sled:PATH`,
/// also with two slashes before the path (`sqlite://PATH`), and `postgres://USER@HOST/DATABASE`.
///
/// ```
/// # tract::block_on(async {
/// let store = tract::store::open("memory:").await?;
/// assert_eq!(store.backend(), "memory");
/// # Ok::<(), tract::Error>(())
/// # }).unwrap();
/// ```
///
/// # Errors
/// [`Error::NoSuchStore`] when this build has no engine for the url, else what the engine says.
pub async fn open(url: &str) -> Result<Arc<dyn Store>> {
    open_with(url, &StoreOptions::new()).await
}

/// Opens the store that a url names. Engines whose opening blocks, for instance while another
/// process keeps the file locked, are opened on a thread of their own.
///
/// # Errors
/// As [`open`]; with `create(false)` also when there is no store.
#[allow(unused_variables, reason = "a store in memory takes no options")]
pub async fn open_with(url: &str, options: &StoreOptions) -> Result<Arc<dyn Store>> {
    let &StoreOptions { create, write_mode } = options;
    match place(url)? {
        #[cfg(feature = "redb")]
        ("redb", path) => {
            let redb = tract_store_redb::RedbOptions::new().create(create).write_mode(write_mode);
            let open = move || tract_store_redb::open(path, &redb);
            Ok(Arc::new(off_thread("redb", "open", open).await?))
        }
        #[cfg(feature = "sled")]
        ("sled", path) => {
            let sled = tract_store_sled::SledOptions::new().create(create).write_mode(write_mode);
            let open = move || tract_store_sled::open(path, &sled);
            Ok(Arc::new(off_thread("sled", "open", open).await?))
        }
        #[cfg(feature = "postgres")]
        ("postgres" | "postgresql", _) => {
            let postgres = tract_store_postgres::PostgresOptions::new().create(create);
            Ok(Arc::new(tract_store_postgres::open(url, &postgres).await?))
        }
        #[cfg(feature = "sqlite")]
        ("sqlite", path) => {
            let sqlite =
                tract_store_sqlite::SqliteOptions::new().create(create).write_mode(write_mode);
            let open = move || tract_store_sqlite::open(path, &sqlite);
            Ok(Arc::new(off_thread("sqlite", "open", open).await?))
        }
        _ => Ok(Arc::new(tract_kv::memory())),
    }
}

/// Returns the file or folder that a url names; `None` when its store is neither.
///
/// # Errors
/// [`Error::NoSuchStore`] when this build has no engine for the url.
pub fn file_of(url: &str) -> Result<Option<PathBuf>> {
    let (_, path) = place(url)?;
    Ok(Some(path).filter(|path| !path.as_os_str().is_empty()))
}

/// Returns the scheme of a url whose engine this build has, and the path that it names; the path is
/// empty when its store is neither a file nor a folder.
fn place(url: &str) -> Result<(&str, PathBuf)> {
    let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let built = SCHEMES.iter().any(|(name, _, built)| *name == scheme && *built);
    match scheme {
        "memory" if path.is_empty() => Ok((scheme, PathBuf::new())),
        "redb" | "sled" | "sqlite" if built && !path.is_empty() => Ok((scheme, path.into())),
        "postgres" | "postgresql" if cfg!(feature = "postgres") && rest.starts_with("//") => {
            Ok((scheme, PathBuf::new()))
        }
        _ => Err(no_such_store(url, scheme)),
    }
}

fn no_such_store(url: &str, scheme: &str) -> Error {
    // A url may hold a password, and errors end up in logs.
    let url = hide_anywhere(url);
    let built = SCHEMES.iter().filter(|(_, _, built)| *built);
    let built: Vec<&str> = built.map(|(name, ..)| *name).collect();
    let has = match built.split_last() {
        Some((last, others)) if !others.is_empty() => {
            format!("it has {} and {last}", others.join(", "))
        }
        _ => format!("it has {}", built.join(", ")),
    };
    let note = match SCHEMES.iter().find(|(name, ..)| *name == scheme) {
        Some((_, "postgres", _)) if cfg!(feature = "postgres") => {
            "name the database: postgres://USER@HOST/DATABASE".to_owned()
        }
        Some((_, feature, false)) => format!("{has}; add features = [{feature:?}]"),
        Some(("memory", ..)) => "write memory: and nothing after it".to_owned(),
        Some((name, ..)) => format!("name the file: {name}:PATH"),
        None if scheme.is_empty() || scheme.len() == 1 => {
            format!("{has}; a url begins with its scheme: sqlite:{url}")
        }
        None => format!("{has}; urls look like sqlite:PATH or memory:"),
    };
    Error::NoSuchStore { url, note }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(url: &str, note: &str) {
        let error = place(url).expect_err(url);
        assert_eq!(error.code(), "no_such_store", "{url}");
        assert!(error.notes().iter().any(|found| found.contains(note)), "{url}: {error:?}");
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn urls_name_places() {
        let at = |url: &str| file_of(url).expect(url);
        assert_eq!(at("memory:"), None);
        assert_eq!(at("memory://"), None);
        assert_eq!(at("sqlite:a/b.db"), Some("a/b.db".into()));
        assert_eq!(at("sqlite://a/b.db"), Some("a/b.db".into()));
        assert_eq!(at("sqlite:///a/b.db"), Some("/a/b.db".into()));
        assert_eq!(at("sqlite:/a b.db"), Some("/a b.db".into()));
    }

    #[cfg(all(feature = "redb", feature = "sled"))]
    #[test]
    fn every_engine_opens_what_its_url_names() {
        let folder = tempfile::tempdir().expect("a folder");
        for scheme in ["redb", "sled"] {
            let path = folder.path().join(scheme);
            let url = format!("{scheme}:{}", path.display());
            assert_eq!(file_of(&url).expect(scheme), Some(path));
            let missing = StoreOptions::new().create(false);
            let error = crate::block_on(open_with(&url, &missing)).expect_err(scheme);
            assert_eq!(error.code(), "no_store", "{scheme}");
            let store = crate::block_on(open(&url)).expect(scheme);
            assert_eq!(store.backend(), scheme);
        }
    }

    #[cfg(feature = "redb")]
    #[test]
    fn waiting_for_a_locked_file_does_not_block_the_thread_that_polls() {
        use std::future::Future as _;
        use std::task::{Context, Poll, Waker};
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("redb:{}", folder.path().join("agent.redb").display());
        let first = crate::block_on(open(&url)).expect("it is made");
        let mut second = std::pin::pin!(open(&url));
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(second.as_mut().poll(&mut context), Poll::Pending));
        // This thread can give way to what the other waits for.
        drop(first);
        crate::block_on(second).expect("the file is free");
    }

    #[test]
    fn a_password_is_not_repeated() {
        let url = "postgres://me:secret@db/agents";
        let error = no_such_store(url, "postgres");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }

    #[test]
    fn urls_without_an_engine_say_the_way_out() {
        refused("mysql:agent", "it has memory");
        if cfg!(feature = "redb") {
            refused("redb:", "redb:PATH")
        } else {
            refused("redb:agent.redb", "features = [\"redb\"]")
        }
        if cfg!(feature = "sled") {
            refused("sled:", "sled:PATH")
        } else {
            refused("sled:agent.sled", "features = [\"sled\"]")
        }
        if cfg!(feature = "postgres") {
            refused("postgres:agents", "postgres://USER@HOST/DATABASE")
        } else {
            refused("postgres://db/agents", "features = [\"postgres\"]");
            refused("postgresql://db/agents", "features = [\"postgres\"]");
        }
        refused("agent.db", "sqlite:agent.db");
        refused("", "sqlite:");
        refused("mysql:x", "sqlite:PATH");
        refused("memory:x", "nothing after it");
        if cfg!(feature = "sqlite") {
            refused("sqlite:", "sqlite:PATH")
        } else {
            refused("sqlite:a.db", "features = [\"sqlite\"]")
        }
    }
}
