//! Reading objects by id, all of a call in one statement, and never without hashing what was read.

use std::collections::HashMap;

use bytes::Bytes;
use tokio_postgres::types::Type;
use tract_core::{
    Blob, BlobId, Commit, CommitId, DerivedKind, IdPrefix, ObjectId, RepoName, StoreResult, ToolId,
    Toolset, ToolsetId,
};

use crate::args::Args;
use crate::error::corrupt;
use crate::link::{Connector, Scope, column, id_column};
use crate::portions::{self, PORTION};

/// Reads rows of `hash, bytes` and puts them into the order of the ids asked for.
async fn by_id<T: Clone>(
    link: &Connector,
    op: &'static str,
    repo: &RepoName,
    sql: &str,
    ids: &[[u8; 32]],
    open: impl Fn([u8; 32], &[u8]) -> StoreResult<T>,
) -> StoreResult<Vec<Option<T>>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let Some(number) = link.repo(op, repo).await? else { return Ok(vec![None; ids.len()]) };
    let args = Args::new().int(number).ids(ids);
    let rows = link.read(op, repo, sql, args).await?;
    let mut found = HashMap::with_capacity(rows.len());
    for row in &rows {
        let id = id_column(op, row, 0)?;
        found.insert(id, open(id, column(op, row, 1)?)?);
    }
    Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
}

pub(crate) async fn blobs(
    link: &Connector,
    repo: &RepoName,
    ids: &[BlobId],
) -> StoreResult<Vec<Option<Blob>>> {
    const OP: &str = "blobs";
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let Some(number) = link.repo(OP, repo).await? else { return Ok(vec![None; ids.len()]) };
    let sql = "SELECT hash, CASE WHEN octet_length(data) <= $3 THEN data END, octet_length(data) \
               FROM {s}.blobs WHERE repo = $1 AND hash = ANY ($2)";
    let portion = portions::portion_of("blobs", "data");
    let most = i32::try_from(PORTION).unwrap_or(i32::MAX);
    let args = Args::new().int(number).ids(ids.iter().map(BlobId::as_bytes));
    let rows = link.read(OP, repo, sql, args.with(most, Type::INT4)).await?;
    let mut found = HashMap::with_capacity(rows.len());
    for row in &rows {
        let id = BlobId::from_bytes(id_column(OP, row, 0)?);
        let bytes = match column::<Option<&[u8]>>(OP, row, 1)? {
            Some(data) => Bytes::copy_from_slice(data),
            None => {
                let length = usize::try_from(column::<i32>(OP, row, 2)?).unwrap_or_default();
                let read = |args| link.read(OP, repo, &portion, args);
                match portions::read(read, OP, number, id.as_bytes(), length).await? {
                    Some(bytes) => bytes.into(),
                    None => continue,
                }
            }
        };
        let blob = Blob::check(id, bytes).ok_or_else(|| corrupt(OP, ObjectId::Blob(id)))?;
        found.insert(id, blob);
    }
    Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
}

pub(crate) async fn toolsets(
    link: &Connector,
    repo: &RepoName,
    ids: &[ToolsetId],
) -> StoreResult<Vec<Option<Toolset>>> {
    const OP: &str = "toolsets";
    let sql = "SELECT hash, data FROM {s}.toolsets WHERE repo = $1 AND hash = ANY ($2)";
    let ids: Vec<[u8; 32]> = ids.iter().map(|id| *id.as_bytes()).collect();
    by_id(link, OP, repo, sql, &ids, |id, data| {
        let id = ToolsetId::from_bytes(id);
        Toolset::decode(id, data).ok_or_else(|| corrupt(OP, ObjectId::Toolset(id)))
    })
    .await
}

pub(crate) async fn commits(
    link: &Connector,
    repo: &RepoName,
    ids: &[CommitId],
) -> StoreResult<Vec<Option<Commit>>> {
    const OP: &str = "commits";
    let sql = "SELECT hash, rec FROM {s}.commits WHERE repo = $1 AND hash = ANY ($2)";
    let ids: Vec<[u8; 32]> = ids.iter().map(|id| *id.as_bytes()).collect();
    by_id(link, OP, repo, sql, &ids, |id, rec| {
        let id = CommitId::from_bytes(id);
        Commit::decode(id, rec)
            .map_err(|error| corrupt(OP, ObjectId::Commit(id)).with_source(error))
    })
    .await
}

