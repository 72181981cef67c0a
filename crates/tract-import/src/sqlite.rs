//! Opens databases of other programs read-only.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

/// Suffixes of the files in which SQLite keeps changes that are not in the database file yet: the
/// write-ahead log and the rollback journal.
const SIDES: [&str; 2] = ["-wal", "-journal"];

/// The reason why a database could not be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    File(std::io::Error),
    Sqlite(rusqlite::Error),
}

/// Opens a file read-only. A file in WAL mode needs side files, which SQLite cannot create in a
/// folder that is not writable. Without a log or a journal next to it, the file is complete and
/// opened as immutable. With one, SQLite has to apply it, or report that it cannot.
pub(crate) fn open(path: &Path) -> Result<Connection, OpenError> {
    std::fs::File::open(path).map_err(OpenError::File)?;
    let absolute = std::path::absolute(path).map_err(OpenError::File)?;
    if is_whole(&absolute) {
        return open_immutable(&absolute).map_err(OpenError::Sqlite);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(absolute, flags).map_err(OpenError::Sqlite)
}
/// Returns whether a database is complete in its file: no log or journal has any content.
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

/// Opens a file that no process writes, without creating side files.
fn open_immutable(path: &Path) -> rusqlite::Result<Connection> {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            byte if byte.is_ascii() && !b"%?#".contains(byte) => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri.push_str("?mode=ro&immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
}

/// Lists the tables of a database with their columns.
pub(crate) fn tables(database: &Connection) -> rusqlite::Result<Vec<(String, Vec<String>)>> {
    let mut statement =
        database.prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")?;
    let names: Vec<String> =
        statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut tables = Vec::with_capacity(names.len());
    for name in names {
        let mut columns = database.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let columns: Vec<String> =
            columns.query_map([&name], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        tables.push((name, columns));
    }
    Ok(tables)
}

/// Quotes a name for SQL.
#[cfg(feature = "databases")]
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Creates the error for a database that cannot be read.
#[cfg(feature = "databases")]
pub(crate) fn failure(error: impl std::fmt::Display) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, format!("the database: {error}"))
}

/// Opens a database for a reader of conversations.
#[cfg(feature = "databases")]
pub(crate) fn open_database(path: &Path) -> std::io::Result<Connection> {
    open(path).map_err(|error| match error {
        OpenError::File(error) => error,
        OpenError::Sqlite(error) => failure(error),
    })
}

/// Returns whether a database has these tables, each with at least these columns.
#[cfg(feature = "databases")]
pub(crate) fn has_tables(
    database: &Connection,
    wanted: &[(&str, &[&str])],
) -> rusqlite::Result<bool> {
    let tables = tables(database)?;
    Ok(wanted.iter().all(|(name, columns)| {
        let table = tables.iter().find(|(table, _)| table == name);
        table.is_some_and(|(_, has)| columns.iter().all(|wanted| has.iter().any(|n| n == wanted)))
    }))
}

/// Returns whether a file is a database with these tables.
#[cfg(feature = "databases")]
pub(crate) fn is_database_with(path: &Path, wanted: &[(&str, &[&str])]) -> bool {
    open_database(path).is_ok_and(|database| has_tables(&database, wanted).unwrap_or_default())
}
