//! Sends the batches of a job with one statement, and answers each of them.

use std::sync::Arc;
use std::time::Instant;

use tokio_postgres::Row;
use tract_core::{Applied, Conflict, Expect, StoreErrorKind, StoreResult};

use crate::append::{self, Line, RepoStatements};
use crate::apply;
use crate::args::Args;
use crate::error::{Failed, Retry};
use crate::link::{Connector, Scope};
use crate::queue::{Job, Slot, Target, Write};

const OP: &str = "apply";

/// Sends a job and answers all its batches.
pub(crate) async fn run(mut slot: Slot, job: Job) {
    let target = slot.target.clone();
    match (job, target.writers.place()) {
        (Job::One(write), place) => one(&target, place.as_deref(), *write).await,
        (Job::Chain(chain), Some(place)) => together(&target, &place, chain).await,
        (Job::Group(group), Some(place)) => {
            let Target { link, repo, .. } = &target;
            let (args, deadline) =
                (append::group(link, repo, place.number, &lines(&group)), earliest(&group));
            let outcome = answered(link, &place.group, &args, deadline, append::written).await;
            let outcome = outcome.inspect_err(|failed| forget_where_unknown(&target, failed));
            for (write, n) in group.into_iter().zip(1..) {
                match &outcome {
                    Ok(written) if written.contains(&n) => write.answer(Ok(Applied::Done)),
                    outcome => {
                        // One batch may be the cause, so each is written alone and gets its own
                        // answer.
                        let tried = outcome.as_ref().err().and_then(doubtful);
                        let name = write.batch.refs.first().map(|edit| edit.name.clone());
                        // The ref stays blocked until its own task ends. Otherwise a later batch of
                        // the same ref could overtake this one.
                        let slot = slot.split(name.as_ref().map_or("", |name| name.as_str()));
                        target.link.runtime.spawn(async move {
                            let target = slot.target.clone();
                            long(&target, write, tried).await;
                        });
                    }
                }
            }
        }
        // The fast path became unavailable after the job was formed.
        (Job::Chain(writes) | Job::Group(writes), None) => in_order(&target, writes, None).await,
    }
}

/// Returns the failure of a group for each of its batches, unless retrying is pointless.
fn doubtful(failed: &Failed) -> Option<Failed> {
    (failed.retry != Retry::Never).then(|| failed.duplicate())
}

fn forget_where_unknown(target: &Target, failed: &Failed) {
    // The schema may have been recreated with other partitions.
    if failed.retry == Retry::Never && failed.error.kind == StoreErrorKind::Engine {
        target.writers.set_place(None);
    }
}

/// Writes one batch, on the fast path if it has the usual shape.
async fn one(target: &Target, place: Option<&RepoStatements>, write: Write) {
    let mut tried = None;
    if let (Some(place), Some(line)) = (place, &write.line) {
        let args = line.alone(&target.link, &target.repo, place.number);
        let deadline = Some(write.deadline);
        match answered(&target.link, &place.alone, &args, deadline, append::answer).await {
            Ok(None) => return write.answer(Ok(Applied::Done)),
            // `append` did not write it, and returned the answer of `apply` in the same statement.
            Ok(Some(answer)) => {
                let applied = apply::applied(target, &write.batch, answer);
                return write.answer(applied);
            }
            Err(failed) => {
                forget_where_unknown(target, &failed);
                tried = doubtful(&failed);
                if tried.is_none() && failed.error.kind != StoreErrorKind::Engine {
                    return write.answer(Err(failed.error));
                }
            }
        }
    }
    long(target, write, tried).await;
}

async fn long(target: &Target, write: Write, tried: Option<Failed>) {
    let answer = apply::long(target, &write.batch, tried, write.deadline).await;
    write.answer(answer);
}

/// Writes batches of one ref one after another.
async fn in_order(target: &Target, writes: Vec<Write>, tried: Option<Failed>) {
    let mut lost: Option<Conflict> = None;
    for write in writes {
        // A batch that expects the one before it fails too after a conflict. The ref was just read,
        // so answer without another round trip.
        let expect = write.batch.refs.first().map(|edit| &edit.expect);
        if let (Some(lost), Some(Expect::Is(expected)), None) = (&lost, expect, &tried)
            && lost.found.as_ref() != Some(expected)
        {
            let conflict = Conflict { expected: Expect::Is(expected.clone()), ..lost.clone() };
            write.answer(Ok(Applied::Conflict(conflict)));
            continue;
        }
        let tried = tried.as_ref().map(Failed::duplicate);
        let answer = apply::long(target, &write.batch, tried, write.deadline).await;
        lost = match &answer {
            Ok(Applied::Conflict(conflict)) => Some(conflict.clone()),
            _ => None,
        };
        write.answer(answer);
    }
}

/// Sends a statement once and reads the row of its answer.
async fn answered<T>(
    link: &Connector,
    sql: &str,
    args: &Args,
    deadline: Option<Instant>,
    read: fn(&Row) -> StoreResult<T>,
) -> Result<T, Failed> {
    let rows = link.once(OP, &Scope::Own, sql, args, deadline).await?;
    Ok(rows.first().ok_or_else(apply::unanswered).and_then(read)?)
}

fn lines(writes: &[Write]) -> Vec<&Line> {
    writes.iter().filter_map(|write| write.line.as_ref()).collect()
}

/// Returns the earliest deadline.
fn earliest(writes: &[Write]) -> Option<Instant> {
    writes.iter().map(|write| write.deadline).min()
}

/// Writes a chain with one statement, or else each batch alone.
async fn together(target: &Target, place: &Arc<RepoStatements>, chain: Vec<Write>) {
    let Target { link, repo, .. } = target;
    let args = append::chain(link, repo, place.number, &lines(&chain));
    let deadline = earliest(&chain);
    match answered(link, &place.chain, &args, deadline, append::chain_written).await {
        Ok(true) => chain.into_iter().for_each(|write| write.answer(Ok(Applied::Done))),
        Ok(false) => in_order(target, chain, None).await,
        Err(failed) => {
            forget_where_unknown(target, &failed);
            in_order(target, chain, doubtful(&failed)).await;
        }
    }
}
