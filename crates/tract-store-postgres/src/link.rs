//! Access to the server: a connection pool, timeouts and retries.
//!
//! A connection returns to the pool only after its statement was answered completely. One that
//! timed out, broke or was abandoned midway is closed: it may have an open transaction, whose
//! settings and locks the next caller would inherit.
//!
//! A write that is retried must take effect at most once, because the first attempt may have
//! succeeded although its answer was lost. The functions detect a repeated batch by its id.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, QueueMode, RecyclingMethod, Runtime,
};
use tokio::runtime::Handle;
use tokio_postgres::Row;
use tokio_postgres::error::Error;
use tokio_postgres::types::Type;
use tract_core::{RepoName, StoreErrorKind, StoreResult};

use crate::PostgresOptions;
use crate::args::Args;
use crate::error::{Failed, Retry, failed, new, unreached};
use crate::options::Target;
use crate::schema::in_schema;
use crate::space::{ErasedCuts, SweptSpace};

/// The first pause between attempts. A pause is a random fraction of this.
const PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The repository whose rows a statement may see.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    /// The statement sets it itself.
    Own,
    /// The rows of one repository.
    Repo(RepoName),
    /// The names of all repositories.
    Names,
}

/// The shared state of an open store.
pub(crate) struct Connector {
    pool: Pool,
    pub(crate) options: PostgresOptions,
    pub(crate) schema: String,
    /// The server's address, for messages.
    server: String,
    /// Whether the store separates repositories by row-level security.
    pub(crate) row_security: AtomicBool,
    closed: AtomicBool,
    /// Numbers of repositories, which never change.
    repos: Mutex<HashMap<RepoName, i64>>,
    /// Space that was swept but not released.
    swept: Mutex<SweptSpace>,
    /// Partitions where blobs were erased but not wiped.
    erased: Mutex<ErasedCuts>,
    /// Whether the store has the functions of this build's edition.
    pub(crate) appends: AtomicBool,
    /// The runtime that drives the connections.
    pub(crate) runtime: Handle,
}

/// Maximum number of repositories cached by a handle. Beyond it, idle ones are dropped and looked
/// up again when needed.
pub(crate) const REPOSITORIES: usize = 1_024;

/// A connection in use.
pub(crate) struct Lease(Option<Arc<Object>>);

impl Lease {
    pub(crate) fn object(&self) -> &Arc<Object> {
        self.0.as_ref().expect("it is held until it is given back")
    }

    fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Close the connection, so that the next caller does not inherit its open transaction. This
        // happens after an error or a panic, or if the future that used it was dropped.
        if let Some(object) = self.0.take().and_then(Arc::into_inner) {
            drop(Object::take(object));
        }
    }
}

