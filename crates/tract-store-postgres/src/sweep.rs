//! Lists stored objects, deletes the unneeded ones, and releases their space.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use tract_core::store::{
    ListKind, ObjectListing, ObjectPage, SpaceRelease, Sweep, SweepAnswer, WritePosition,
};
use tract_core::{
    BlobId, CommitId, DerivedKind, ObjectId, RepoName, StoreErrorKind, StoreResult, ToolsetId,
};

use crate::append;
use crate::args::{Args, Raw};
use crate::error::damaged;
use crate::hold::{self, OP, SweptRow};
use crate::link::{Connector, Scope, column, first_column, id_column};
use crate::read::RepoReader;
use crate::schema::{SWEPT_CUT, SWEPT_WHOLE};
use crate::{functions, stats, tools};

/// How long a sweep or an erasure waits for writers in progress, and others wait behind it, in
/// milliseconds. After that it pauses and tries again.
pub(crate) const LOCK_MS: i32 = 40;
/// The first pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

pub(crate) fn lock_ms(link: &Connector) -> i32 {
    link.lock_ms().min(LOCK_MS)
}

/// Returns a page of objects in id order. The cursor is the first eight bytes of an id, so a page
/// always ends after all ids with the same eight bytes.
pub(crate) async fn list(reader: RepoReader, listing: ObjectListing) -> StoreResult<ObjectPage> {
    let op = reader.op;
    let (table, content) = match listing.kind {
        ListKind::Commits => ("commits", "rec"),
        ListKind::Toolsets => ("toolsets", "data"),
        ListKind::Blobs => ("blobs", "data"),
    };
    let limit = i64::try_from(listing.limit.max(1)).unwrap_or(i64::MAX);
    // The server knows the length of a content without reading it.
    let sql = format!(
        "WITH page AS MATERIALIZED (SELECT hash, octet_length({content}) AS size \
         FROM {{s}}.{table} WHERE repo = $1 AND hash >= $2 ORDER BY hash LIMIT $3), \
         last AS MATERIALIZED (SELECT hash FROM page ORDER BY hash DESC LIMIT 1) \
         SELECT hash, size FROM page UNION ALL \
         SELECT hash, octet_length({content}) FROM {{s}}.{table} \
         WHERE repo = $1 AND hash > (SELECT hash FROM last) \
         AND hash <= (SELECT substring(hash FOR 8) || decode(repeat('ff', 24), 'hex') FROM last)"
    );
    let args = reader.args().id(&listing.after.to_be_bytes()).int(limit);
    let rows = reader.read(&sql, args).await?;
    let mut page = ObjectPage::default();
    let mut last = 0;
    for row in &rows {
        let id = id_column(op, row, 0)?;
        let size = u64::from(column::<i32>(op, row, 1)?.unsigned_abs());
        let (first, _) = id.split_first_chunk::<8>().expect("an id has 32 bytes");
        last = last.max(u64::from_be_bytes(*first));
        let object = match listing.kind {
            ListKind::Commits => ObjectId::Commit(CommitId::from_bytes(id)),
            ListKind::Toolsets => ObjectId::Toolset(ToolsetId::from_bytes(id)),
            ListKind::Blobs => ObjectId::Blob(BlobId::from_bytes(id)),
        };
        page.objects.push((object, size));
    }
    let is_full = rows.len() >= listing.limit.max(1);
    page.next = if is_full { last.checked_add(1) } else { None };
    Ok(page)
}

/// Runs a function of this edition that waits for writers, with short waits and pauses in between.
async fn between_writers(
    link: &Connector,
    op: &'static str,
    writes: bool,
    sql: &str,
    args: &Args,
) -> StoreResult<Vec<Row>> {
    let end = Instant::now() + link.options.statement_timeout;
    let mut pause = PAUSE;
    loop {
        match link.query(op, &Scope::Own, sql, args, writes).await {
            Err(error) if error.kind == StoreErrorKind::Busy && Instant::now() < end => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            answer => return answer,
        }
    }
}

/// Fails if writes use functions of another edition than this build's.
fn check_functions(link: &Connector, op: &'static str) -> StoreResult<()> {
    functions::check(link, op, "which do not wait for a sweep")
}

