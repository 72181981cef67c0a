//! Opens stores by URL.
//!
//! `memory:` is always available. Each other scheme requires the feature of its engine.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use crate::Error;
use crate::error::Result;
pub use crate::password::{hide_anywhere, hide_passwords};
pub use tract_core::store::*;

/// A store engine: the schemes of its URLs, and the function that opens them.
///
/// To add an engine, add its crate, a feature with its name and a row to [`ENGINES`].
struct Engine {
    /// The schemes of its URLs. The first one is its name.
    schemes: &'static [&'static str],
    /// The required feature; empty for the engine that is always available.
    feature: &'static str,
    location: Location,
    /// Opens the store of a URL; `None` if this build lacks the engine.
    open: Option<OpenStore>,
}

/// Opens a URL. The path in the URL is empty if the store is neither a file nor a folder.
type OpenStore = fn(&str, PathBuf, &StoreOptions) -> Opening;
type Opening = Pin<Box<dyn Future<Output = Result<Arc<dyn Store>>> + Send>>;

/// The part of a URL after its scheme.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Location {
    /// Nothing.
    Memory,
    /// A path.
    File,
    /// Two slashes, a host and a database.
    Server,
}

const ENGINES: &[Engine] = &[
    Engine {
        schemes: &["memory"],
        feature: "",
        location: Location::Memory,
        open: Some(|_, _, _| {
            Box::pin(async { Ok(Arc::new(tract_kv::memory()) as Arc<dyn Store>) })
        }),
    },
    Engine {
        schemes: &["redb"],
        feature: "redb",
        location: Location::File,
        #[cfg(feature = "redb")]
        open: Some(|_, path, options| {
            let redb = tract_store_redb::RedbOptions {
                create: options.create,
                write_mode: options.write_mode,
                ..tract_store_redb::RedbOptions::default()
            };
            open_off_thread("redb", move || tract_store_redb::open(path, &redb))
        }),
        #[cfg(not(feature = "redb"))]
        open: None,
    },
    Engine {
        schemes: &["sled"],
        feature: "sled",
        location: Location::File,
        #[cfg(feature = "sled")]
        open: Some(|_, path, options| {
            let sled = tract_store_sled::SledOptions {
                create: options.create,
                write_mode: options.write_mode,
                ..tract_store_sled::SledOptions::default()
            };
            open_off_thread("sled", move || tract_store_sled::open(path, &sled))
        }),
        #[cfg(not(feature = "sled"))]
        open: None,
    },
    Engine {
        schemes: &["postgres", "postgresql"],
        feature: "postgres",
        location: Location::Server,
        #[cfg(feature = "postgres")]
        open: Some(|url, _, options| {
            let url = url.to_owned();
            let postgres = tract_store_postgres::PostgresOptions {
                create: options.create,
                ..tract_store_postgres::PostgresOptions::default()
            };
            Box::pin(async move {
                let store = tract_store_postgres::open(&url, &postgres).await?;
                Ok(Arc::new(store) as Arc<dyn Store>)
            })
        }),
        #[cfg(not(feature = "postgres"))]
        open: None,
    },
    Engine {
        schemes: &["sqlite"],
        feature: "sqlite",
        location: Location::File,
        #[cfg(feature = "sqlite")]
        open: Some(|_, path, options| {
            let sqlite = tract_store_sqlite::SqliteOptions {
                create: options.create,
                write_mode: options.write_mode,
                ..tract_store_sqlite::SqliteOptions::default()
            };
            open_off_thread("sqlite", move || tract_store_sqlite::open(path, &sqlite))
        }),
        #[cfg(not(feature = "sqlite"))]
        open: None,
    },
];

impl Engine {
    /// Returns the engine of a scheme, even if this build lacks it.
    fn of(scheme: &str) -> Option<&'static Self> {
        ENGINES.iter().find(|engine| engine.schemes.contains(&scheme))
    }

    fn name(&self) -> &'static str {
        self.schemes.first().copied().unwrap_or_default()
    }
}

