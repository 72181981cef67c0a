//! Counts the contents of a repository.

use std::path::Path;

use rusqlite::{Connection, params};
use tract_core::store::{StoreStats, adjacent_path};
use tract_core::{RepoName, StoreResult};

use crate::error::{damaged, engine};
use crate::read::{RepoReader, statement};
use crate::schema::{DERIVED, DERIVED_LAST, REPO, TOOL_NAME, TOOLSET, log_base};

/// Counts rows and bytes. Reads every row but skips large contents.
pub(crate) fn stats(reader: RepoReader<'_>) -> StoreResult<StoreStats> {
    let RepoReader { connection, op, repo } = reader;
    let count = |sql: &str, low: i64, high: i64| -> StoreResult<(u64, u64)> {
        statement(connection, op, sql)?
            .query_row(params![repo, low, high], |row| Ok((row.get(0)?, row.get(1)?)))
            .map(|(rows, bytes): (i64, i64)| (rows.unsigned_abs(), bytes.unsigned_abs()))
            .map_err(engine(op))
    };
    let small = "SELECT count(*), coalesce(sum(length(data)), 0) FROM small \
                 WHERE repo = ?1 AND kind BETWEEN ?2 AND ?3";
    let all = |table: &str, column: &str| {
        format!(
            "SELECT count(*), coalesce(sum(length({column})), 0) FROM {table} \
             WHERE repo = ?1 AND ?2 IS NOT NULL AND ?3 IS NOT NULL"
        )
    };
    let log = "SELECT count(*), 0 FROM ref_log WHERE ?1 IS NOT NULL AND id > ?2 AND id <= ?3";
    let tools = "SELECT count(DISTINCT substr(data, 1, 32)), 0 FROM small \
                 WHERE repo = ?1 AND kind BETWEEN ?2 AND ?3";
    let mut stats = StoreStats::default();
    (stats.commits, stats.commit_bytes) = count(&all("commits", "rec"), 0, 0)?;
    (stats.blobs, stats.blob_bytes) = count(&all("blobs", "data"), 0, 0)?;
    (stats.refs, _) = count(&all("refs", "target"), 0, 0)?;
    (stats.toolsets, _) = count(small, TOOLSET, TOOLSET)?;
    (stats.tools, _) = count(tools, TOOL_NAME, TOOL_NAME)?;
    (stats.derived, stats.derived_bytes) = count(small, DERIVED, DERIVED_LAST)?;
    (stats.log_entries, _) = count(log, log_base(repo), log_base(repo + 1))?;
    Ok(stats)
}

/// Returns the bytes that the database and its write-ahead log take on disk.
pub(crate) fn disk_bytes(path: &Path) -> u64 {
    [path, &adjacent_path(path, "-wal")]
        .iter()
        .filter_map(|file| std::fs::metadata(file).ok())
        .map(|file| file.len())
        .sum()
}

/// Returns the names of the repositories, sorted.
pub(crate) fn repos(connection: &Connection) -> StoreResult<Vec<RepoName>> {
    const OP: &str = "repos";
    let mut names = Vec::new();
    RepoReader::new(connection, OP, 0).each_small(REPO, |_, _, data| {
        let name = data
            .and_then(|data| std::str::from_utf8(data.get(8..)?).ok())
            .and_then(|name| RepoName::new(name).ok());
        names.push(name.ok_or_else(|| damaged(OP, "the name of a repository is damaged"))?);
        Ok(())
    })?;
    names.sort_unstable();
    Ok(names)
}