impl Connector {
    /// Creates the connector for the current runtime.
    pub(crate) fn new(target: Target) -> StoreResult<Self> {
        let options = target.options.clone();
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let (schema, server) = (target.schema.clone(), target.server());
        let manager = manager(target, recycling)?;
        let pool = Pool::builder(manager)
            .max_size(options.pool_size.max(1))
            // The most recently used connection has the warmest caches, here and on the server.
            .queue_mode(QueueMode::Lifo)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(options.connect_timeout))
            .create_timeout(Some(options.connect_timeout))
            .build()
            .map_err(|error| new(StoreErrorKind::Invalid, "open", error.to_string()))?;
        Ok(Self {
            pool,
            options,
            schema,
            server,
            row_security: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            repos: Mutex::default(),
            swept: Mutex::default(),
            erased: Mutex::default(),
            appends: AtomicBool::new(false),
            runtime: Handle::current(),
        })
    }

    /// Inserts the schema's name into a statement.
    pub(crate) fn sql(&self, text: &str) -> String {
        in_schema(text, &self.schema)
    }

    pub(crate) fn has_row_security(&self) -> bool {
        self.row_security.load(Ordering::Relaxed)
    }

    pub(crate) fn has_appends(&self) -> bool {
        self.appends.load(Ordering::Relaxed)
    }

    pub(crate) fn swept(&self) -> MutexGuard<'_, SweptSpace> {
        self.swept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn erased_cuts(&self) -> MutexGuard<'_, ErasedCuts> {
        self.erased.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the lock timeout in milliseconds. At least 1, because 0 means no limit.
    pub(crate) fn lock_ms(&self) -> i32 {
        i32::try_from(self.options.lock_timeout.as_millis()).unwrap_or(i32::MAX).max(1)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.pool.close();
    }

    pub(crate) async fn lease(
        &self,
        op: &'static str,
        deadline: Option<Instant>,
    ) -> Result<Lease, Failed> {
        let closed = || new(StoreErrorKind::Unavailable, op, "the store is closed").into();
        if self.closed.load(Ordering::Acquire) {
            return Err(closed());
        }
        let unavailable = |message: String| {
            let error = new(StoreErrorKind::Unavailable, op, message);
            Failed { retry: Retry::Unreached, error }
        };
        let limit = time_left(self.options.connect_timeout, deadline);
        let no_connection = |limit: Duration| {
            let server = &self.server;
            unavailable(format!("expected a connection to {server} within {limit:?}, found none"))
        };
        let Ok(got) = tokio::time::timeout(limit, self.pool.get()).await else {
            return Err(no_connection(limit));
        };
        match got {
            Ok(object) => Ok(Lease(Some(Arc::new(object)))),
            Err(PoolError::Backend(error)) => {
                let mut failed = unreached(op, error);
                let message = &mut failed.error.message;
                *message = format!("cannot connect to {}: {message}", self.server);
                Err(failed)
            }
            Err(PoolError::Timeout(_)) => Err(no_connection(self.options.connect_timeout)),
            Err(PoolError::Closed) => Err(closed()),
            Err(error) => Err(unavailable(error.to_string())),
        }
    }

    /// Runs one statement once, in one round trip and before a deadline.
    pub(crate) async fn once(
        &self,
        op: &'static str,
        scope: &Scope,
        sql: &str,
        args: &Args,
        deadline: Option<Instant>,
    ) -> Result<Vec<Row>, Failed> {
        let lease = self.lease(op, deadline).await?;
        let scope = if self.has_row_security() { scope } else { &Scope::Own };
        let object = lease.object();
        let answer = async {
            match scope {
                Scope::Own => self.send(object, sql, args).await,
                Scope::Repo(name) => {
                    self.scoped(object, "tract.repo", name.as_str(), sql, args).await
                }
                Scope::Names => self.scoped(object, "tract.list", "on", sql, args).await,
            }
        };
        match self.in_time(op, deadline, answer).await {
            Ok(rows) => {
                lease.give_back();
                Ok(rows)
            }
            Err(failed) => {
                // The server has answered the only statement, so no transaction is open. With a
                // scope, the transaction may still be.
                if failed.retry != Retry::Lost && matches!(scope, Scope::Own) {
                    lease.give_back();
                }
                Err(failed)
            }
        }
    }

    /// Waits for the answer to a statement until the statement timeout or the deadline.
    pub(crate) async fn in_time<T>(
        &self,
        op: &'static str,
        deadline: Option<Instant>,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failed> {
        let limit = time_left(self.options.statement_timeout, deadline);
        match tokio::time::timeout(limit, answer).await {
            Ok(answer) => answer.map_err(|error| failed(op, error)),
            Err(_) => Err(self.unanswered(op, limit)),
        }
    }

    fn unanswered(&self, op: &'static str, limit: Duration) -> Failed {
        let message = format!("expected an answer of {} within {limit:?}", self.server);
        Failed { retry: Retry::Lost, error: new(StoreErrorKind::Busy, op, message) }
    }

    async fn send(&self, object: &Object, sql: &str, args: &Args) -> Result<Vec<Row>, Error> {
        let params = args.as_params();
        if !self.options.named_statements {
            return object.query_typed(sql, &params).await;
        }
        let types: Vec<Type> = params.iter().map(|(_, kind)| kind.clone()).collect();
        let statement = object.prepare_typed_cached(sql, &types).await?;
        let values: Vec<_> = params.into_iter().map(|(value, _)| value).collect();
        object.query(&statement, &values).await
    }

    /// Runs a statement with a setting that only applies to it, by four pipelined messages in one
    /// round trip. If the setting fails, the transaction is aborted, so the statement fails too.
    async fn scoped(
        &self,
        object: &Object,
        setting: &str,
        value: &str,
        sql: &str,
        args: &Args,
    ) -> Result<Vec<Row>, Error> {
        let set = [(&setting as _, Type::TEXT), (&value as _, Type::TEXT)];
        let params = args.as_params();
        // `biased` polls the futures in this order, and a message is sent when its future is first
        // polled. In another order the statement could run before its setting, or outside of the
        // transaction.
        let (begun, set, rows, ended) = tokio::join!(
            biased;
            object.batch_execute("BEGIN"),
            object.query_typed("SELECT set_config($1, $2, true)", &set),
            object.query_typed(sql, &params),
            object.batch_execute("COMMIT"),
        );
        begun?;
        set?;
        let rows = rows?;
        ended?;
        Ok(rows)
    }

    /// Runs a statement, with retries, until it is answered or the time is up.
    ///
    /// A write must take effect at most once even if it is sent several times.
    pub(crate) async fn query(
        &self,
        op: &'static str,
        scope: &Scope,
        sql: &str,
        args: &Args,
        writes: bool,
    ) -> StoreResult<Vec<Row>> {
        self.until_answered(None, writes, None, || self.once(op, scope, sql, args, None)).await
    }

    /// Repeats an attempt until it is answered, the retry time is up, or the deadline has passed. A
    /// write must take effect at most once even if it is repeated. `tried` is the failure of an
    /// earlier statement with the same effect, if there was one.
    ///
    /// If any attempt of a write lost its connection, the write may have happened, so a final
    /// failure is reported as `Unknown`.
    pub(crate) async fn until_answered<T, F>(
        &self,
        mut tried: Option<Failed>,
        writes: bool,
        deadline: Option<Instant>,
        mut once: impl FnMut() -> F,
    ) -> StoreResult<T>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let end = Instant::now() + self.options.retry_for;
        let end = deadline.map_or(end, |deadline| deadline.min(end));
        let (mut in_doubt, mut pause) = (false, PAUSE);
        loop {
            let failed = match tried.take() {
                Some(failed) => failed,
                None => match once().await {
                    Ok(answer) => return Ok(answer),
                    Err(failed) => failed,
                },
            };
            // Stays set: the first attempt may have been stored even if a later one fails for
            // another reason.
            in_doubt |= writes && failed.retry == Retry::Lost;
            if failed.retry == Retry::Never || Instant::now() >= end {
                let mut error = failed.error;
                if in_doubt {
                    error.kind = StoreErrorKind::Unknown;
                }
                return Err(error);
            }
            tokio::time::sleep(jitter(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Reads within the scope of one repository.
    pub(crate) async fn read(
        &self,
        op: &'static str,
        repo: &RepoName,
        sql: &str,
        args: Args,
    ) -> StoreResult<Vec<Row>> {
        self.query(op, &Scope::Repo(repo.clone()), &self.sql(sql), &args, false).await
    }

    /// Returns the number of a repository if it exists.
    pub(crate) async fn repo(&self, op: &'static str, name: &RepoName) -> StoreResult<Option<i64>> {
        let known = || self.repos.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = known().get(name).copied() {
            return Ok(Some(number));
        }
        let sql = "SELECT id FROM {s}.repos WHERE name = $1";
        let rows = self.read(op, name, sql, Args::new().text(name.as_str())).await?;
        let number = first_column(op, &rows)?;
        if let Some(number) = number {
            let mut known = known();
            if known.len() >= REPOSITORIES {
                known.clear();
            }
            known.insert(name.clone(), number);
        }
        Ok(number)
    }

    /// Runs steps in a transaction that is rolled back unless all of them succeed.
    pub(crate) async fn transaction<T, F>(
        &self,
        op: &'static str,
        scope: &Scope,
        steps: impl FnOnce(Arc<Object>) -> F,
    ) -> StoreResult<T>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        Ok(self.steps(op, scope, None, steps).await?)
    }

    /// Runs steps like [`Self::transaction`], with a deadline from begin to commit. The error
    /// states whether the attempt may be repeated.
    pub(crate) async fn steps<T, F>(
        &self,
        op: &'static str,
        scope: &Scope,
        deadline: Option<Instant>,
        steps: impl FnOnce(Arc<Object>) -> F,
    ) -> Result<T, Failed>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let lease = self.lease(op, deadline).await?;
        let run = async {
            let object = lease.object();
            self.begin(op, object, "BEGIN", scope).await?;
            let answer = steps(Arc::clone(object)).await?;
            object.batch_execute("COMMIT").await.map_err(|error| failed(op, error))?;
            Ok(answer)
        };
        let answer = match deadline {
            None => run.await,
            Some(deadline) => match tokio::time::timeout_at(deadline.into(), run).await {
                Ok(answer) => answer,
                Err(_) => Err(self.unanswered(op, time_left(Duration::MAX, Some(deadline)))),
            },
        };
        // A clean connection returns to the pool. Any other is closed, and the server rolls back.
        if answer.is_ok() {
            lease.give_back();
        }
        answer
    }

    async fn begin(
        &self,
        op: &'static str,
        object: &Object,
        begin: &str,
        scope: &Scope,
    ) -> Result<(), Failed> {
        object.batch_execute(begin).await.map_err(|error| failed(op, error))?;
        let (setting, value) = match scope {
            Scope::Own => ("tract.repo", ""),
            Scope::Repo(name) => ("tract.repo", name.as_str()),
            Scope::Names => ("tract.list", "on"),
        };
        let set = [(&setting as _, Type::TEXT), (&value as _, Type::TEXT)];
        let sql = "SELECT set_config($1, $2, true)";
        object.query_typed(sql, &set).await.map_err(|error| failed(op, error))?;
        Ok(())
    }

    /// Waits for the lock that serializes transactions that create or change the store's schema.
    pub(crate) async fn lock_schema(
        &self,
        op: &'static str,
        object: &Object,
    ) -> Result<(), Failed> {
        let lock = format!("tract {}", self.schema);
        let sql = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
        let locked = object.query_typed(sql, &[(&lock as _, Type::TEXT)]).await;
        locked.map(drop).map_err(|error| failed(op, error))
    }

    /// Returns whether this number of connections is available without waiting for other users of
    /// this handle.
    pub(crate) fn has_spare_connections(&self, count: usize) -> bool {
        let status = self.pool.status();
        status.waiting == 0
            && status.max_size - status.size.min(status.max_size) + status.available >= count
    }

    /// Runs a maintenance command once, outside of a transaction and without a time limit.
    pub(crate) async fn maintain(&self, op: &'static str, command: &str) -> StoreResult<()> {
        let lease = self.lease(op, None).await?;
        let done = lease.object().batch_execute(command).await;
        done.map_err(|error| failed(op, error))?;
        lease.give_back();
        Ok(())
    }

    /// Begins a snapshot of a repository, which concurrent writes do not affect.
    pub(crate) async fn snapshot(
        &self,
        op: &'static str,
        repo: &RepoName,
    ) -> StoreResult<Snapshot<'_>> {
        let once = async || {
            let lease = self.lease(op, None).await?;
            let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
            let scope = Scope::Repo(repo.clone());
            let begun = self.begin(op, lease.object(), begin, &scope);
            match tokio::time::timeout(self.options.statement_timeout, begun).await {
                Ok(begun) => begun.map(|()| lease),
                Err(_) => Err(self.unanswered(op, self.options.statement_timeout)),
            }
        };
        let lease = self.until_answered(None, false, None, once).await?;
        Ok(Snapshot { link: self, op, lease })
    }
}

