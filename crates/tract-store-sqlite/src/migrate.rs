//! Opening a file: what it must be, and how it is made.

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

/// Who reads comes to most pages once, and commits of others empty its cache: a small one keeps
/// what a walk reads near the processor, which saves it a tenth of its time.
pub(crate) const READER_KIB: i64 = 512;
/// Who checks all there is comes to some pages again.
pub(crate) const CHECKER_KIB: i64 = 8_000;
/// Who writes comes to pages again: those of the indexes by hash, of which a
/// large write changes all. Where they do not fit, they are written to the log several times.
pub(crate) const WRITER_KIB: i64 = 32_000;

/// The oldest SQLite without a known way to damage a database in WAL mode.
const OLDEST_SQLITE: i32 = 3_051_003;

/// Looks at the file before SQLite does, so that nothing foreign is touched.
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
        // A process may have died right after it made the file.
        [] if options.create && !options.read_only => Ok(()),
        [] => refused(StoreErrorKind::NoStore, format!("{shown} is empty")),
        _ => refused(
            StoreErrorKind::NotAStore,
            format!("expected an SQLite database, found something else in {shown}"),
        ),
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Write,
    Read,
    /// As it is, without locks and side files: no process can write it.
    Immutable,
}

/// Opens a store's first connection and says how the file could be opened: SQLite reads where it
/// may not write.
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

/// Whether an error may say that the file, or a file next to it, cannot be written.
pub(crate) fn is_unwritable(error: &StoreError) -> bool {
    matches!(error.kind, StoreErrorKind::ReadOnly | StoreErrorKind::Unavailable)
}

/// Opens a connection and sets what every connection needs.
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
        // The path is resolved: a link in it came since, and leads to another file.
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let connection = match access {
            Access::Immutable => uri::open_immutable(path, flags)?,
            Access::Read | Access::Write => Connection::open_with_flags(path, flags)?,
        };
        connection.busy_timeout(options.busy_timeout)?;
        connection.set_prepared_statement_cache_capacity(64);
        // Otherwise a statement is prepared again for each bound value that its plan could depend
        // on.
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

/// Names the file in an error that says that it cannot be opened or written.
fn at(path: &Path, mut error: StoreError) -> StoreError {
    if is_unwritable(&error) {
        error.message = format!("{}: {}", path.display(), error.message);
    }
    error
}

/// Sets what the one connection that writes needs.
pub(crate) fn prepare_writer(connection: &Connection, options: &SqliteOptions) -> StoreResult<()> {
    // FULL flushes the log before a commit is answered. What `wal` says of a damaged log rests on
    // that as well: no transaction is written before the one ahead of it is flushed.
    let synchronous = if options.unsafe_lose_on_power_loss { "NORMAL" } else { "FULL" };
    // Deleted rows are overwritten in pages that are written anyway; freed pages are cut off or used
    // again when garbage is collected.
    // A checkpoint every 16 MiB of log: with the default of 4 they are a third of a batched write.
    connection
        .execute_batch(&format!(
            "PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = 4000; \
             PRAGMA secure_delete = FAST;"
        ))
        .and_then(|()| cache(connection, WRITER_KIB))
        .map_err(engine("open"))
}

/// Sets how many KiB of pages a connection keeps.
pub(crate) fn cache(connection: &Connection, kib: i64) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_size", -kib)
}

/// What a database says of itself.
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

/// Inspects all of it as of one moment: another process may be making it just now.
fn inspect_at_once(connection: &mut Connection, path: &Path) -> StoreResult<StoreKind> {
    let moment = connection.transaction().map_err(engine("open"))?;
    let found = inspect(&moment, path)?;
    moment.finish().map_err(engine("open"))?;
    Ok(found)
}

/// Checks that the database is a store of a known format; makes it one when it is empty.
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
    // So that the file shrinks in steps when garbage is collected; only an empty file takes it.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(engine("open"))?;
    enter_wal(connection, options.busy_timeout)?;
    let begun = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(engine("open"))?;
    // Another process may have been faster.
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
    // So that the file's name lasts like its content; where folders cannot be flushed, the
    // operating system does it by itself.
    if let Some(folder) = path.parent().and_then(|folder| File::open(folder).ok()) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Switches to the write-ahead log. SQLite does not wait for others here, so we do.
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
