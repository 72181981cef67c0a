//! Makes deleted bytes unrecoverable in the server's files, as far as a client can.
//!
//! A deleted row stays in the file of its table; `VACUUM` only marks its space as free. `VACUUM
//! FULL` copies the remaining rows into a new file. But it also copies deleted rows that a
//! transaction, a replication slot or a standby may still read. So a new file only counts if there
//! were none of these, which the table's oldest transaction number (`relfrozenxid`) shows.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tokio_postgres::types::{FromSql, Type};
use tract_core::store::WipeReport;
use tract_core::{StoreErrorKind, StoreResult};

use crate::args::Args;
use crate::erase::check_functions;
use crate::error::{damaged, failed, new};
use crate::link::{Connector, Scope, column, first_column};
use crate::schema::{CONTENTS, SWEPT_CUT, SWEPT_WHOLE};
use crate::space::ErasedCuts;
use crate::sweep::LOCK_MS;

const OP: &str = "wipe";
/// The tables that an erasure deletes from: blobs, and data derived from them.
const ERASED_CUT: [&str; 2] = ["blobs", "derived"];
/// The table with the server's samples of column values.
const SAMPLES: &str = "pg_catalog.pg_statistic";
/// The first pause between two attempts. The limits of later pauses are for waiting until no one
/// uses a table, and until a transaction ends.
const PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE_OF_READERS: Duration = Duration::from_millis(100);

/// Makes the server rewrite tables without their deleted rows: the partitions that this handle has
/// erased from, or all tables if it has not erased anything.
pub(crate) async fn wipe(link: &Connector) -> StoreResult<WipeReport> {
    check_functions(link, OP)?;
    // Taken before the files are rewritten: an erasure during the rewrite is recorded for the next
    // wipe.
    let cuts = std::mem::take(&mut *link.erased_cuts());
    let wiped = wipe_cuts(link, &cuts).await;
    if wiped.is_err() {
        link.erased_cuts().extend(cuts);
    }
    wiped
}

async fn wipe_cuts(link: &Connector, cuts: &ErasedCuts) -> StoreResult<WipeReport> {
    let table = |name: String| format!("\"{}\".{name}", link.schema);
    let known: Option<BTreeSet<u16>> = cuts.iter().copied().collect();
    // The names for the message, and the tables to rewrite. A partitioned table has no file of its
    // own.
    let (named, tables): (Vec<String>, Vec<String>) = match known.filter(|cuts| !cuts.is_empty()) {
        Some(cuts) => {
            let of = |cut| ERASED_CUT.map(|name| table(format!("{name}_{cut}")));
            let tables: Vec<String> = cuts.into_iter().flat_map(of).collect();
            (tables.clone(), tables)
        }
        None => {
            let sql = "SELECT partitions FROM {s}.tract_store";
            let partitions: i32 = ask(link, sql, Args::new()).await?;
            let of = |cut| SWEPT_CUT.map(|name| table(format!("{name}_{cut}")));
            let whole = SWEPT_WHOLE.map(|name| table(name.to_owned()));
            let named = SWEPT_CUT.map(|name| table(name.to_owned()));
            let tables = (0..partitions).flat_map(of).chain(whole.clone()).collect();
            (named.into_iter().chain(whole).collect(), tables)
        }
    };
    let owns = "SELECT coalesce(bool_and(pg_has_role(relowner, 'USAGE')), false) \
                FROM pg_catalog.pg_class WHERE oid = ANY ($1::text[]::regclass[])";
    if !ask(link, owns, Args::new().with(tables.clone(), Type::TEXT_ARRAY)).await? {
        let message = format!(
            "this role does not own the tables, whose files still hold deleted rows: the role that \
             owns them runs `tract erase --finish`, or `VACUUM FULL {}`",
            named.join(", ")
        );
        return Err(new(StoreErrorKind::ReadOnly, OP, message));
    }
    let wiper = TableRewriter::new(link).await?;
    wiper.wait_for_readers().await?;
    for table in &tables {
        wiper.rewrite(table).await?;
    }
    let mut remains = Vec::new();
    remains.extend(wipe_samples(link).await?);
    remains.push(log_note(link).await?);
    Ok(WipeReport::new(remains))
}

/// Removes contents from the planner's samples. Newer stores are never sampled; older ones are
/// sampled until they are wiped once. Returns a note about any remaining step.
async fn wipe_samples(link: &Connector) -> StoreResult<Option<String>> {
    let sampled = "SELECT coalesce(attstattarget, -1)::integer <> 0 FROM pg_catalog.pg_attribute \
                   WHERE attrelid = '{s}.blobs'::regclass AND attname = 'data'";
    if !ask(link, sampled, Args::new()).await? {
        return Ok(None);
    }
    // Setting the same type again only drops the samples. The marker that a store is still sampled
    // is the setting of the table `blobs` itself, which has no rows. It stays until the file with
    // the samples is wiped, so that an interrupted wipe is repeated.
    let mut script = String::new();
    for (table, content) in CONTENTS {
        script.push_str(&format!(
            "ALTER TABLE {{s}}.{table} ALTER COLUMN {content} TYPE bytea, \
             ALTER COLUMN {content} SET STATISTICS 0;"
        ));
    }
    script.push_str("ALTER TABLE ONLY {s}.blobs ALTER COLUMN data SET STATISTICS -1");
    alter(link, &script).await?;
    let end = "ALTER TABLE ONLY {s}.blobs ALTER COLUMN data SET STATISTICS 0";
    let owns = "SELECT pg_has_role(datdba, 'USAGE') FROM pg_catalog.pg_database \
                WHERE datname = current_database()";
    if !ask::<bool>(link, owns, Args::new()).await? {
        return Ok(Some(format!(
            "the server may have sampled contents of up to 1 KiB before this version: the owner of \
             the database runs `VACUUM FULL {SAMPLES}; {}`",
            link.sql(end)
        )));
    }
    TableRewriter::new(link).await?.rewrite(SAMPLES).await?;
    alter(link, end).await?;
    Ok(None)
}

