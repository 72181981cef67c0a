//! Refs and the ref log.

use std::collections::HashMap;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use tract_core::store::LogQuery;
use tract_core::{BatchId, LogEntry, RefName, RefTarget, RepoName, StoreResult};

use crate::args::Args;
use crate::error::damaged;
use crate::link::column;
use crate::read::RepoReader;
use crate::schema::{decode_note, log_sum, log_sum_of_server, ref_sum};

/// Reads a row of `name, target, sum`: the name, and the ref if it is intact.
pub(crate) fn ref_row(
    op: &'static str,
    repo: &RepoName,
    row: &Row,
) -> StoreResult<(String, Option<(RefName, RefTarget)>)> {
    let name: String = column(op, row, 0)?;
    let target: &[u8] = column(op, row, 1)?;
    let sum: i64 = column(op, row, 2)?;
    let read = RefName::new(name.as_str()).ok().zip(RefTarget::decode(target));
    let is_sound = ref_sum(repo, &name, target) == sum;
    Ok((name, read.filter(|_| is_sound)))
}

/// The columns that [`entry_row`] reads.
pub(crate) const COLUMNS: &str = "seq, name, before, after, batch, note, sum";

/// Reads a row of the log: its number, and the entry if it is intact.
pub(crate) fn entry_row(
    op: &'static str,
    repo: &RepoName,
    row: &Row,
) -> StoreResult<(u64, Option<LogEntry>)> {
    let seq: i64 = column(op, row, 0)?;
    let name: String = column(op, row, 1)?;
    let before: Option<&[u8]> = column(op, row, 2)?;
    let after: Option<&[u8]> = column(op, row, 3)?;
    let batch: &[u8] = column(op, row, 4)?;
    let note: &[u8] = column(op, row, 5)?;
    let sum: i64 = column(op, row, 6)?;
    let read = || {
        let batch = BatchId::from_bytes(batch.try_into().ok()?);
        let known = log_sum(repo, &name, after, batch, note);
        if known ^ log_sum_of_server(seq, before) != sum {
            return None;
        }
        let target = |bytes: Option<&[u8]>| match bytes {
            None => Some(None),
            Some(bytes) => RefTarget::decode(bytes).map(Some),
        };
        let (before, after, note) = (target(before)?, target(after)?, decode_note(note)?);
        let seq = seq.unsigned_abs();
        Some(LogEntry { seq, name: RefName::new(name.as_str()).ok()?, before, after, batch, note })
    };
    Ok((seq.unsigned_abs(), read()))
}

impl RepoReader {
    pub(crate) async fn refs(self, names: Vec<RefName>) -> StoreResult<Vec<Option<RefTarget>>> {
        let sql = "SELECT name, target, sum FROM {s}.refs WHERE repo = $1 AND name = ANY ($2)";
        let texts: Vec<String> = names.iter().map(|name| name.as_str().to_owned()).collect();
        let listed = self.listed(sql, self.args().with(texts, Type::TEXT_ARRAY)).await?;
        let found: HashMap<RefName, RefTarget> = listed.into_iter().collect();
        Ok(names.iter().map(|name| found.get(name).cloned()).collect())
    }

    pub(crate) async fn list_refs(self, prefix: String) -> StoreResult<Vec<(RefName, RefTarget)>> {
        // Names have no character beyond the last one of Unicode. The prefix must not contain a
        // zero byte, which PostgreSQL rejects in text.
        let prefix: String = prefix.chars().take_while(|character| *character != '\0').collect();
        let sql = "SELECT name, target, sum FROM {s}.refs WHERE repo = $1 AND name >= $2 \
                   AND name < $2 || chr(1114111) ORDER BY name";
        self.listed(sql, self.args().text(&prefix)).await
    }

    /// Reads refs, all of which must be intact.
    async fn listed(&self, sql: &str, args: Args) -> StoreResult<Vec<(RefName, RefTarget)>> {
        let sound = |row| {
            let (name, read) = ref_row(self.op, &self.repo, row)?;
            read.ok_or_else(|| damaged(self.op, format!("the ref {name} is damaged")))
        };
        self.read(sql, args).await?.iter().map(sound).collect()
    }

    pub(crate) async fn ref_log(self, query: LogQuery) -> StoreResult<Vec<LogEntry>> {
        let before = query.before.and_then(|seq| i64::try_from(seq).ok()).unwrap_or(i64::MAX);
        let limit = if query.limit == 0 { usize::MAX } else { query.limit };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        // Materialized, so that the server uses the index of batches instead of scanning the log
        // from its end.
        let mut sql = match query.batch_prefix {
            None => format!("SELECT {COLUMNS} FROM {{s}}.ref_log"),
            Some(_) => format!(
                "WITH found AS MATERIALIZED (SELECT repo, {COLUMNS} FROM {{s}}.ref_log \
                 WHERE repo = $1 AND batch BETWEEN $4 AND $5) SELECT {COLUMNS} FROM found"
            ),
        };
        sql.push_str(" WHERE repo = $1 AND seq < $2");
        let mut args = self.args().int(before).int(limit);
        let mut next = 4;
        if let Some(prefix) = query.batch_prefix {
            for end in [0, u8::MAX] {
                args = args.id(BatchId::from_bytes([end; 16]).with_prefix(prefix).as_bytes());
                next += 1;
            }
        }
        if let Some(name) = &query.name {
            sql.push_str(&format!(" AND name = ${next}"));
            args = args.text(name.as_str());
            next += 1;
        }
        if let Some(batch) = &query.batch {
            sql.push_str(&format!(" AND batch = ${next}"));
            args = args.id(batch.as_bytes());
        }
        sql.push_str(" ORDER BY seq DESC LIMIT $3");
        let sound = |row| {
            let (seq, entry) = entry_row(self.op, &self.repo, row)?;
            entry.ok_or_else(|| damaged(self.op, format!("entry {seq} is damaged")))
        };
        self.read(&sql, args).await?.iter().map(sound).collect()
    }
}
