//! Reading a file as it lies, without the files that SQLite keeps next to it.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

/// The endings of what SQLite keeps next to a file until it is written into it: the write-ahead log
/// and the rollback journal.
const SIDES: [&str; 2] = ["-wal", "-journal"];

/// Returns the path of a file that SQLite keeps next to another.
pub(crate) fn sibling_path(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Whether all of a database is in its file: there is no log and no journal with anything in it.
/// A journal says that a transaction broke off, and that the file has pages of both sides of it.
pub(crate) fn is_whole(path: &Path) -> bool {
    SIDES.iter().all(|side| match std::fs::metadata(sibling_path(path, side)) {
        Ok(file) => file.len() == 0,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    })
}

/// Opens a file that no process writes, for reading as it is.
pub(crate) fn open_immutable(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'%' | b'?' | b'#' => uri.push_str(&format!("%{byte:02x}")),
            byte if byte.is_ascii() => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri.push_str("?mode=ro&immutable=1");
    Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
}