/// A snapshot of a repository. Its connection is closed unless it [ends](Self::end).
pub(crate) struct Snapshot<'l> {
    link: &'l Connector,
    op: &'static str,
    lease: Lease,
}

impl Snapshot<'_> {
    /// Reads from the snapshot. Never retried, because a lost snapshot cannot be recreated.
    pub(crate) async fn read(&self, sql: &str, args: Args) -> StoreResult<Vec<Row>> {
        let sql = self.link.sql(sql);
        let params = args.as_params();
        let answer = self.lease.object().query_typed(&sql, &params);
        Ok(self.link.in_time(self.op, None, answer).await?)
    }

    /// Returns the connection to the pool.
    pub(crate) async fn end(self) -> StoreResult<()> {
        let ended = self.link.in_time(self.op, None, self.lease.object().batch_execute("COMMIT"));
        ended.await?;
        self.lease.give_back();
        Ok(())
    }
}

/// Returns the shorter of a limit and the time until a deadline.
fn time_left(limit: Duration, deadline: Option<Instant>) -> Duration {
    deadline.map_or(limit, |deadline| limit.min(deadline.saturating_duration_since(Instant::now())))
}

#[cfg(feature = "tls")]
fn manager(target: Target, config: ManagerConfig) -> StoreResult<Manager> {
    // The connector needs a host name, which a Unix socket lacks. As in libpq, a socket needs no TLS.
    #[cfg(unix)]
    if target
        .config
        .get_hosts()
        .iter()
        .all(|host| matches!(host, tokio_postgres::config::Host::Unix(_)))
    {
        return Ok(Manager::from_config(target.config, tokio_postgres::NoTls, config));
    }
    let tls = crate::tls::connector(target.root_certificates.as_deref())?;
    Ok(Manager::from_config(target.config, tls, config))
}

