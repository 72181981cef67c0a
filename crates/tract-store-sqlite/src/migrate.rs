//! Opens, validates and creates the database file.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use tract_core::{StoreError, StoreErrorKind, StoreResult};

use crate::SqliteOptions;
use crate::error::{damaged, engine, new};
use crate::schema::{APPLICATION_ID, FORMAT, TABLES};
use crate::{steps, uri};

/// Page cache of a reading connection. Readers visit most pages once, and other connections'
/// commits empty the cache. A small one keeps the pages of a walk in the processor's cache, which
/// saves a tenth of the time.
pub(crate) const READER_KIB: i64 = 512;
/// Page cache during a check, which visits some pages repeatedly.
pub(crate) const CHECKER_KIB: i64 = 8_000;
/// Page cache of the writing connection. A large write changes all pages of the hash indexes, and
/// pages that do not fit into the cache are written to the log several times.
pub(crate) const WRITER_KIB: i64 = 32_000;

/// The oldest SQLite version without a known bug that corrupts databases in WAL mode.
const OLDEST_SQLITE: i32 = 3_051_003;

/// Inspects the file before SQLite opens it, so that files of other programs are not changed.
pub(crate) fn inspect_file(path: &Path, options: &SqliteOptions) -> StoreResult<()> {
    let refused = |kind, message: String| Err(new(kind, "open", message));
    let unavailable = |error: std::io::Error, what: String| {
        new(StoreErrorKind::Unavailable, "open", format!("{what}: {error}")).with_source(error)
    };
    if rusqlite::version_number() < OLDEST_SQLITE {
        let found = rusqlite::version();
        return refused(
            StoreErrorKind::Unsupported,
            format!("expected SQLite 3.51.3 or later, found {found}"),
        );
    }
    let shown = path.display();
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if options.create && !options.read_only {
                let Some(folder) = path.parent() else { return Ok(()) };
                let what = format!("the folder {} cannot be made", folder.display());
                return std::fs::create_dir_all(folder).map_err(|error| unavailable(error, what));
            }
            return refused(StoreErrorKind::NoStore, format!("there is no file {shown}"));
        }
        Err(error) => return Err(unavailable(error, format!("{shown} cannot be opened"))),
    };
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return refused(StoreErrorKind::NotAStore, format!("{shown} is a folder"));
    }
    let mut head = Vec::with_capacity(16);
    if let Err(error) = file.by_ref().take(16).read_to_end(&mut head) {
        return Err(unavailable(error, format!("{shown} cannot be read")));
    }
    match head.as_slice() {
        b"SQLite format 3\0" => Ok(()),
        // Another process may have died right after it created the file.
        [] if options.create && !options.read_only => Ok(()),
        [] => refused(StoreErrorKind::NoStore, format!("{shown} is empty")),
        _ => refused(
            StoreErrorKind::NotAStore,
            format!("expected an SQLite database, found something else in {shown}"),
        ),
    }
}

/// The access mode of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Write,
    Read,
    /// Reads without locks and side files, because no process can write the file.
    Immutable,
}

/// Opens a store's first connection. Returns the actual access: SQLite opens a file for reading if
/// it may not write it.
pub(crate) fn opened(
    path: &Path,
    access: Access,
    options: &SqliteOptions,
) -> StoreResult<(Connection, Access)> {
    let mut connection = connect(path, access, options)?;
    let access = match access {
        Access::Write if connection.is_readonly("main").map_err(engine("open"))? => Access::Read,
        access => access,
    };
    prepare(&mut connection, path, options, access != Access::Write)?;
    if access == Access::Write {
        prepare_writer(&connection, options)?;
    }
    Ok((connection, access))
}

/// Returns whether an error may mean that the file, or a file next to it, is not writable.
pub(crate) fn is_unwritable(error: &StoreError) -> bool {
    matches!(error.kind, StoreErrorKind::ReadOnly | StoreErrorKind::Unavailable)
}

/// Opens a connection with the settings that all connections need.
pub(crate) fn connect(
    path: &Path,
    access: Access,
    options: &SqliteOptions,
) -> StoreResult<Connection> {
    let open = || {
        let flags = match access {
            Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
            Access::Read | Access::Immutable => OpenFlags::SQLITE_OPEN_READ_ONLY,
        };
        // The path is already resolved, so a link in it is new and points to a different file.
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let connection = match access {
            Access::Immutable => uri::open_immutable(path, flags)?,
            Access::Read | Access::Write => Connection::open_with_flags(path, flags)?,
        };
        connection.busy_timeout(options.busy_timeout)?;
        connection.set_prepared_statement_cache_capacity(64);
        // Without QPSG, SQLite prepares a statement again whenever a bound value could change its
        // plan.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.execute_batch(
            "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; \
             PRAGMA temp_store = MEMORY; PRAGMA fullfsync = ON;",
        )?;
        cache(&connection, READER_KIB)?;
        Ok(connection)
    };
    open().map_err(engine("open")).map_err(|error| at(path, error))
}

/// Adds the path to errors about opening or writing the file.
fn at(path: &Path, mut error: StoreError) -> StoreError {
    if is_unwritable(&error) {
        error.message = format!("{}: {}", path.display(), error.message);
    }
    error
}

