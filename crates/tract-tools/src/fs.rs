//! A filesystem for tools: confined to a root, and restored when a call fails.
//!
//! Tools reach it through [`CallContext::filesystem`](crate::dispatch::CallContext::filesystem) if
//! the host has bound one as a resource. There are two implementations: [`MemoryFs`], and
//! [`DirectoryFs`] for a directory of the host.

mod call;
#[cfg(unix)]
mod directory;
mod memory;
mod path;
mod tools;
mod undo;
mod views;

use std::sync::Arc;

use serde::Serialize;
use tract_core::ToolError;

pub(crate) use self::call::CallFs;
#[cfg(unix)]
pub use self::directory::DirectoryFs;
pub use self::memory::MemoryFs;
pub use self::path::FsPath;
pub use self::tools::{
    EditReport, Editing, Entries, FileText, FsEdit, FsList, FsRead, FsRemove, FsWrite, Listing,
    Reading, Removing, Writing, add_fs_tools,
};
pub(crate) use self::views::Views;
use crate::resource::Binding;
use crate::snapshot::{BoxError, Snapshot};

/// A file or directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The path, relative to the root.
    pub path: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Size of a file in bytes; 0 for a directory.
    pub size_bytes: u64,
}

/// An error of reading or writing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FsError {
    /// The path is not allowed here.
    #[error("expected a path below the root, found {path:?}, which is {why}")]
    Path {
        /// The path.
        path: String,
        /// The reason why it is rejected.
        why: &'static str,
    },
    /// The path does not exist.
    #[error("expected a file or directory at {path}, found none")]
    NotFound {
        /// The path.
        path: String,
    },
    /// The path is a directory, but a file is expected.
    #[error("expected a file at {path}, found a directory")]
    IsDirectory {
        /// The path.
        path: String,
    },
    /// The path is a file, but a directory is expected.
    #[error("expected a directory at {path}, found a file")]
    NotADirectory {
        /// The path.
        path: String,
    },
    /// The path is a symbolic link or another special file.
    #[error("expected a file or directory at {path}, found {found}")]
    Special {
        /// The path.
        path: String,
        /// The kind of entry that was found.
        found: &'static str,
    },
    /// The file exceeds the size limit.
    #[error("expected at most {limit} bytes at {path}, found {found}")]
    TooLarge {
        /// The path.
        path: String,
        /// The limit in bytes.
        limit: u64,
        /// The size of the file in bytes.
        found: u64,
    },
    /// The size limit of all files together is exceeded.
    #[error("no room for {path}: all files together would take {found} bytes (limit {limit})")]
    Full {
        /// The path that was to be written.
        path: String,
        /// The limit in bytes.
        limit: u64,
        /// The size that all files would have, in bytes.
        found: u64,
    },
    /// The filesystem is read-only here.
    #[error("{path} is read-only here")]
    ReadOnly {
        /// The path.
        path: String,
    },
    /// The call that uses the filesystem has ended.
    #[error("the call has ended already")]
    CallOver,
    /// The operating system returned an error.
    #[error("{path} could not be {what}")]
    Io {
        /// The path.
        path: String,
        /// The operation, such as `read`.
        what: &'static str,
        /// The error.
        source: BoxError,
    },
}

impl FsError {
    /// Returns the stable code of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Path { .. } => "bad_path",
            Self::NotFound { .. } => "not_found",
            Self::IsDirectory { .. } => "is_directory",
            Self::NotADirectory { .. } => "not_a_directory",
            Self::Special { .. } => "special_file",
            Self::TooLarge { .. } => "too_large",
            Self::Full { .. } => "full",
            Self::ReadOnly { .. } => "read_only",
            Self::CallOver => "call_over",
            Self::Io { .. } => "io",
        }
    }

    /// Returns a hint for fixing it, if there is one.
    pub fn note(&self) -> Option<&'static str> {
        match self {
            Self::Path { .. } => Some("paths are relative to the root, as `src/main.rs`"),
            Self::NotFound { .. } => Some("list the directory to see what is there"),
            Self::IsDirectory { .. } => Some("list a directory; read and write files"),
            Self::Special { .. } => Some("symbolic links are not followed"),
            Self::TooLarge { .. } => Some("read or write less at once"),
            Self::Full { .. } => Some("remove what is not needed"),
            Self::ReadOnly { .. } => Some("the tool promises to change nothing"),
            Self::NotADirectory { .. } | Self::CallOver | Self::Io { .. } => None,
        }
    }
}

