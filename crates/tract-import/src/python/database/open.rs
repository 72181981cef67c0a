//! Opening a file for reading alone.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::PythonError;

/// What SQLite keeps next to a file until it is written into it: the write-ahead log and the
/// rollback journal.
const SIDES: [&str; 2] = ["-wal", "-journal"];

/// Opens a file for reading alone. A file left in WAL mode needs side files, which may not be made
/// in a folder that cannot be written to; without a log or a journal next to it, it is whole as it
/// is. With one, SQLite has to bring both together, or to report that it cannot.
pub(super) fn open(path: &Path) -> Result<Connection, PythonError> {
    let sqlite = |source| PythonError::Sqlite { path: path.to_owned(), source };
    let file = |source| PythonError::File { path: path.to_owned(), source };
    std::fs::File::open(path).map_err(file)?;
    let absolute = std::path::absolute(path).map_err(file)?;
    if is_whole(&absolute) {
        return open_immutable(&absolute).map_err(sqlite);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(absolute, flags).map_err(sqlite)
}

/// Whether all of a database is in its file: no log and no journal has anything in it.
fn is_whole(path: &Path) -> bool {
    SIDES.iter().all(|side| {
        let mut name = path.as_os_str().to_owned();
        name.push(side);
        match std::fs::metadata(name) {
            Ok(file) => file.len() == 0,
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        }
    })
}

/// Opens a file that no process writes, without making side files.
fn open_immutable(path: &Path) -> rusqlite::Result<Connection> {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'%' | b'?' | b'#' => uri.push_str(&format!("%{byte:02x}")),
            byte if byte.is_ascii() => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri.push_str("?mode=ro&immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
}