/// Applies the settings of the writing connection.
pub(crate) fn prepare_writer(connection: &Connection, options: &SqliteOptions) -> StoreResult<()> {
    // FULL flushes the log before a commit returns. The gap detection in `wal` relies on it too: no
    // transaction may be written before the previous one is flushed.
    let synchronous = if options.unsafe_lose_on_power_loss { "NORMAL" } else { "FULL" };
    // FAST overwrites deleted rows only in pages that are written anyway; garbage collection
    // truncates or reuses freed pages. A checkpoint runs every 16 MiB of log. With the default of 4
    // MiB, checkpoints take a third of the time of a batched write.
    connection
        .execute_batch(&format!(
            "PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = 4000; \
             PRAGMA secure_delete = FAST;"
        ))
        .and_then(|()| cache(connection, WRITER_KIB))
        .map_err(engine("open"))
}

/// Sets the page cache of a connection, in KiB.
pub(crate) fn cache(connection: &Connection, kib: i64) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_size", -kib)
}

/// The result of inspecting a database.
enum StoreKind {
    Empty,
    Ours,
    /// A store of an earlier format.
    Older,
}

fn inspect(connection: &Connection, path: &Path) -> StoreResult<StoreKind> {
    let read = |name: &str| {
        connection
            .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
            .map_err(engine("open"))
    };
    let (application, version) = (read("application_id")?, read("user_version")?);
    let mut schema = connection
        .prepare(
            "SELECT name, sql FROM sqlite_schema \
             WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
        )
        .map_err(engine("open"))?;
    let tables = schema
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(engine("open"))?;
    if application == 0 && version == 0 && tables.is_empty() {
        return Ok(StoreKind::Empty);
    }
    if application != i64::from(APPLICATION_ID) {
        let message = format!("{} is a database of another program", path.display());
        return Err(new(StoreErrorKind::NotAStore, "open", message));
    }
    if version > i64::from(FORMAT) {
        let found = u32::try_from(version).unwrap_or(u32::MAX);
        let message = format!("the store has format {found}, the newest known is {FORMAT}");
        return Err(new(StoreErrorKind::TooNew { found, known: FORMAT }, "open", message));
    }
    if version > 0 && version < i64::from(FORMAT) {
        return Ok(StoreKind::Older);
    }
    let expected = TABLES.iter().map(|(name, sql)| (*name, *sql));
    if version == i64::from(FORMAT)
        && expected.eq(tables.iter().map(|(name, sql)| (name.as_str(), sql.as_str())))
    {
        Ok(StoreKind::Ours)
    } else {
        Err(damaged("open", format!("the tables are not those of format {version}")))
    }
}

/// Inspects the database in one transaction, because another process may be creating it.
fn inspect_at_once(connection: &mut Connection, path: &Path) -> StoreResult<StoreKind> {
    let moment = connection.transaction().map_err(engine("open"))?;
    let found = inspect(&moment, path)?;
    moment.finish().map_err(engine("open"))?;
    Ok(found)
}

/// Checks that the database is a store of a known format. Creates the tables if it is empty.
pub(crate) fn prepare(
    connection: &mut Connection,
    path: &Path,
    options: &SqliteOptions,
    read_only: bool,
) -> StoreResult<()> {
    let found = match inspect_at_once(connection, path).map_err(|error| at(path, error))? {
        StoreKind::Older if read_only => {
            let message = format!(
                "{} has an earlier format than {FORMAT}: open it for writing once, which brings it \
                 to that and leaves a copy",
                path.display()
            );
            return Err(new(StoreErrorKind::ReadOnly, "open", message));
        }
        StoreKind::Older => {
            steps::upgrade(connection, path, steps::STEPS, FORMAT)?;
            inspect_at_once(connection, path)?
        }
        found => found,
    };
    match found {
        StoreKind::Older => return Err(damaged("open", "a migration did not reach its format")),
        StoreKind::Ours if read_only => return Ok(()),
        StoreKind::Ours => return enter_wal(connection, options.busy_timeout),
        StoreKind::Empty if read_only || !options.create => {
            let message = format!("{} is an empty database", path.display());
            return Err(new(StoreErrorKind::NoStore, "open", message));
        }
        StoreKind::Empty => {}
    }
    // Lets the file shrink in steps after garbage collection. The setting only takes effect on an
    // empty file.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(engine("open"))?;
    enter_wal(connection, options.busy_timeout)?;
    let begun = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(engine("open"))?;
    // Another process may have created the tables first.
    if let StoreKind::Ours = inspect(&begun, path)? {
        return Ok(());
    }
    for (_, sql) in TABLES {
        begun.execute_batch(sql).map_err(engine("open"))?;
    }
    begun
        .execute_batch(&format!(
            "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT};"
        ))
        .and_then(|()| begun.commit())
        .map_err(engine("open"))?;
    // Makes the file's name as durable as its content. Systems that cannot flush a folder do not
    // need it.
    if let Some(folder) = path.parent().and_then(|folder| File::open(folder).ok()) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Switches to the write-ahead log. SQLite does not apply the busy timeout here, so retry.
fn enter_wal(connection: &Connection, patience: Duration) -> StoreResult<()> {
    let start = Instant::now();
    loop {
        let mode = connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0))
            .map_err(engine("open"));
        match mode {
            Ok(mode) if mode.eq_ignore_ascii_case("wal") => return Ok(()),
            Ok(mode) => {
                let message = format!("expected journal mode wal, found {mode}");
                return Err(new(StoreErrorKind::Unsupported, "open", message));
            }
            Err(error) if error.kind == StoreErrorKind::Busy && start.elapsed() < patience => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
        }
    }
}
