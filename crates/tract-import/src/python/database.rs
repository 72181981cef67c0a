//! Reading the database files of the Python original, which tract took over from.
//!
//! Nothing is written to such a file. What is read are its rows as they are, with the hashes of
//! the original checked; what they mean is for the reader of them to say.

mod hash;
mod read;
mod rows;

use std::path::PathBuf;

pub use self::read::read;
pub use self::rows::{
    Annotation, Commit, Database, Event, EventCommit, Operation, RefRow, Spawn, Tag, Tool,
};

/// The oldest schema version that is read: the first with operation events.
pub const OLDEST_VERSION: u32 = 6;
/// The newest schema version that is read.
pub const NEWEST_VERSION: u32 = 13;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PythonError {
    /// It cannot be opened or read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is no SQLite file, or a damaged one.
    #[error("{path}: {source}")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// It is an SQLite file of something else.
    #[error(
        "{path} is no database of the Python tract: expected a table _trace_meta with a schema_version, found {found}"
    )]
    NotTract {
        /// The file.
        path: PathBuf,
        /// What is there instead.
        found: String,
    },
    /// Its schema is older or newer than what is known.
    #[error("{path} has schema version {found}, expected {OLDEST_VERSION} to {NEWEST_VERSION}")]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: String,
    },
    /// A value is none that the original writes.
    #[error("{path}: {what}: expected {expected}, found {found:?}")]
    Value {
        /// The file.
        path: PathBuf,
        /// The row and its column.
        what: String,
        /// What the original writes there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
}

impl PythonError {
    /// Returns what can be done about it.
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