#[cfg(not(feature = "tls"))]
fn manager(target: Target, config: ManagerConfig) -> StoreResult<Manager> {
    if target.config.get_ssl_mode() == tokio_postgres::config::SslMode::Require {
        let message = "the url asks for an encrypted connection, this build has none: add the \
                       feature `tls` (of tract: `postgres-tls`)";
        return Err(new(StoreErrorKind::Unsupported, "open", message));
    }
    Ok(Manager::from_config(target.config, tokio_postgres::NoTls, config))
}

/// Returns a random fraction of a pause, so that transactions that collided do not collide again.
fn jitter(pause: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    let nanos = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(random % nanos.max(1))
}

/// Reads a column. A value of another type was not written by this store.
pub(crate) fn column<'r, T: tokio_postgres::types::FromSql<'r>>(
    op: &'static str,
    row: &'r Row,
    index: usize,
) -> StoreResult<T> {
    row.try_get(index).map_err(|error| {
        let kind = StoreErrorKind::Corrupt { object: None };
        new(kind, op, error.to_string()).with_source(error)
    })
}

/// Reads the first column of the first row, if there is one.
pub(crate) fn first_column<'r, T: tokio_postgres::types::FromSql<'r>>(
    op: &'static str,
    rows: &'r [Row],
) -> StoreResult<Option<T>> {
    rows.first().map(|row| column(op, row, 0)).transpose()
}

