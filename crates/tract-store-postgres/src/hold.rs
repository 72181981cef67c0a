//! Lets a sweep finish while others write without a pause.
//!
//! A sweep deletes nothing if others have written since the mark. The collector then marks the new
//! objects, and before its next sweep others have written again. To break this cycle, a sweep that
//! follows such a failure keeps the repository's lock if it finds writes. The next sweep of the
//! handle, which the collector sends as soon as it has marked, runs in the same transaction.
//! Writers have to wait in between, but only briefly: the lock is released after [`HOLD`], with or
//! without a sweep.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot::channel;
use tokio_postgres::Row;
use tract_core::{RepoName, StoreErrorKind, StoreResult};

use crate::args::Args;
use crate::error::{damaged, failed, new};
use crate::link::{Connector, Scope, column};
use crate::space::{Answer, HeldSweep};

pub(crate) const OP: &str = "sweep";
/// Maximum time that writers wait for a collector while it marks.
const HOLD: Duration = Duration::from_millis(40);
/// Makes the server end the transaction if this process is stopped while it has the lock.
const LIMIT: &str = "SET LOCAL idle_in_transaction_session_timeout = 100";

/// The answer of a sweep.
pub(crate) struct SweptRow {
    /// Whether it deleted the objects, because nothing was written since its position.
    pub(crate) done: bool,
    pub(crate) log: i64,
    pub(crate) unlogged: i64,
    pub(crate) freed: i64,
    pub(crate) place: Option<String>,
}

impl SweptRow {
    pub(crate) fn read(rows: &[Row]) -> StoreResult<Self> {
        let row = rows.first().ok_or_else(|| damaged(OP, "expected an answer, found none"))?;
        Ok(Self {
            done: column(OP, row, 0)?,
            log: column(OP, row, 1)?,
            unlogged: column(OP, row, 2)?,
            freed: column(OP, row, 3)?,
            place: column(OP, row, 4)?,
        })
    }
}

/// Sends a sweep to the one that keeps the repository's lock; `None` if there is none, or if it has
/// ended.
pub(crate) async fn next(
    link: &Connector,
    repo: &RepoName,
    args: Arc<Args>,
) -> Option<StoreResult<Vec<Row>>> {
    let held = link.swept().held.take().filter(|held| held.repo == *repo)?;
    let (answer, receiver) = channel();
    held.next.send((args, answer)).ok()?;
    Some(received(receiver.await.ok()))
}

fn received(answer: Option<StoreResult<Vec<Row>>>) -> StoreResult<Vec<Row>> {
    let ended = || new(StoreErrorKind::Unavailable, OP, "the store's threads have ended");
    answer.unwrap_or_else(|| Err(ended()))
}

/// Sweeps, and keeps the lock if others have written since the mark.
pub(crate) async fn begin(
    link: &Arc<Connector>,
    repo: &RepoName,
    sql: &str,
    args: Arc<Args>,
    unlogged: i64,
) -> StoreResult<Vec<Row>> {
    let (answer, receiver) = channel();
    let (owned, repo, sql) = (Arc::clone(link), repo.clone(), sql.to_owned());
    link.runtime.spawn(async move { run(&owned, repo, &sql, args, unlogged, answer).await });
    received(receiver.await.ok())
}

async fn run(
    link: &Connector,
    repo: RepoName,
    sql: &str,
    args: Arc<Args>,
    unlogged: i64,
    answer: Answer,
) {
    let mut waiting = Some(answer);
    let ended = link.steps(OP, &Scope::Own, None, async |object| {
        let sweep = async |args: &Args| {
            link.in_time(OP, None, object.query_typed(sql, &args.as_params())).await
        };
        object.batch_execute(LIMIT).await.map_err(|error| failed(OP, error))?;
        let rows = sweep(&args).await?;
        let row = SweptRow::read(&rows)?;
        // If objects were written without a ref, the collector starts again, so do not wait for it.
        if row.done || row.unlogged != unlogged {
            return Ok(rows);
        }
        let (next, receiver) = channel();
        link.swept().held = Some(HeldSweep { repo, next });
        if let Some(answer) = waiting.take() {
            // If the caller is gone, there is no next sweep, and the timeout ends the wait.
            let _ = answer.send(Ok(rows));
        }
        match tokio::time::timeout(HOLD, receiver).await {
            Ok(Ok((args, answer))) => {
                waiting = Some(answer);
                sweep(&args).await
            }
            _ => Ok(Vec::new()),
        }
    });
    let ended = ended.await.map_err(|failed| failed.error);
    // Answer only after the commit, so that answered sweeps are durable.
    if let Some(answer) = waiting {
        let _ = answer.send(ended);
    }
}