/// Opens a store on a separate thread, because opening may wait for another process.
#[cfg(any(feature = "redb", feature = "sled", feature = "sqlite"))]
fn open_off_thread<S: Store + 'static>(
    name: &'static str,
    open: impl FnOnce() -> std::result::Result<S, StoreError> + Send + 'static,
) -> Opening {
    Box::pin(async move { Ok(Arc::new(off_thread(name, "open", open).await?) as Arc<dyn Store>) })
}

/// Options for opening a store.
///
/// ```
/// use tract::store::{StoreOptions, WriteMode};
/// let options = StoreOptions { create: false, write_mode: WriteMode::InPlace };
/// assert!(!options.create);
/// ```
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Whether a missing store is created; on by default.
    pub create: bool,
    /// The thread that writes of an embedded store run on; the store's own by default.
    pub write_mode: WriteMode,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { create: true, write_mode: WriteMode::default() }
    }
}

/// Opens the store of a URL, and creates it if it is missing.
///
/// URLs are `memory:`, and with the feature of that name `sqlite:PATH`, `redb:PATH` or `sled:PATH`,
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
/// [`Error::NoSuchStore`] if this build lacks the engine of the URL; else the errors of the engine.
pub async fn open(url: &str) -> Result<Arc<dyn Store>> {
    open_with(url, &StoreOptions::default()).await
}

/// Opens the store of a URL. If opening may block, for instance while another process locks the
/// file, it runs on a separate thread.
///
/// # Errors
/// As [`open`]; with `create(false)` also if the store is missing.
pub async fn open_with(url: &str, options: &StoreOptions) -> Result<Arc<dyn Store>> {
    let (open, path) = locate(url)?;
    open(url, path, options).await
}

/// Returns the file or folder of a URL; `None` if its store is neither.
///
/// # Errors
/// [`Error::NoSuchStore`] if this build lacks the engine of the URL.
pub fn file_of(url: &str) -> Result<Option<PathBuf>> {
    let (_, path) = locate(url)?;
    Ok(Some(path).filter(|path| !path.as_os_str().is_empty()))
}

/// Returns the function that opens a URL, and the path in the URL; the path is empty if the store
/// is neither a file nor a folder.
fn locate(url: &str) -> Result<(OpenStore, PathBuf)> {
    let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let engine = Engine::of(scheme).ok_or_else(|| no_such_store(url, scheme))?;
    let is_complete = match engine.location {
        Location::Memory => path.is_empty(),
        Location::File => !path.is_empty(),
        Location::Server => rest.starts_with("//"),
    };
    let open = engine.open.filter(|_| is_complete).ok_or_else(|| no_such_store(url, scheme))?;
    let path = if engine.location == Location::File { path.into() } else { PathBuf::new() };
    Ok((open, path))
}

fn no_such_store(url: &str, scheme: &str) -> Error {
    // A URL may contain a password, and errors end up in logs.
    let url = hide_anywhere(url);
    let built = ENGINES.iter().filter(|engine| engine.open.is_some());
    let built: Vec<&str> = built.map(Engine::name).collect();
    let has = match built.split_last() {
        Some((last, others)) if !others.is_empty() => {
            format!("it has {} and {last}", others.join(", "))
        }
        _ => format!("it has {}", built.join(", ")),
    };
    let note = match Engine::of(scheme) {
        Some(engine) if engine.open.is_none() => {
            format!("{has}; add features = [{:?}]", engine.feature)
        }
        Some(engine) => match engine.location {
            Location::Memory => "write memory: and nothing after it".to_owned(),
            Location::File => format!("name the file: {}:PATH", engine.name()),
            Location::Server => {
                format!("name the database: {}://USER@HOST/DATABASE", engine.name())
            }
        },
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
        let error = file_of(url).expect_err(url);
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
            let missing = StoreOptions { create: false, ..StoreOptions::default() };
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
        // The polling thread is free to release the file that the other one waits for.
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