impl From<FsError> for ToolError {
    fn from(error: FsError) -> Self {
        let message = match &error {
            FsError::Path { .. } => Self::validation(error.to_string()).at("path"),
            _ => Self::other(error.to_string()),
        };
        error.note().into_iter().fold(message, Self::note).caused_by(error)
    }
}

/// Files and directories below a root, and nothing else.
///
/// # Behavior
/// - A path never leads out of the root, whether by `..`, as an absolute path, or by a symbolic
///   link.
/// - As a [`Snapshot`], it reverts the changes that were made through it.
pub trait Filesystem: Snapshot {
    /// Reads a file.
    ///
    /// # Errors
    /// [`FsError`] if it does not exist or is larger than the limit.
    fn read(&self, path: &FsPath) -> Result<Vec<u8>, FsError>;

    /// Writes a file: creates its parent directories, and replaces its content.
    ///
    /// # Errors
    /// [`FsError`]; the file is then unchanged.
    fn write(&self, path: &FsPath, bytes: &[u8]) -> Result<(), FsError>;

    /// Removes a file or an empty directory.
    ///
    /// # Errors
    /// [`FsError`] if it does not exist, or the directory is not empty.
    fn remove(&self, path: &FsPath) -> Result<(), FsError>;

    /// Returns the entry at a path; `None` if it does not exist.
    ///
    /// # Errors
    /// [`FsError`] if it cannot be read.
    fn entry(&self, path: &FsPath) -> Result<Option<Entry>, FsError>;

    /// Lists a directory, sorted by name.
    ///
    /// # Errors
    /// [`FsError`] if it is not a directory.
    fn list(&self, directory: &FsPath) -> Result<Vec<Entry>, FsError>;

    /// Returns the maximum size of a file that is read or written, in bytes; 16 MiB by default.
    fn max_file_bytes(&self) -> u64 {
        FILE_LIMIT
    }

    /// Returns a separate view of the same files. Its [`restore`](Snapshot::restore) reverts only
    /// changes made through it, not those made through another view or by another program. Each
    /// turn works with its own view if there is one. A filesystem without views, which is the
    /// default, must be used by one turn at a time.
    fn view(&self) -> Option<Arc<dyn Filesystem>> {
        None
    }
}

/// Default maximum size of a file in bytes.
const FILE_LIMIT: u64 = 16 << 20;

/// Binds a filesystem as a resource that is restored when a call fails. If it has
/// [views](Filesystem::view), turns work on it concurrently, provided that their tools reach it
/// through their context; otherwise they take turns.
///
/// ```
/// use std::sync::Arc;
/// use tract_tools::fs::{Filesystem, FsPath, MemoryFs, bind};
/// use tract_tools::resource::Resources;
/// let files = Arc::new(MemoryFs::new());
/// let resources = Resources::builder().bind(bind(files)).build()?;
/// resources.get::<dyn Filesystem>()?.write(&FsPath::parse("notes.md")?, b"hello")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn bind(filesystem: Arc<dyn Filesystem>) -> Binding<dyn Filesystem> {
    let has_views = filesystem.view().is_some();
    let binding = Binding::value(filesystem).with_views(has_views);
    binding.snapshots(|shared| Arc::clone(shared) as Arc<dyn Snapshot>)
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
