//! The way to the server: a pool, timeouts, and trying again.
//!
//! A connection goes back to the pool only after its statement was answered to the end; one that
//! timed out, broke, or was given up half way is closed.

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
use crate::error::{Failed, failed, new, unreached};
use crate::group::Writers;
use crate::options::Target;
use crate::schema::in_schema;

/// The first pause before another try, and the longest; a try waits for a random part of it.
const PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Who sees what while a statement runs.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    /// The statement says so itself.
    Own,
    /// The rows of one repository.
    Repo(RepoName),
    /// The names of all repositories.
    Names,
}

/// What every call needs of an open store.
pub(crate) struct Link {
    pool: Pool,
    pub(crate) options: PostgresOptions,
    pub(crate) schema: String,
    /// The store enforces the border between repositories by itself.
    row_security: AtomicBool,
    closed: AtomicBool,
    /// Numbers of repositories; they never change.
    repos: Mutex<HashMap<RepoName, i64>>,
    /// The ways to repositories that were written to.
    places: Mutex<HashMap<RepoName, Arc<Place>>>,
    /// The store has the functions that those ways go through.
    appends: AtomicBool,
    /// What drives the connections.
    pub(crate) runtime: Handle,
}

/// The short way of a write to a repository.
pub(crate) struct Place {
    pub(crate) number: i64,
    /// The call of its partition's function for one batch.
    pub(crate) alone: String,
    /// The call of its partition's function for several.
    pub(crate) group: String,
    pub(crate) writers: Writers,
}

/// A connection in use.
struct Lease(Option<Object>);

impl Lease {
    fn object(&self) -> &Object {
        self.0.as_ref().expect("it is held until it is given back")
    }

    fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // What is left open on it, nobody else must find.
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

impl Link {
    /// Makes it, for the runtime that this is called on.
    pub(crate) fn new(target: Target) -> StoreResult<Self> {
        let options = target.options.clone();
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let schema = target.schema.clone();
        let manager = manager(target, recycling)?;
        let pool = Pool::builder(manager)
            .max_size(options.pool_size)
            // The one used last has the most at hand, here and on the server.
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
            row_security: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            repos: Mutex::default(),
            places: Mutex::default(),
            appends: AtomicBool::new(false),
            runtime: Handle::current(),
        })
    }

    /// Puts the schema's name into a statement.
    pub(crate) fn sql(&self, text: &str) -> String {
        in_schema(text, &self.schema)
    }

    pub(crate) fn has_row_security(&self) -> bool {
        self.row_security.load(Ordering::Relaxed)
    }

    pub(crate) fn set_row_security(&self, on: bool) {
        self.row_security.store(on, Ordering::Relaxed);
    }

    pub(crate) fn set_appends(&self, there: bool) {
        self.appends.store(there, Ordering::Relaxed);
    }

    fn places(&self) -> MutexGuard<'_, HashMap<RepoName, Arc<Place>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn place(&self, repo: &RepoName) -> Option<Arc<Place>> {
        self.places().get(repo).cloned()
    }

    pub(crate) fn learn_place(&self, repo: &RepoName, place: Place) {
        if !self.appends.load(Ordering::Relaxed) {
            return;
        }
        let mut places = self.places();
        // Who waits on the way that is known already stays on it.
        let is_same =
            |known: &Arc<Place>| (known.number, &known.alone) == (place.number, &place.alone);
        if !places.get(repo).is_some_and(is_same) {
            places.insert(repo.clone(), Arc::new(place));
        }
    }

    pub(crate) fn forget_place(&self, repo: &RepoName) {
        self.places().remove(repo);
    }

    /// How long a write may wait for a lock: milliseconds, for none is no limit.
    pub(crate) fn lock_ms(&self) -> i32 {
        i32::try_from(self.options.lock_timeout.as_millis()).unwrap_or(i32::MAX).max(1)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.pool.close();
    }

    async fn lease(&self, op: &'static str) -> Result<Lease, Failed> {
        if self.closed.load(Ordering::Acquire) {
            let error = new(StoreErrorKind::Unavailable, op, "the store is closed");
            return Err(Failed::Final(error));
        }
        let unavailable =
            |message: String| Failed::Unreached(new(StoreErrorKind::Unavailable, op, message));
        match self.pool.get().await {
            Ok(object) => Ok(Lease(Some(object))),
            Err(PoolError::Backend(error)) => Err(unreached(op, error)),
            Err(PoolError::Timeout(_)) => Err(unavailable(format!(
                "expected a connection within {:?}, found none",
                self.options.connect_timeout
            ))),
            Err(PoolError::Closed) => {
                let error = new(StoreErrorKind::Unavailable, op, "the store is closed");
                Err(Failed::Final(error))
            }
            Err(error) => Err(unavailable(error.to_string())),
        }
    }

    /// Runs one statement in one round trip, once.
    pub(crate) async fn once(
        &self,
        op: &'static str,
        scope: &Scope,
        sql: &str,
        args: &Args,
    ) -> Result<Vec<Row>, Failed> {
        let lease = self.lease(op).await?;
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
        match self.in_time(op, answer).await {
            Ok(rows) => {
                lease.give_back();
                Ok(rows)
            }
            Err(failed) => {
                if !matches!(failed, Failed::Lost(_)) && matches!(scope, Scope::Own) {
                    lease.give_back();
                }
                Err(failed)
            }
        }
    }

    /// Waits for the answer to a statement, as long as one may take.
    pub(crate) async fn in_time<T>(
        &self,
        op: &'static str,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failed> {
        let limit = self.options.statement_timeout;
        match tokio::time::timeout(limit, answer).await {
            Ok(answer) => answer.map_err(|error| failed(op, error)),
            Err(_) => {
                let message = format!("expected an answer within {limit:?}");
                Err(Failed::Lost(new(StoreErrorKind::Busy, op, message)))
            }
        }
    }

    async fn send(&self, object: &Object, sql: &str, args: &Args) -> Result<Vec<Row>, Error> {
        let lent = args.lend();
        if !self.options.named_statements {
            return object.query_typed(sql, &lent).await;
        }
        let types: Vec<Type> = lent.iter().map(|(_, kind)| kind.clone()).collect();
        let statement = object.prepare_typed_cached(sql, &types).await?;
        let values: Vec<_> = lent.into_iter().map(|(value, _)| value).collect();
        object.query(&statement, &values).await
    }

    /// Runs a statement with a setting that lasts as long: four messages, one round trip. Where
    /// the setting fails, so does the statement, for the transaction is broken.
    async fn scoped(
        &self,
        object: &Object,
        setting: &str,
        value: &str,
        sql: &str,
        args: &Args,
    ) -> Result<Vec<Row>, Error> {
        let set = [(&setting as _, Type::TEXT), (&value as _, Type::TEXT)];
        let lent = args.lend();
        let (begun, set, rows, ended) = tokio::join!(
            biased;
            object.batch_execute("BEGIN"),
            object.query_typed("SELECT set_config($1, $2, true)", &set),
            object.query_typed(sql, &lent),
            object.batch_execute("COMMIT"),
        );
        begun?;
        set?;
        let rows = rows?;
        ended?;
        Ok(rows)
    }

    /// Runs a statement until it is answered, or time is up.
    ///
    /// A write must be one that happens at most once however often it is sent.
    pub(crate) async fn query(
        &self,
        op: &'static str,
        scope: &Scope,
        sql: &str,
        args: &Args,
        writes: bool,
    ) -> StoreResult<Vec<Row>> {
        self.query_after(None, op, scope, sql, args, writes).await
    }

    /// Runs a statement like [`Self::query`], where another statement with the same effect may have
    /// been tried first, and failed.
    pub(crate) async fn query_after(
        &self,
        tried: Option<Failed>,
        op: &'static str,
        scope: &Scope,
        sql: &str,
        args: &Args,
        writes: bool,
    ) -> StoreResult<Vec<Row>> {
        self.until_answered(tried, writes, || self.once(op, scope, sql, args)).await
    }

    /// Tries something until it is answered, or time is up; a write must be one that happens at
    /// most once however often it is tried.
    pub(crate) async fn until_answered<T, F>(
        &self,
        mut tried: Option<Failed>,
        writes: bool,
        mut once: impl FnMut() -> F,
    ) -> StoreResult<T>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let end = Instant::now() + self.options.retry_for;
        let (mut in_doubt, mut pause) = (false, PAUSE);
        loop {
            let failed = match tried.take() {
                Some(failed) => failed,
                None => match once().await {
                    Ok(answer) => return Ok(answer),
                    Err(failed) => failed,
                },
            };
            in_doubt |= writes && matches!(failed, Failed::Lost(_));
            let is_final = matches!(failed, Failed::Final(_));
            if is_final || Instant::now() >= end {
                let mut error = failed.into_error();
                if in_doubt {
                    error.kind = StoreErrorKind::Unknown;
                }
                return Err(error);
            }
            tokio::time::sleep(jitter(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Reads, as one repository sees it.
    pub(crate) async fn read(
        &self,
        op: &'static str,
        repo: &RepoName,
        sql: &str,
        args: Args,
    ) -> StoreResult<Vec<Row>> {
        self.query(op, &Scope::Repo(repo.clone()), &self.sql(sql), &args, false).await
    }

    /// Finds the number of a repository that has something in it.
    pub(crate) async fn repo(&self, op: &'static str, name: &RepoName) -> StoreResult<Option<i64>> {
        let known = || self.repos.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = known().get(name).copied() {
            return Ok(Some(number));
        }
        let sql = "SELECT id FROM {s}.repos WHERE name = $1";
        let rows = self.read(op, name, sql, Args::new().text(name.as_str())).await?;
        let number = rows.first().map(|row| column(op, row, 0)).transpose()?;
        if let Some(number) = number {
            known().insert(name.clone(), number);
        }
        Ok(number)
    }

    /// Runs steps that belong together in a transaction that is rolled back unless all succeed.
    pub(crate) async fn transaction<T, F>(
        &self,
        op: &'static str,
        scope: &Scope,
        steps: impl FnOnce(Arc<Object>) -> F,
    ) -> StoreResult<T>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        self.steps(op, scope, steps).await.map_err(Failed::into_error)
    }

    /// Runs steps like [`Self::transaction`], and tells what a failure means for another try.
    pub(crate) async fn steps<T, F>(
        &self,
        op: &'static str,
        scope: &Scope,
        steps: impl FnOnce(Arc<Object>) -> F,
    ) -> Result<T, Failed>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let mut lease = self.lease(op).await?;
        let object = Arc::new(lease.0.take().expect("it was just taken"));
        let run = async {
            object.batch_execute("BEGIN").await.map_err(|error| failed(op, error))?;
            let (setting, value) = match scope {
                Scope::Own => ("tract.repo", ""),
                Scope::Repo(name) => ("tract.repo", name.as_str()),
                Scope::Names => ("tract.list", "on"),
            };
            let set = [(&setting as _, Type::TEXT), (&value as _, Type::TEXT)];
            let sql = "SELECT set_config($1, $2, true)";
            object.query_typed(sql, &set).await.map_err(|error| failed(op, error))?;
            let answer = steps(Arc::clone(&object)).await?;
            object.batch_execute("COMMIT").await.map_err(|error| failed(op, error))?;
            Ok(answer)
        };
        let answer = run.await;
        // Back to the pool when it is clean; else it is closed, and the server rolls back.
        if let Ok(object) = Arc::try_unwrap(object) {
            match answer.is_ok() {
                true => Lease(Some(object)).give_back(),
                false => drop(Lease(Some(object))),
            }
        }
        answer
    }
}

#[cfg(feature = "tls")]
fn manager(target: Target, config: ManagerConfig) -> StoreResult<Manager> {
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

/// A random part of a pause, so that those who collided do not do so again.
fn jitter(pause: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    let nanos = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(random % nanos.max(1))
}

/// Reads a column; a value of another type was not written by us.
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

/// Reads a column that holds the bytes of an id.
pub(crate) fn id_column(op: &'static str, row: &Row, index: usize) -> StoreResult<[u8; 32]> {
    let bytes: &[u8] = column(op, row, index)?;
    bytes.try_into().map_err(|_| {
        let message = format!("expected an id of 32 bytes, found {}", bytes.len());
        crate::error::damaged(op, message)
    })
}