/// Reads a column with the bytes of an id.
pub(crate) fn id_column(op: &'static str, row: &Row, index: usize) -> StoreResult<[u8; 32]> {
    let bytes: &[u8] = column(op, row, index)?;
    bytes.try_into().map_err(|_| {
        let message = format!("expected an id of 32 bytes, found {}", bytes.len());
        crate::error::damaged(op, message)
    })
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::runtime::{Builder, Runtime};

    use super::*;
    use crate::options::target;
    use crate::server;

    const OP: &str = "test";

    fn runtime() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
    }

    fn linked(url: &str, options: &PostgresOptions) -> Arc<Connector> {
        Arc::new(Connector::new(target(url, options).expect("a url")).expect("a link"))
    }

    #[test]
    fn steps_that_panic_or_are_dropped_leave_no_transaction_open() {
        let Some(url) = server::shared() else { return };
        runtime().block_on(async {
            let link = linked(url, &PostgresOptions { pool_size: 1, ..PostgresOptions::default() });
            let scope = Scope::Repo(RepoName::new("left open").expect("a name"));
            let setting = async || {
                let sql = "SELECT coalesce(current_setting('tract.repo', true), '')";
                let rows = link.query(OP, &Scope::Own, sql, &Args::new(), false).await;
                rows.expect("an answer")[0].get::<_, String>(0)
            };
            assert_eq!(setting().await, "");
            let panics = {
                let (link, scope) = (Arc::clone(&link), scope.clone());
                let steps = async move {
                    let broken = async |_| panic!("a step is broken");
                    link.transaction::<(), _>(OP, &scope, broken).await
                };
                tokio::spawn(steps).await
            };
            assert!(panics.expect_err("it panics").is_panic());
            assert_eq!(setting().await, "", "after a panic");
            let dropped = link.transaction(OP, &scope, async |_| pending::<Result<(), _>>().await);
            tokio::time::timeout(Duration::from_millis(200), dropped).await.expect_err("no end");
            assert_eq!(setting().await, "", "after it was dropped");
        });
    }
}
