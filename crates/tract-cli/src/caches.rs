//! The folder of caches, which can be deleted at any time.

use std::path::PathBuf;

/// Returns the user's folder for caches.
pub(crate) fn folder() -> Option<PathBuf> {
    let set =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if cfg!(windows) {
        return set("LOCALAPPDATA");
    }
    set("XDG_CACHE_HOME").or_else(|| {
        let below = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
        Some(std::env::home_dir()?.join(below))
    })
}
