//! Reading tables of other programs: the same urls, connections and errors as those of a store.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tokio_postgres::types::{FromSql, Type};
use tract_core::{StoreErrorKind, StoreResult};

use crate::PostgresOptions;
use crate::error::{Failed, damaged, failed};
use crate::link::{Connector, Lease};
use crate::options;
use crate::store::{OwnedRuntime, run_on, start_runtime};

/// A row: the bytes of each column, `None` for null.
pub type DatabaseRow = Vec<Option<Bytes>>;

/// Reads a database in one transaction, which cannot write and sees one state of it.
///
/// Tables are found by the search path of the user; `?schema=NAME` in the url names a schema
/// instead. Nothing of tract has to be in the database.
pub struct DatabaseReader {
    lease: Arc<Lease>,
    link: Arc<Connector>,
    runtime: OwnedRuntime,
}

impl fmt::Debug for DatabaseReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseReader").finish_non_exhaustive()
    }
}

impl DatabaseReader {
    /// Connects to the database of a url, as [`open`](crate::open()) does, and begins to read.
    ///
    /// # Errors
    /// `Invalid` for a bad url, `Unavailable` when the server cannot be reached, `NoStore` when
    /// there is no such database. No message repeats a password.
    pub async fn open(url: &str, options: &PostgresOptions) -> StoreResult<Self> {
        let target = options::target(url, options)?;
        let runtime = start_runtime()?;
        let (link, lease) = run_on(&runtime, "open", async move {
            let schema = target.options.schema.clone();
            let link = Arc::new(Connector::new(target)?);
            let once = || begin(&link, schema.as_deref());
            let lease = link.until_answered(None, false, None, once).await?;
            Ok((link, Arc::new(lease)))
        })
        .await?;
        Ok(Self { lease, link, runtime })
    }

    /// Runs a statement whose parameters are lists of text (`$1::text[]`) and whose columns are text
    /// or `bytea`.
    ///
    /// # Errors
    /// As the server says; `Corrupt` for a column of another type. The transaction is over then.
    pub async fn rows(
        &self,
        sql: &'static str,
        parameters: Vec<Vec<String>>,
    ) -> StoreResult<Vec<DatabaseRow>> {
        let (link, lease) = (Arc::clone(&self.link), Arc::clone(&self.lease));
        run_on(&self.runtime, "read", async move {
            let typed: Vec<_> =
                parameters.iter().map(|list| (list as _, Type::TEXT_ARRAY)).collect();
            let answer = lease.object().query_typed(sql, &typed);
            let rows = link.in_time("read", None, answer).await?;
            rows.iter().map(columns).collect()
        })
        .await
    }
}

async fn begin(link: &Connector, schema: Option<&str>) -> Result<Lease, Failed> {
    let lease = link.lease("open", None).await?;
    let begun = async {
        let object = lease.object();
        object.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        if let Some(schema) = schema {
            // It has letters, digits and `_` alone.
            object.batch_execute(&format!("SET LOCAL search_path TO {schema}")).await?;
        }
        Ok(())
    };
    link.in_time("open", None, begun).await?;
    Ok(lease)
}

fn columns(row: &tokio_postgres::Row) -> StoreResult<DatabaseRow> {
    let column = |n: usize| {
        let value: Option<Column> =
            row.try_get(n).map_err(|error| match failed("read", error).error {
                error if error.kind == StoreErrorKind::Engine => {
                    damaged("read", format!("a column of an unexpected type: {}", error.message))
                }
                error => error,
            })?;
        Ok(value.map(|value| value.0))
    };
    (0..row.len()).map(column).collect()
}

struct Column(Bytes);

impl<'a> FromSql<'a> for Column {
    fn from_sql(
        _type: &Type,
        bytes: &'a [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(Bytes::copy_from_slice(bytes)))
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::TEXT | Type::VARCHAR | Type::NAME | Type::BYTEA)
    }
}
