//! A sweep next to others that write without a pause.
//!
//! A sweep that finds that others wrote since the mark deletes nothing, and the collector marks what
//! they wrote. Meanwhile they write again. So a sweep that comes after such a one keeps the
//! repository's lock when it finds writes, and the next sweep of the handle, which the collector sends
//! as soon as it has marked, runs in the same transaction. Others wait meanwhile: for a short time,
//! after which the lock is released, with or without a sweep.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot::{Sender, channel};
use tokio_postgres::Row;
use tract_core::{RepoName, StoreErrorKind, StoreResult};

use crate::args::Args;
use crate::error::{failed, new};
use crate::link::{Connector, Scope};
use crate::sweep::{OP, SweptRow, swept};

/// How long others wait for a collector that marks.
const HOLD: Duration = Duration::from_millis(40);
/// The server ends the transaction of a process that is stopped.
const LIMIT: &str = "SET LOCAL idle_in_transaction_session_timeout = 100";

type Answer = Sender<StoreResult<Vec<Row>>>;

/// A sweep that keeps the lock of a repository, and waits for the next one.
#[derive(Debug)]
pub(crate) struct HeldSweep {
    repo: RepoName,
    next: Sender<(Arc<Args>, Answer)>,
}

/// Sends a sweep to the one that keeps the repository's lock; `None` where there is none, or not any
/// more.
pub(crate) async fn next(
    link: &Connector,
    repo: &RepoName,
    args: Arc<Args>,
) -> Option<StoreResult<Vec<Row>>> {
    let held = swept(link).held.take().filter(|held| held.repo == *repo)?;
    let (answer, receiver) = channel();
    held.next.send((args, answer)).ok()?;
    Some(received(receiver.await.ok()))
}

fn received(answer: Option<StoreResult<Vec<Row>>>) -> StoreResult<Vec<Row>> {
    let ended = || new(StoreErrorKind::Unavailable, OP, "the store's threads have ended");
    answer.unwrap_or_else(|| Err(ended()))
}

/// Sweeps, and keeps the lock if others wrote since the mark.
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
        // What no ref leads to makes the collector start again.
        if row.done || row.unlogged != unlogged {
            return Ok(rows);
        }
        let (next, receiver) = channel();
        swept(link).held = Some(HeldSweep { repo, next });
        if let Some(answer) = waiting.take() {
            // A caller that has gone sends no other.
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
    // After the end of the transaction: what is answered is durable.
    if let Some(answer) = waiting {
        let _ = answer.send(ended);
    }
}
