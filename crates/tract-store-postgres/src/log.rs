//! Refs and the ref log.

use std::collections::HashMap;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use tract_core::store::LogQuery;
use tract_core::{BatchId, LogEntry, RefName, RefTarget, RepoName, StoreResult};

use crate::args::Args;
use crate::error::damaged;
use crate::link::{Connector, column};
use crate::schema::{decode_note, log_sum, log_sum_of_server, ref_sum};

/// Reads a row of `name, target, sum`: the name, and the target where it is sound.
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

pub(crate) async fn refs(
    link: &Connector,
    repo: &RepoName,
    names: &[RefName],
) -> StoreResult<Vec<Option<RefTarget>>> {
    const OP: &str = "refs";
    let Some(number) = link.repo(OP, repo).await? else { return Ok(vec![None; names.len()]) };
    let sql = "SELECT name, target, sum FROM {s}.refs WHERE repo = $1 AND name = ANY ($2)";
    let texts: Vec<String> = names.iter().map(|name| name.as_str().to_owned()).collect();
    let args = Args::new().int(number).with(texts, Type::TEXT_ARRAY);
    let mut found = HashMap::new();
    for row in &link.read(OP, repo, sql, args).await? {
        let (name, read) = ref_row(OP, repo, row)?;
        let read = read.ok_or_else(|| damaged(OP, format!("the ref {name} is damaged")))?;
        found.insert(name, read.1);
    }
    Ok(names.iter().map(|name| found.get(name.as_str()).cloned()).collect())
}

pub(crate) async fn list(
    link: &Connector,
    repo: &RepoName,
    prefix: &str,
) -> StoreResult<Vec<(RefName, RefTarget)>> {
    const OP: &str = "list_refs";
    let Some(number) = link.repo(OP, repo).await? else { return Ok(Vec::new()) };
    // Names hold no character beyond the last one of Unicode, and no zero byte that text refuses.
    let prefix: String = prefix.chars().take_while(|character| *character != '\0').collect();
    let sql = "SELECT name, target, sum FROM {s}.refs WHERE repo = $1 AND name >= $2 \
               AND name < $2 || chr(1114111) ORDER BY name";
    let mut listed = Vec::new();
    for row in &link.read(OP, repo, sql, Args::new().int(number).text(&prefix)).await? {
        let (name, read) = ref_row(OP, repo, row)?;
        listed.push(read.ok_or_else(|| damaged(OP, format!("the ref {name} is damaged")))?);
    }
    Ok(listed)
}

/// What [`entry_row`] reads.
pub(crate) const COLUMNS: &str = "seq, name, before, after, batch, note, sum";

/// Reads a row of the log: its number, and the entry where it is sound.
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

pub(crate) async fn read(
    link: &Connector,
    repo: &RepoName,
    query: &LogQuery,
) -> StoreResult<Vec<LogEntry>> {
    const OP: &str = "ref_log";
    let Some(number) = link.repo(OP, repo).await? else { return Ok(Vec::new()) };
    let before = query.before.and_then(|seq| i64::try_from(seq).ok()).unwrap_or(i64::MAX);
    let limit = if query.limit == 0 { usize::MAX } else { query.limit };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    // Materialized, so that the server reads the index of batches and not the log from its end.
    let mut sql = match query.batch_prefix {
        None => format!("SELECT {COLUMNS} FROM {{s}}.ref_log"),
        Some(_) => format!(
            "WITH found AS MATERIALIZED (SELECT repo, {COLUMNS} FROM {{s}}.ref_log \
             WHERE repo = $1 AND batch BETWEEN $4 AND $5) SELECT {COLUMNS} FROM found"
        ),
    };
    sql.push_str(" WHERE repo = $1 AND seq < $2");
    let mut args = Args::new().int(number).int(before).int(limit);
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
    let mut entries = Vec::new();
    for row in &link.read(OP, repo, &sql, args).await? {
        let (seq, entry) = entry_row(OP, repo, row)?;
        entries.push(entry.ok_or_else(|| damaged(OP, format!("entry {seq} is damaged")))?);
    }
    Ok(entries)
}
