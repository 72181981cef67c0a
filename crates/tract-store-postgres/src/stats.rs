//! Counts the contents of a repository.

use tract_core::store::StoreStats;
use tract_core::{RepoName, StoreResult};

use crate::args::Args;
use crate::error::damaged;
use crate::link::{Connector, Scope, column, first_column};
use crate::read::RepoReader;

/// Returns the size of the schema's tables and indexes on the server's disk, in bytes.
pub(crate) async fn disk_bytes(link: &Connector, op: &'static str) -> StoreResult<u64> {
    let sql = "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint \
               FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               WHERE n.nspname = $1 AND c.relkind IN ('r', 'S')";
    let args = Args::new().text(&link.schema);
    let rows = link.query(op, &Scope::Own, sql, &args, false).await?;
    Ok(first_column::<i64>(op, &rows)?.unwrap_or_default().unsigned_abs())
}

impl RepoReader {
    /// Counts rows and bytes. Reads every row, but only the size of large contents.
    pub(crate) async fn stats(self) -> StoreResult<StoreStats> {
        let mut stats = StoreStats::default();
        let part = |n: u8, what: &str, bytes: &str, table: &str| {
            format!(
                "SELECT {n}::int2, {what}::bigint, coalesce(sum({bytes}), 0)::bigint \
                 FROM {{s}}.{table} WHERE repo = $1"
            )
        };
        let sql = [
            part(0, "count(*)", "length(rec)", "commits"),
            part(1, "count(*)", "length(data)", "blobs"),
            part(2, "count(*)", "0", "toolsets"),
            part(3, "count(DISTINCT hash)", "0", "tools"),
            part(4, "count(*)", "0", "refs"),
            part(5, "count(*)", "0", "ref_log"),
            part(6, "count(*)", "length(data)", "derived"),
        ]
        .join(" UNION ALL ");
        for row in &self.read(&sql, self.args()).await? {
            let rows = column::<i64>(self.op, row, 1)?.unsigned_abs();
            let bytes = column::<i64>(self.op, row, 2)?.unsigned_abs();
            match column::<i16>(self.op, row, 0)? {
                0 => (stats.commits, stats.commit_bytes) = (rows, bytes),
                1 => (stats.blobs, stats.blob_bytes) = (rows, bytes),
                2 => stats.toolsets = rows,
                3 => stats.tools = rows,
                4 => stats.refs = rows,
                5 => stats.log_entries = rows,
                _ => (stats.derived, stats.derived_bytes) = (rows, bytes),
            }
        }
        Ok(stats)
    }
}

/// Returns the names of the repositories, sorted.
pub(crate) async fn repos(link: &Connector) -> StoreResult<Vec<RepoName>> {
    const OP: &str = "repos";
    let sql = link.sql("SELECT name FROM {s}.repos ORDER BY name");
    let rows = link.query(OP, &Scope::Names, &sql, &Args::new(), false).await?;
    let name = |row| {
        let name: String = column(OP, row, 0)?;
        RepoName::new(name).map_err(|_| damaged(OP, "the name of a repository is damaged"))
    };
    rows.iter().map(name).collect()
}
