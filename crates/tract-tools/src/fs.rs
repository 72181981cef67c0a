//! A filesystem that tools may use: confined to a root, put back when a call fails.
//!
//! Tools reach it by [`CallContext::filesystem`](crate::dispatch::CallContext::filesystem), where
//! the host has bound one as a resource. It has two forms: [`MemoryFs`], and [`DirectoryFs`] for a
//! directory of the host.

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

/// The kind of entry at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The path, from the root.
    pub path: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Bytes of a file; of a directory 0.
    pub size_bytes: u64,
}

/// Why something cannot be read or written.
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
    /// Nothing is there.
    #[error("expected a file or directory at {path}, found none")]
    NotFound {
        /// The path.
        path: String,
    },
    /// A directory is where a file is wanted.
    #[error("expected a file at {path}, found a directory")]
    IsDirectory {
        /// The path.
        path: String,
    },
    /// A file is where a directory is wanted.
    #[error("expected a directory at {path}, found a file")]
    NotADirectory {
        /// The path.
        path: String,
    },
    /// A symbolic link, or something that is neither file nor directory.
    #[error("expected a file or directory at {path}, found {found}")]
    Special {
        /// The path.
        path: String,
        /// The kind of entry that was found.
        found: &'static str,
    },
    /// There is more than may be read or written at once.
    #[error("expected at most {limit} bytes at {path}, found {found}")]
    TooLarge {
        /// The path.
        path: String,
        /// The limit.
        limit: u64,
        /// How many there are.
        found: u64,
    },
    /// The size limit of all files is reached.
    #[error("no room for {path}: all files together would take {found} bytes (limit {limit})")]
    Full {
        /// The path that was to be written.
        path: String,
        /// The limit of all files together.
        limit: u64,
        /// How many bytes they would take.
        found: u64,
    },
    /// It may only be read here.
    #[error("{path} is read-only here")]
    ReadOnly {
        /// The path.
        path: String,
    },
    /// The call that asked is over.
    #[error("the call has ended already")]
    CallOver,
    /// The operating system refused.
    #[error("{path} could not be {what}")]
    Io {
        /// The path.
        path: String,
        /// The operation, such as `read`.
        what: &'static str,
        /// Why not.
        source: BoxError,
    },
}

impl FsError {
    /// Returns the stable word for the variant.
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

    /// Returns the way out, where there is one.
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
/// - A path never leads out of the root: not by `..`, not by being absolute, not by a symbolic
///   link.
/// - As a [`Snapshot`], it reverts the changes that were made through it.
pub trait Filesystem: Snapshot {
    /// Reads a file.
    ///
    /// # Errors
    /// [`FsError`] when there is none, or it is larger than the filesystem's limit.
    fn read(&self, path: &FsPath) -> Result<Vec<u8>, FsError>;

    /// Writes a file: makes the directories that it is in, and replaces what it held.
    ///
    /// # Errors
    /// [`FsError`]; the file is then what it was.
    fn write(&self, path: &FsPath, bytes: &[u8]) -> Result<(), FsError>;

    /// Removes a file, or a directory that is empty.
    ///
    /// # Errors
    /// [`FsError`] when nothing is there, or the directory is not empty.
    fn remove(&self, path: &FsPath) -> Result<(), FsError>;

    /// Returns what is at a path; `None` when nothing is.
    ///
    /// # Errors
    /// [`FsError`] when it cannot be read.
    fn entry(&self, path: &FsPath) -> Result<Option<Entry>, FsError>;

    /// Lists a directory, by name.
    ///
    /// # Errors
    /// [`FsError`] if it is not a directory.
    fn list(&self, directory: &FsPath) -> Result<Vec<Entry>, FsError>;

    /// Returns how many bytes a file may have that is read or written; 16 MiB unless said.
    fn max_file_bytes(&self) -> u64 {
        FILE_LIMIT
    }

    /// Returns the same files as a view of its own: its [`restore`](Snapshot::restore) undoes what
    /// was changed through it, and leaves alone what was changed otherwise, whether through another
    /// view or by another program. Each turn of calls works with a view of its own, where there is
    /// one. A filesystem without views, which is the default, must be lent to one turn at a time.
    fn view(&self) -> Option<Arc<dyn Filesystem>> {
        None
    }
}

/// Bytes of a file, where nothing else is said.
const FILE_LIMIT: u64 = 16 << 20;

/// Binds a filesystem as a resource that is put back when a call fails. Turns work at the same time
/// on one that has [views](Filesystem::view), where their tools reach it through their context; on
/// another one they take turns.
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
