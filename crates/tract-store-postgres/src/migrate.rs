//! Opens a store: checks the server and the format, and creates the tables.

use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::Ordering;

use tokio_postgres::Row;
use tract_core::{StoreError, StoreErrorKind, StoreResult};

use crate::args::Args;
use crate::error::{damaged, failed, new};
use crate::link::{Connector, Scope, column, first_column};
use crate::schema::{CONTENTS, CUT, FORMAT, OLDEST_SERVER, WHOLE, in_schema};
use crate::{functions, steps};

const OP: &str = "open";
const TABLES: &str = include_str!("tables.sql");
const ROW_SECURITY: &str = include_str!("row_security.sql");

/// Checks the server and the format. Creates the tables if they are missing and the options allow
/// it.
pub(crate) async fn open(link: &Connector) -> StoreResult<()> {
    let bypasses = check_server(link).await?;
    let found = find(link).await?;
    // The store records that it is protected, so the check does not depend on the options.
    if bypasses && found.as_ref().is_some_and(|found| found.row_security) {
        return Err(bypassing());
    }
    match found {
        Some(found) if (1..FORMAT).contains(&found.format) => {
            let way = (found.format, FORMAT);
            steps::upgrade(link, steps::STEPS, way, found.row_security).await?;
            accept(link, find(link).await?.ok_or_else(missing_format)?).await
        }
        Some(found) => accept(link, found).await,
        None if link.options.create => {
            let found = make(link).await?;
            accept(link, found).await
        }
        None => {
            let message = format!("there is no store in the schema {:?}", link.schema);
            Err(new(StoreErrorKind::NoStore, OP, message))
        }
    }
}

/// Checks the server's settings. Returns whether this role bypasses row-level security.
async fn check_server(link: &Connector) -> StoreResult<bool> {
    let sql = "SELECT current_setting('server_version_num')::int, \
               current_setting('server_encoding'), current_setting('fsync'), \
               current_setting('full_page_writes'), current_setting('synchronous_commit'), \
               (SELECT rolsuper OR rolbypassrls FROM pg_catalog.pg_roles \
                WHERE rolname = current_user), \
               current_setting('default_transaction_isolation')";
    let rows = link.query(OP, &Scope::Own, sql, &Args::new(), false).await?;
    let Some(row) = rows.first() else {
        return Err(new(StoreErrorKind::Engine, OP, "the server does not say what it is"));
    };
    let unsupported = |message| Err(new(StoreErrorKind::Unsupported, OP, message));
    let version: i32 = column(OP, row, 0)?;
    if version < OLDEST_SERVER {
        let (oldest, found) = (OLDEST_SERVER / 10_000, version / 10_000);
        return unsupported(format!("expected PostgreSQL {oldest} or later, found {found}"));
    }
    let encoding: &str = column(OP, row, 1)?;
    if encoding != "UTF8" {
        return unsupported(format!("expected a database encoded in UTF8, found {encoding}"));
    }
    for (index, name) in [(2, "fsync"), (3, "full_page_writes"), (4, "synchronous_commit")] {
        let value: &str = column(OP, row, index)?;
        if value == "off" && !link.options.unsafe_lose_on_power_loss {
            return unsupported(format!(
                "expected {name} = on, found off: a loss of power would take acknowledged writes; \
                 the option unsafe_lose_on_power_loss opens it all the same"
            ));
        }
    }
    // In read committed mode, a write that waited for a sweep sees its deletions.
    let isolation: &str = column(OP, row, 6)?;
    if isolation != "read committed" {
        return unsupported(format!(
            "expected default_transaction_isolation = read committed, found {isolation}: set it so \
             for this role"
        ));
    }
    let bypasses = column::<Option<bool>>(OP, row, 5)? != Some(false);
    if link.options.row_security && bypasses {
        return Err(bypassing());
    }
    Ok(bypasses)
}

fn missing_format() -> StoreError {
    damaged(OP, "the store's row of its format is missing")
}

fn bypassing() -> StoreError {
    let message = "the store has row-level security, and this role would bypass it: connect as a \
                   role that is no superuser and has no BYPASSRLS";
    new(StoreErrorKind::Unsupported, OP, message)
}

/// The properties that a store records about itself.
struct StoreInfo {
    format: i32,
    row_security: bool,
    partitions: i32,
    /// The edition of its functions.
    edition: i32,
}

impl StoreInfo {
    fn sql(link: &Connector) -> String {
        let edition = functions::FIND_EDITION;
        let sql =
            format!("SELECT format, row_security, partitions, {edition} FROM {{s}}.tract_store");
        link.sql(&sql)
    }

    fn read(row: &Row) -> StoreResult<Self> {
        Ok(Self {
            format: column(OP, row, 0)?,
            row_security: column(OP, row, 1)?,
            partitions: column(OP, row, 2)?,
            edition: column(OP, row, 3)?,
        })
    }
}