/// Waits once for writes that functions of an earlier edition began.
pub(crate) async fn settle(link: &Connector, op: &'static str) -> StoreResult<()> {
    if link.swept().is_settled {
        return Ok(());
    }
    let args = Args::new().with(lock_ms(link), Type::INT4);
    let sql = link.sql("SELECT {s}.settle($1)");
    match between_writers(link, op, false, &sql, &args).await {
        Ok(_) => link.swept().is_settled = true,
        // A role that may not lock the tables may not delete from them either.
        Err(error) if error.kind == StoreErrorKind::ReadOnly => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Returns the position of the last write, once no write is in progress.
pub(crate) async fn position(link: &Connector, repo: &RepoName) -> StoreResult<WritePosition> {
    const OP: &str = "write_position";
    check_functions(link, OP)?;
    settle(link, OP).await?;
    let args = Args::new().text(repo.as_str()).with(lock_ms(link), Type::INT4);
    let sql = link.sql("SELECT log, unlogged FROM {s}.write_position($1, $2)");
    let rows = between_writers(link, OP, false, &sql, &args).await?;
    let row = rows.first().ok_or_else(|| damaged(OP, "expected a position, found none"))?;
    Ok(write_position(column(OP, row, 0)?, column(OP, row, 1)?))
}

pub(crate) fn write_position(log: i64, unlogged: i64) -> WritePosition {
    WritePosition { log: log.unsigned_abs(), unlogged: unlogged.unsigned_abs() }
}

/// Returns a part of a position as the functions of the store take it.
pub(crate) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Deletes objects if nothing was written since the sweep's position.
pub(crate) async fn sweep(
    link: &Arc<Connector>,
    repo: &RepoName,
    sweep: &Sweep,
) -> StoreResult<SweepAnswer> {
    check_functions(link, OP)?;
    let [mut commits, mut blobs, mut toolsets, mut indexed]: [Vec<Raw>; 4] = Default::default();
    for object in &sweep.objects {
        let list = match object {
            ObjectId::Commit(_) => &mut commits,
            ObjectId::Blob(_) => &mut blobs,
            ObjectId::Toolset(_) => &mut toolsets,
            ObjectId::Tool(_) => &mut indexed,
        };
        list.push(Raw::id(object.as_bytes()));
    }
    let kinds: Vec<i16> = DerivedKind::ALL.iter().map(|kind| i16::from(kind.number())).collect();
    let args = Args::new()
        .text(repo.as_str())
        .with(lock_ms(link), Type::INT4)
        .with(link.options.unsafe_lose_on_power_loss, Type::BOOL)
        .int(number(sweep.position.log))
        .int(number(sweep.position.unlogged))
        .with(kinds, Type::INT2_ARRAY)
        .raws(commits)
        .raws(blobs)
        .raws(toolsets)
        .raws(indexed);
    let args = tools::arguments(args, &sweep.tools);
    let parameters: Vec<String> = (1..=14).map(|n| format!("${n}")).collect();
    let sql = format!(
        "SELECT done, log, unlogged, freed, place FROM {{s}}.sweep({})",
        parameters.join(", ")
    );
    let sql = link.sql(&sql);
    let row =
        SweptRow::read(&sent(link, repo, &sql, args, number(sweep.position.unlogged)).await?)?;
    let mut swept = link.swept();
    if !row.done {
        swept.is_contended = true;
        return Ok(SweepAnswer::Moved(write_position(row.log, row.unlogged)));
    }
    swept.bytes += row.freed.unsigned_abs();
    swept.cuts.insert(row.place.as_deref().and_then(append::partition));
    Ok(SweepAnswer::Done)
}

/// Sends a sweep. It runs in the transaction of a sweep that keeps the lock, if there is one; if
/// others are writing, it becomes one itself. Sending it twice is harmless: the second one finds
/// the objects gone, or that others have written.
async fn sent(
    link: &Arc<Connector>,
    repo: &RepoName,
    sql: &str,
    args: Args,
    unlogged: i64,
) -> StoreResult<Vec<Row>> {
    let args = Arc::new(args);
    if let Some(Ok(rows)) = hold::next(link, repo, Arc::clone(&args)).await {
        return Ok(rows);
    }
    let is_contended = std::mem::take(&mut link.swept().is_contended);
    // The collector's marking needs a connection too.
    if is_contended && link.has_spare_connections(2) {
        let held = hold::begin(link, repo, sql, Arc::clone(&args), unlogged).await;
        if let Ok(rows) = held {
            return Ok(rows);
        }
    }
    between_writers(link, OP, true, sql, &args).await
}

/// Runs `VACUUM` on the swept tables if this role may. Returns a note about any remaining steps.
pub(crate) async fn release_space(link: &Connector) -> StoreResult<SpaceRelease> {
    const OP: &str = "release_space";
    let before = stats::disk_bytes(link, OP).await?;
    let (bytes, cuts) = {
        let mut swept = link.swept();
        (std::mem::take(&mut swept.bytes), std::mem::take(&mut swept.cuts))
    };
    if cuts.is_empty() {
        return Ok(SpaceRelease::new(before, before, None));
    }
    let whole = SWEPT_WHOLE.iter().map(|table| format!("\"{}\".{table}", link.schema));
    let tables: Vec<String> = cuts
        .iter()
        .flat_map(|cut| {
            let cut = cut.map(|cut| format!("_{cut}")).unwrap_or_default();
            SWEPT_CUT.iter().map(move |table| format!("\"{}\".{table}{cut}", link.schema))
        })
        .chain(whole)
        .collect();
    let all = tables.join(", ");
    let deleted = format!("about {bytes} bytes of rows are deleted");
    let sql = link.sql(
        "SELECT pg_has_role(relowner, 'USAGE') FROM pg_catalog.pg_class \
         WHERE oid = '{s}.commits'::regclass",
    );
    let rows = link.query(OP, &Scope::Own, &sql, &Args::new(), false).await?;
    if first_column::<bool>(OP, &rows)? != Some(true) {
        let note = format!(
            "{deleted}; PostgreSQL reuses their space after `VACUUM {all}`, which the role that owns \
             the tables runs, or autovacuum"
        );
        return Ok(SpaceRelease::new(before, before, Some(note)));
    }
    for table in &tables {
        // `SKIP_LOCKED` skips a table that autovacuum is processing already.
        let sql = format!("VACUUM (SKIP_LOCKED) {table}");
        match link.once(OP, &Scope::Own, &sql, &Args::new(), None).await {
            Ok(_) => {}
            Err(failed) => {
                let error = failed.error;
                let note = format!(
                    "{deleted}; `VACUUM {table}` ended early ({}): run `VACUUM {all}`",
                    error.message
                );
                let after = stats::disk_bytes(link, OP).await?;
                return Ok(SpaceRelease::new(before, after, Some(note)));
            }
        }
    }
    let after = stats::disk_bytes(link, OP).await?;
    let given = before.saturating_sub(after);
    let note = (given < bytes).then(|| {
        format!(
            "{deleted}, and VACUUM gave {given} bytes to the file system; the rest holds new rows. \
             `VACUUM FULL {all}` gives that back too, and locks the tables while it runs"
        )
    });
    Ok(SpaceRelease::new(before, after, note))
}
