//! Opens a file as immutable, without the side files that SQLite keeps next to it.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use tract_core::StoreError;
use tract_core::store::adjacent_path;

use crate::migrate::is_unwritable;

/// Suffixes of the side files whose contents SQLite has not yet written to the database: the
/// write-ahead log and the rollback journal.
const SIDES: [&str; 2] = ["-wal", "-journal"];

/// Returns whether the database file is complete: the log and the journal are empty or missing. A
/// journal is left by an interrupted transaction, whose pages may be partly in the file.
pub(crate) fn is_whole(path: &Path) -> bool {
    SIDES.iter().all(|side| match std::fs::metadata(adjacent_path(path, side)) {
        Ok(file) => file.len() == 0,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    })
}

/// Adds an explanation and a hint to an error that may be caused by an unreadable log.
pub(crate) fn with_unread_log(mut error: StoreError, path: &Path) -> StoreError {
    let has_writes = |side: &&&str| {
        std::fs::metadata(adjacent_path(path, side)).is_ok_and(|file| file.len() > 0)
    };
    if is_unwritable(&error)
        && std::fs::File::open(path).is_ok()
        && let Some(side) = SIDES.iter().find(has_writes)
    {
        error.message.push_str(&format!(
            "; acknowledged writes are in {} only, and it can be read only where this user may write: \
             copy both files to a folder of your own",
            adjacent_path(path, side).display()
        ));
    }
    error
}

/// Opens a file that no process can write, as immutable.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::new;
    use tract_core::StoreErrorKind;

    #[test]
    fn a_log_that_cannot_be_read_is_named_with_a_way_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.db");
        std::fs::write(&path, "the file").expect("written");
        let error = || new(StoreErrorKind::Unavailable, "open", "unable to open");
        assert_eq!(with_unread_log(error(), &path).message, "unable to open");
        std::fs::write(adjacent_path(&path, "-wal"), "writes").expect("written");
        let message = with_unread_log(error(), &path).message;
        assert!(message.contains("agent.db-wal only") && message.contains("copy both files"));
        // Other errors have other causes.
        let busy = new(StoreErrorKind::Busy, "open", "locked");
        assert_eq!(with_unread_log(busy, &path).message, "locked");
    }
}