async fn find(link: &Connector) -> StoreResult<Option<StoreInfo>> {
    let rows = match link.query(OP, &Scope::Own, &StoreInfo::sql(link), &Args::new(), false).await {
        Ok(rows) => rows,
        Err(error) if error.kind == StoreErrorKind::NoStore && is_database(&error) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    rows.first().map(StoreInfo::read).transpose()
}

/// Returns whether the database exists, and only the schema or the table is missing.
fn is_database(error: &StoreError) -> bool {
    let source = error.source.as_deref().and_then(|source| source.downcast_ref());
    let state = source.and_then(tokio_postgres::Error::code);
    state.is_some_and(|state| matches!(state.code(), "3F000" | "42P01"))
}

async fn accept(link: &Connector, found: StoreInfo) -> StoreResult<()> {
    if found.format > FORMAT {
        let (found, known) = (found.format.unsigned_abs(), FORMAT.unsigned_abs());
        let message = format!("the store has format {found}, the newest known is {known}");
        return Err(new(StoreErrorKind::TooNew { found, known }, OP, message));
    }
    if found.format < 1 {
        let message = format!("expected a format from 1 to {FORMAT}, found {}", found.format);
        return Err(damaged(OP, message));
    }
    if link.options.row_security && !found.row_security {
        let message = "the store was made without row-level security: make a new one with it and \
                       copy this one there";
        return Err(new(StoreErrorKind::Invalid, OP, message));
    }
    link.row_security.store(found.row_security, Ordering::Relaxed);
    let partitions = u16::try_from(found.partitions).unwrap_or_default();
    let renewed = found.edition >= functions::EDITION
        || functions::renew(link, partitions, found.row_security).await?;
    link.appends.store(renewed, Ordering::Relaxed);
    Ok(())
}

/// Creates the tables in one transaction. Other processes wait for it.
async fn make(link: &Connector) -> StoreResult<StoreInfo> {
    let partitions = link.options.partitions;
    if !(1..=1024).contains(&partitions) {
        let message = format!("expected 1 to 1,024 partitions, found {partitions}");
        return Err(new(StoreErrorKind::Invalid, OP, message));
    }
    let script = script(link);
    let find = StoreInfo::sql(link);
    let look = format!("SELECT to_regclass('\"{}\".tract_store') IS NOT NULL", link.schema);
    let row_security = link.options.row_security;
    let started = std::time::Instant::now();
    loop {
        let made = link
            .transaction(OP, &Scope::Own, async |object| {
                let fail = |error| failed(OP, error);
                // The second process waits here and then finds the tables.
                link.lock_schema(OP, &object).await?;
                let rows = object.query_typed(&look, &[]).await.map_err(fail)?;
                if first_column(OP, &rows)? != Some(true) {
                    object.batch_execute(&script).await.map_err(fail)?;
                    let partitions = i32::from(partitions);
                    let edition = functions::EDITION;
                    return Ok(StoreInfo { format: FORMAT, row_security, partitions, edition });
                }
                let rows = object.query_typed(&find, &[]).await.map_err(fail)?;
                let found = rows.first().map(StoreInfo::read);
                Ok(found.ok_or_else(missing_format)??)
            })
            .await;
        match made {
            // Two schemas created at once may collide in the catalog.
            Err(error)
                if error.kind == StoreErrorKind::Busy
                    && started.elapsed() < link.options.retry_for =>
            {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            made => return made,
        }
    }
}

fn script(link: &Connector) -> String {
    // Each schema gets a random range of 2^22 repository numbers, so that the numbers of a store
    // that is recreated in the same schema do not overlap with the old ones.
    let start = (RandomState::new().build_hasher().finish() >> 24 << 22) + 1;
    let partitions = link.options.partitions;
    let mut script = TABLES.replace("{start}", &start.to_string());
    for table in CUT {
        for n in 0..partitions {
            let _ = writeln!(
                script,
                "CREATE TABLE {{s}}.{table}_{n} PARTITION OF {{s}}.{table} \
                 FOR VALUES WITH (MODULUS {partitions}, REMAINDER {n});"
            );
        }
    }
    for (table, content) in CONTENTS {
        let _ =
            writeln!(script, "ALTER TABLE {{s}}.{table} ALTER COLUMN {content} SET STATISTICS 0;");
    }
    script.push_str(&functions::script(partitions, link.options.row_security));
    if link.options.row_security {
        script.push_str(ROW_SECURITY);
        let whole = CUT.into_iter().chain(WHOLE).map(str::to_owned);
        whole.for_each(|table| protect(&mut script, &table));
        script.push_str(&protect_partitions(partitions));
    }
    let _ = writeln!(
        script,
        "INSERT INTO {{s}}.tract_store (format, partitions, row_security) \
         VALUES ({FORMAT}, {partitions}, {});",
        link.options.row_security
    );
    in_schema(&script, &link.schema)
}

/// Adds the policy that hides the rows of other repositories in a table.
fn protect(script: &mut String, table: &str) {
    let _ = writeln!(
        script,
        "ALTER TABLE {{s}}.{table} ENABLE ROW LEVEL SECURITY; \
         ALTER TABLE {{s}}.{table} FORCE ROW LEVEL SECURITY; \
         DROP POLICY IF EXISTS this_repo ON {{s}}.{table}; \
         CREATE POLICY this_repo ON {{s}}.{table} \
         USING (repo = {{s}}.this_repo()) WITH CHECK (repo = {{s}}.this_repo());"
    );
}

/// Returns the script that protects the partitions. A statement that names a partition is not
/// subject to the policies of its parent table.
pub(crate) fn protect_partitions(partitions: u16) -> String {
    let mut script = String::new();
    for table in CUT {
        (0..partitions).for_each(|n| protect(&mut script, &format!("{table}_{n}")));
    }
    script
}
