//! Reads tables of other programs, with the same URLs, connections and errors as those of a store.

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

/// A reader of a database in one read-only transaction, which sees a single snapshot.
///
/// Tables are found by the user's search path; `?schema=NAME` in the URL selects a schema instead.
/// The database need not contain a store.
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
    /// Connects to the database of a URL, as [`open`](crate::open()) does, and begins the
    /// transaction.
    ///
    /// # Errors
    /// `Invalid` for a bad URL, `Unavailable` if the server cannot be reached, `NoStore` if the
    /// database does not exist. Messages never contain a password.
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

    /// Runs a statement whose parameters are lists of text (`$1::text[]`) and whose columns are
    /// text or `bytea`.
    ///
    /// # Errors
    /// The server's error, or `Corrupt` for a column of another type. The transaction has ended
    /// then.
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
            // The name only contains letters, digits and `_`.
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