/// Changes tables once nothing else uses them.
async fn alter(link: &Connector, script: &str) -> StoreResult<()> {
    let script = link.sql(&format!("SET LOCAL lock_timeout = {LOCK_MS}; {script}"));
    let mut timer = RetryTimer::new(link);
    loop {
        let altered = link.transaction(OP, &Scope::Own, async |object| {
            object.batch_execute(&script).await.map_err(|error| failed(OP, error))
        });
        match altered.await {
            Err(error) if error.kind == StoreErrorKind::Busy => {
                timer.wait("others use the tables").await?;
            }
            altered => return altered,
        }
    }
}

/// Triggers a checkpoint, which lets the server reuse its log files. Returns a note about the
/// places where the bytes remain.
async fn log_note(link: &Connector) -> StoreResult<String> {
    let mut note = "the write-ahead log (pg_wal) of the server and its standbys holds the bytes \
                    until its files are used again, archives and backups as long as they are kept"
        .to_owned();
    match link.maintain(OP, "CHECKPOINT").await {
        Ok(()) => {}
        Err(error) if error.kind == StoreErrorKind::ReadOnly => {
            note.push_str("; `CHECKPOINT`, which this role may not run, lets them be used again");
        }
        Err(error) => return Err(error),
    }
    Ok(note)
}

/// Reads a value that always exists on the server.
async fn ask<T>(link: &Connector, sql: &str, args: Args) -> StoreResult<T>
where
    T: for<'r> FromSql<'r>,
{
    let rows = link.query(OP, &Scope::Own, &link.sql(sql), &args, false).await?;
    first_column(OP, &rows)?.ok_or_else(|| damaged(OP, "expected a value, found none"))
}

/// Limits the retries of an operation to the statement timeout.
struct RetryTimer {
    deadline: Instant,
    pause: Duration,
    longest: Duration,
}

impl RetryTimer {
    fn new(link: &Connector) -> Self {
        let deadline = Instant::now() + link.options.statement_timeout;
        Self { deadline, pause: PAUSE, longest: LONGEST_PAUSE }
    }

    /// Waits before the next attempt.
    async fn wait(&mut self, reason: &str) -> StoreResult<()> {
        if Instant::now() >= self.deadline {
            let message =
                format!("{reason}, so the files still hold deleted rows: wipe again later");
            return Err(new(StoreErrorKind::Busy, OP, message));
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(self.longest);
        Ok(())
    }
}

/// The state of a table's file.
struct TableFile {
    /// The file's number, which changes whenever the table is rewritten.
    number: i64,
    /// Whether no transaction could read rows deleted before the wipe when the table was last
    /// vacuumed.
    is_unread: bool,
}

/// Rewrites tables.
struct TableRewriter<'l> {
    link: &'l Connector,
    /// The number of a transaction that started after all deletions to be wiped.
    since: String,
}

impl<'l> TableRewriter<'l> {
    async fn new(link: &'l Connector) -> StoreResult<Self> {
        let sql = "SELECT (pg_current_xact_id()::xid)::text";
        Ok(Self { link, since: ask(link, sql, Args::new()).await? })
    }

    async fn file(&self, table: &str) -> StoreResult<TableFile> {
        let sql = "SELECT pg_relation_filenode(oid)::bigint, \
                   age(relfrozenxid) <= age($2::text::xid) \
                   FROM pg_catalog.pg_class WHERE oid = $1::text::regclass";
        let args = Args::new().text(table).text(&self.since);
        let rows = self.link.query(OP, &Scope::Own, sql, &args, false).await?;
        let row = rows.first().ok_or_else(|| damaged(OP, format!("the table {table} is gone")))?;
        Ok(TableFile { number: column(OP, row, 0)?, is_unread: column(OP, row, 1)? })
    }

    /// Waits until no transaction can read the deleted rows. Tests that on a table with one row,
    /// because rewriting a large table in vain takes long.
    async fn wait_for_readers(&self) -> StoreResult<()> {
        let table = self.link.sql("{s}.tract_store");
        let vacuum = format!("VACUUM (FREEZE, SKIP_LOCKED) {table}");
        let mut timer = RetryTimer::new(self.link);
        timer.longest = LONGEST_PAUSE_OF_READERS;
        loop {
            self.link.maintain(OP, &vacuum).await?;
            if self.file(&table).await?.is_unread {
                return Ok(());
            }
            let reason = "a transaction, a replication slot or a standby may still read what was \
                          deleted";
            timer.wait(reason).await?;
        }
    }

    /// Rewrites a table. It does not queue for the table's lock, because others would have to wait
    /// behind it. Instead it retries until no other transaction uses the table.
    async fn rewrite(&self, table: &str) -> StoreResult<()> {
        let vacuum = format!("VACUUM (FULL, SKIP_LOCKED) {table}");
        let mut last = self.file(table).await?.number;
        let mut timer = RetryTimer::new(self.link);
        loop {
            self.link.maintain(OP, &vacuum).await?;
            let file = self.file(table).await?;
            if file.number == last {
                timer.wait(&format!("others use the table {table}")).await?;
                continue;
            }
            if file.is_unread {
                return Ok(());
            }
            last = file.number;
            self.wait_for_readers().await?;
        }
    }
}
