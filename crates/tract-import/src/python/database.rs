//! Reads the database files of tract's predecessor in Python.
//!
//! The files are never written. The result is their rows with the original's hashes checked;
//! interpreting them is left to the caller.

mod hash;
mod read;
mod rows;

use std::path::PathBuf;

pub use self::read::read;
pub use self::rows::{
    Annotation, Commit, Database, Event, EventCommit, Operation, RefRow, Spawn, Tag, Tool,
};

/// The oldest supported schema version: the first with operation events.
pub const OLDEST_VERSION: u32 = 6;
/// The newest supported schema version.
pub const NEWEST_VERSION: u32 = 13;

/// The reason why a file is not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PythonError {
    /// The file cannot be opened or read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is not an SQLite file, or it is damaged.
    #[error("{path}: {source}")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// It is an SQLite file of another program.
    #[error(
        "{path} is no database of the Python tract: expected a table _trace_meta with a schema_version, found {found}"
    )]
    NotTract {
        /// The file.
        path: PathBuf,
        /// A description of the file.
        found: String,
    },
    /// The schema is older or newer than the supported versions.
    #[error("{path} has schema version {found}, expected {OLDEST_VERSION} to {NEWEST_VERSION}")]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: String,
    },
    /// The original never writes this value.
    #[error("{path}: {what}: expected {expected}, found {found:?}")]
    Value {
        /// The file.
        path: PathBuf,
        /// The row and its column.
        what: String,
        /// The values that the original writes.
        expected: &'static str,
        /// The value in the file.
        found: String,
    },
}

impl PythonError {
    /// Returns hints about what to do.
    pub fn notes(&self) -> Vec<String> {
        let note = match self {
            Self::File { .. } | Self::Value { .. } => return Vec::new(),
            Self::Sqlite { .. } => {
                "copy the file together with its -wal or -journal file to a folder that can be written to, \
                 and open the copy there once with SQLite"
            }
            Self::NotTract { .. } => {
                "`tract copy` reads stores of this tract; import reads recordings"
            }
            Self::Version { .. } => {
                "open the file once with the newest Python tract, which migrates it"
            }
        };
        vec![note.to_owned()]
    }
}
