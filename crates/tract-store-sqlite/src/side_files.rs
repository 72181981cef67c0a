//! Side files that belong to another user and cannot be written.
//!
//! A process that may read the database but not write it creates the write-ahead log and its index
//! as its own user's files. It cannot remove them at the end, because that takes a lock for writing.
//! Later, a process of the user who may write the database could only read it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tract_core::store::adjacent_path;
use tract_core::{StoreError, StoreErrorKind};

const LOG: &str = "-wal";
const INDEX: &str = "-shm";

/// Maximum wait for readers. A command that reads ends soon, and a server that reads for hours must
/// not delay commands that only read, too.
const PATIENCE: Duration = Duration::from_millis(500);

/// Removes side files that this user cannot write, if the log is empty and no process uses them.
/// Returns the reason that writes will fail if they stay.
///
/// It opens and closes the files of the database, so no store of this process may have it open.
pub(crate) fn remove_unwritable(path: &Path) -> Option<String> {
    let is_denied = |path: &Path| {
        let opened = File::options().write(true).open(path);
        opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    };
    let side = [LOG, INDEX].map(|suffix| adjacent_path(path, suffix));
    let unwritable = side.iter().find(|side| is_denied(side))?;
    if is_denied(path) {
        return None;
    }
    let reason = match remove(path, &side) {
        Ok(()) => return None,
        Err(reason) => reason,
    };
    Some(format!("{}{} cannot be written, {reason}", unwritable.display(), owner(unwritable)))
}

/// Removes the side files while the database is locked, so that no process uses them.
fn remove(path: &Path, side: &[PathBuf; 2]) -> Result<(), String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    // Every open connection holds a shared lock on the database. In this mode, the first read takes
    // the exclusive one, without using the index, and keeps it until the connection is closed.
    let connection = Connection::open_with_flags(path, flags);
    let locked = connection.and_then(|connection| {
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(connection)
    });
    let _locked = match locked {
        Ok(connection) => connection,
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {
            return Err("and another process has the store open: end it, or wait for it".to_owned());
        }
        Err(error) => return Err(format!("and the database cannot be locked: {error}")),
    };
    let [log, index] = side;
    if std::fs::metadata(log).is_ok_and(|log| log.len() > 0) {
        return Err(
            "and the log contains writes: run a command that writes, such as `tract gc`, as \
                    its user, which moves them into the database"
                .to_owned(),
        );
    }
    for side in [index, log] {
        match std::fs::remove_file(side) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(format!("and this user cannot remove it ({error}): delete it"));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(unix)]
fn owner(path: &Path) -> String {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).map_or_else(|_| String::new(), |f| format!(" of user {}", f.uid()))
}

#[cfg(not(unix))]
fn owner(_: &Path) -> String {
    String::new()
}

/// Adds the reason to an error that it may have caused.
pub(crate) fn with_reason(mut error: StoreError, reason: Option<&str>) -> StoreError {
    if error.kind == StoreErrorKind::ReadOnly
        && let Some(reason) = reason
    {
        error.message.push_str(&format!("; {reason}"));
    }
    error
}
