//! Reads objects by id, with one statement per call. Everything read is verified by its hash.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use tract_core::store::BlobKey;
use tract_core::{
    Blob, BlobId, Commit, CommitId, DerivedKind, IdPrefix, ObjectId, RepoName, StoreResult, ToolId,
    Toolset, ToolsetId,
};

use crate::args::Args;
use crate::error::corrupt;
use crate::link::{Connector, Scope, column, id_column};
use crate::portions::{self, PORTION};

/// A reader of one repository, with the name of the operation.
pub(crate) struct RepoReader {
    pub(crate) link: Arc<Connector>,
    pub(crate) op: &'static str,
    pub(crate) repo: RepoName,
    /// The repository's number; `None` if it does not exist.
    pub(crate) number: Option<i64>,
}

impl RepoReader {
    /// Starts the arguments of a statement with the number of the repository.
    pub(crate) fn args(&self) -> Args {
        Args::new().int(self.number.unwrap_or_default())
    }

    /// Reads within the scope of the repository.
    pub(crate) async fn read(&self, sql: &str, args: Args) -> StoreResult<Vec<Row>> {
        match self.number {
            Some(_) => self.link.read(self.op, &self.repo, sql, args).await,
            None => Ok(Vec::new()),
        }
    }

    /// Reads rows of `hash, bytes`. The result is parallel to the ids.
    async fn by_id<K: Copy, T>(
        &self,
        sql: &str,
        ids: &[K],
        bytes: fn(&K) -> &[u8; 32],
        open: impl Fn(K, &[u8]) -> StoreResult<T>,
    ) -> StoreResult<Vec<Option<T>>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.read(sql, self.args().ids(ids.iter().map(bytes))).await?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            found.insert(id_column(self.op, row, 0)?, column::<&[u8]>(self.op, row, 1)?);
        }
        let open = |id: &K| found.get(bytes(id)).map(|data| open(*id, data)).transpose();
        ids.iter().map(open).collect()
    }

    pub(crate) async fn blobs(self, keys: Vec<BlobKey>) -> StoreResult<Vec<Option<Blob>>> {
        let op = self.op;
        let Some(number) = self.number.filter(|_| !keys.is_empty()) else {
            return Ok(vec![None; keys.len()]);
        };
        let sql = "SELECT hash, CASE WHEN octet_length(data) <= $3 THEN data END, octet_length(data) \
                   FROM {s}.blobs WHERE repo = $1 AND hash = ANY ($2)";
        let portion = portions::portion_of("blobs", "data");
        let most = i32::try_from(PORTION).unwrap_or(i32::MAX);
        let args = self.args().ids(keys.iter().map(|key| key.id.as_bytes()));
        let rows = self.read(sql, args.with(most, Type::INT4)).await?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            let id = BlobId::from_bytes(id_column(op, row, 0)?);
            let bytes = match column::<Option<&[u8]>>(op, row, 1)? {
                Some(data) => Bytes::copy_from_slice(data),
                None => {
                    let length = usize::try_from(column::<i32>(op, row, 2)?).unwrap_or_default();
                    let read = |args| self.read(&portion, args);
                    match portions::read(read, op, number, id.as_bytes(), length).await? {
                        Some(bytes) => bytes.into(),
                        None => continue,
                    }
                }
            };
            let blob = Blob::check(id, bytes).ok_or_else(|| corrupt(op, ObjectId::Blob(id)))?;
            found.insert(id, blob);
        }
        Ok(keys.iter().map(|key| found.get(&key.id).cloned()).collect())
    }

    pub(crate) async fn toolsets(self, ids: Vec<ToolsetId>) -> StoreResult<Vec<Option<Toolset>>> {
        let sql = "SELECT hash, data FROM {s}.toolsets WHERE repo = $1 AND hash = ANY ($2)";
        self.by_id(sql, &ids, ToolsetId::as_bytes, |id, data| {
            Toolset::decode(id, data).ok_or_else(|| corrupt(self.op, ObjectId::Toolset(id)))
        })
        .await
    }

    pub(crate) async fn commits(self, ids: Vec<CommitId>) -> StoreResult<Vec<Option<Commit>>> {
        let sql = "SELECT hash, rec FROM {s}.commits WHERE repo = $1 AND hash = ANY ($2)";
        self.by_id(sql, &ids, CommitId::as_bytes, |id, rec| {
            Commit::decode(id, rec)
                .map_err(|error| corrupt(self.op, ObjectId::Commit(id)).with_source(error))
        })
        .await
    }

    pub(crate) async fn resolve_prefix(
        self,
        prefix: IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>> {
        let part = |kind: u8, table: &str| {
            format!(
                "(SELECT DISTINCT {kind}::int2, hash FROM {{s}}.{table} \
                 WHERE repo = $1 AND hash BETWEEN decode($2, 'hex') AND decode($3, 'hex') \
                 ORDER BY hash LIMIT $4)"
            )
        };
        let tables = ["commits", "blobs", "toolsets", "tools"];
        let parts: Vec<String> = (0..).zip(tables).map(|(kind, table)| part(kind, table)).collect();
        let digits = prefix.as_str();
        let (low, high) = (format!("{digits:0<64}"), format!("{digits:f<64}"));
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let args = self.args().text(&low).text(&high).int(most);
        let rows = self.read(&parts.join(" UNION ALL "), args).await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let id = id_column(self.op, row, 1)?;
            found.push(match column::<i16>(self.op, row, 0)? {
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
        self,
        kind: DerivedKind,
        ids: Vec<CommitId>,
    ) -> StoreResult<Vec<Option<Bytes>>> {
        let sql = format!(
            "SELECT c.hash, d.data FROM {{s}}.commits c JOIN {{s}}.derived d \
             ON d.repo = $1 AND d.kind = {} AND d.seg = c.seg AND d.pos = c.pos \
             WHERE c.repo = $1 AND c.hash = ANY ($2)",
            kind.number()
        );
        let open = |_, data: &[u8]| Ok(Bytes::copy_from_slice(data));
        self.by_id(&sql, &ids, CommitId::as_bytes, open).await
    }

    pub(crate) async fn drop_derived(self) -> StoreResult<()> {
        if self.number.is_none() {
            return Ok(());
        }
        let sql = self.link.sql("DELETE FROM {s}.derived WHERE repo = $1");
        let (args, scope) = (self.args(), Scope::Repo(self.repo));
        self.link.query(self.op, &scope, &sql, &args, true).await.map(drop)
    }
}
