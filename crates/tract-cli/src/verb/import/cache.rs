//! The cache of imported files, so that unchanged files are not read again.

use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use tract::RepoName;
use tract::core::Blob;
use tract::import::ImportCache;

/// The cache of a repository, and its file.
pub(super) struct CacheFile {
    pub(super) cache: ImportCache,
    path: PathBuf,
}

impl CacheFile {
    /// Opens the cache of a repository; `None` for an in-memory store, and if the build of the
    /// command cannot be identified.
    pub(super) fn open(url: &str, repo: &str) -> Option<Self> {
        let (path, reader) = (path_of(url, repo)?, reader()?);
        Some(Self { cache: ImportCache::open(&path, reader), path })
    }

    /// Writes the cache. If that fails, the next import reads all files again.
    pub(super) fn save(&mut self) {
        if let Some(folder) = self.path.parent()
            && !folder.as_os_str().is_empty()
        {
            let _ = std::fs::create_dir_all(folder);
        }
        let _ = self.cache.save(&self.path);
    }
}

/// Deletes the cache of a repository, which contains names and titles.
pub(crate) fn forget(url: &str, repo: &str) {
    if let Some(path) = path_of(url, repo) {
        let _ = std::fs::remove_file(path);
    }
}

/// Returns the file of a cache: next to the store's file, else in the user's cache folder.
fn path_of(url: &str, repo: &str) -> Option<PathBuf> {
    let digits = |text: &str| Blob::seal(text.as_bytes().to_vec()).id().to_string();
    let short = |text: String| text.chars().take(16).collect::<String>();
    if let Some(file) = tract::store::file_of(url).ok()? {
        let mut name = file.file_name()?.to_owned();
        name.push(".imports");
        if repo != RepoName::DEFAULT {
            name.push(format!("-{}", short(digits(repo))));
        }
        return Some(file.with_file_name(name));
    }
    if url.starts_with("memory:") {
        return None;
    }
    // The URL without its password identifies the store.
    let name = short(digits(&format!("{}\n{repo}", tract::store::hide_passwords(url))));
    Some(crate::caches::folder()?.join("tract").join(format!("{name}.imports")))
}

/// Identifies this build, because another one may read files differently.
fn reader() -> Option<String> {
    let program = std::fs::metadata(std::env::current_exe().ok()?).ok()?;
    let built = program.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
    Some(format!("{} {} {built}", env!("CARGO_PKG_VERSION"), program.len()))
}
