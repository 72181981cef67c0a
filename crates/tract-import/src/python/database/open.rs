//! Opening a file for reading alone.

use std::path::Path;

use rusqlite::Connection;

use super::PythonError;
use crate::sqlite::{self, OpenError};

/// Opens a file for reading alone.
pub(super) fn open(path: &Path) -> Result<Connection, PythonError> {
    sqlite::open(path).map_err(|error| match error {
        OpenError::File(source) => PythonError::File { path: path.to_owned(), source },
        OpenError::Sqlite(source) => PythonError::Sqlite { path: path.to_owned(), source },
    })
}