/// Returns the lowest and the highest id that begin with these digits.
fn range(prefix: &IdPrefix) -> ([u8; 32], [u8; 32]) {
    let (mut low, mut high) = ([0u8; 32], [0xff; 32]);
    for (n, digit) in prefix.as_str().chars().enumerate().take(64) {
        let digit = u8::try_from(digit.to_digit(16).unwrap_or_default()).unwrap_or_default();
        let shift = if n % 2 == 0 { 4 } else { 0 };
        if let (Some(low), Some(high)) = (low.get_mut(n / 2), high.get_mut(n / 2)) {
            *low |= digit << shift;
            *high &= !(0xf << shift) | digit << shift;
        }
    }
    (low, high)
}

pub(crate) async fn resolve_prefix(
    link: &Connector,
    repo: &RepoName,
    prefix: &IdPrefix,
    limit: usize,
) -> StoreResult<Vec<ObjectId>> {
    const OP: &str = "resolve_prefix";
    let Some(number) = link.repo(OP, repo).await? else { return Ok(Vec::new()) };
    let part = |kind: u8, table: &str| {
        format!(
            "(SELECT DISTINCT {kind}::int2, hash FROM {{s}}.{table} \
             WHERE repo = $1 AND hash BETWEEN $2 AND $3 ORDER BY hash LIMIT $4)"
        )
    };
    let tables = ["commits", "blobs", "toolsets", "tools"];
    let parts: Vec<String> = (0..).zip(tables).map(|(kind, table)| part(kind, table)).collect();
    let (low, high) = range(prefix);
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let args = Args::new().int(number).id(&low).id(&high).int(most);
    let rows = link.read(OP, repo, &parts.join(" UNION ALL "), args).await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        let id = id_column(OP, row, 1)?;
        found.push(match column::<i16>(OP, row, 0)? {
            0 => ObjectId::Commit(CommitId::from_bytes(id)),
            1 => ObjectId::Blob(BlobId::from_bytes(id)),
            2 => ObjectId::Toolset(ToolsetId::from_bytes(id)),
            _ => ObjectId::Tool(ToolId::from_bytes(id)),
        });
    }
    found.sort_unstable();
    found.truncate(limit);
    Ok(found)
}

pub(crate) async fn derived(
    link: &Connector,
    repo: &RepoName,
    kind: DerivedKind,
    ids: &[CommitId],
) -> StoreResult<Vec<Option<Bytes>>> {
    let sql = format!(
        "SELECT c.hash, d.data FROM {{s}}.commits c JOIN {{s}}.derived d \
         ON d.repo = $1 AND d.kind = {} AND d.seg = c.seg AND d.pos = c.pos \
         WHERE c.repo = $1 AND c.hash = ANY ($2)",
        kind.number()
    );
    let ids: Vec<[u8; 32]> = ids.iter().map(|id| *id.as_bytes()).collect();
    by_id(link, "derived", repo, &sql, &ids, |_, data| Ok(Bytes::copy_from_slice(data))).await
}

pub(crate) async fn drop_derived(link: &Connector, repo: &RepoName) -> StoreResult<()> {
    const OP: &str = "drop_derived";
    let Some(number) = link.repo(OP, repo).await? else { return Ok(()) };
    let sql = link.sql("DELETE FROM {s}.derived WHERE repo = $1");
    let scope = Scope::Repo(repo.clone());
    link.query(OP, &scope, &sql, &Args::new().int(number), true).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_spans_all_ids_that_begin_with_it() {
        let of = |digits: &str| range(&IdPrefix::new(digits).expect("hex"));
        let (low, high) = of("abcde");
        assert_eq!(
            (&low[..4], &high[..4]),
            (&[0xab, 0xcd, 0xe0, 0][..], &[0xab, 0xcd, 0xef, 0xff][..])
        );
        let whole = "0123456789abcdef".repeat(4);
        let (low, high) = of(&whole);
        assert_eq!(low, high);
        assert_eq!(CommitId::from_bytes(low).to_hex(), whole);
    }
}
