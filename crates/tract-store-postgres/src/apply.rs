//! Applies a batch of any shape with one statement.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot::{Receiver, channel};
use tokio_postgres::types::Type;
use tract_core::{
    Applied, Batch, Blob, BlobId, CommitId, Conflict, Expect, ObjectId, RefTarget, RepoName,
    StoreError, StoreErrorKind, StoreResult, ToolId, ToolsetId,
};

use crate::append::{self, ServerAnswer, needs, runs};
use crate::args::{Args, Raw};
use crate::error::{BACKEND, Failed, damaged, new};
use crate::link::{Connector, Scope, column};
use crate::portions;
use crate::queue::{self, RepoQueues, Target};
use crate::schema::{MAX_BYTES, encode_note, log_sum, ref_sum};
use crate::{erase, sweep, tools};

const OP: &str = "apply";
/// The number of the parameter with the blob contents.
const CONTENTS: usize = 18;

/// Accepts a batch. A batch that moves one ref is queued after the earlier ones of that ref,
/// whether or not its answer is awaited. Never waits for the server.
pub(crate) fn submit(
    link: &Arc<Connector>,
    queues: &RepoQueues,
    repo: &RepoName,
    batch: Batch,
) -> StoreResult<Receiver<StoreResult<Applied>>> {
    batch.check_refs(BACKEND)?;
    if erase::erases(&batch) || batch.position.is_some() {
        erase::check_functions(link, OP)?;
    }
    if batch.refs.len() == 1 {
        return Ok(queue::submit(link, queues, repo, batch));
    }
    let (answer, receiver) = channel();
    let (link, repo, writers) = (Arc::clone(link), repo.clone(), queues.writers(repo));
    let deadline = Instant::now() + portions::write_limit(&link, &batch);
    let target = Target { link: Arc::clone(&link), repo, writers };
    link.runtime.spawn(async move {
        // The receiver may have been dropped.
        let _ = answer.send(long(&target, &batch, None, deadline).await);
    });
    Ok(receiver)
}

/// Writes a batch of any shape. `tried` is the failure of an earlier statement with the same
/// effect, if there was one.
pub(crate) async fn long(
    target: &Target,
    batch: &Batch,
    tried: Option<Failed>,
    deadline: Instant,
) -> StoreResult<Applied> {
    let Target { link, repo, .. } = target;
    let (is_large, erases) = (portions::is_large(batch), erase::erases(batch));
    let is_alone = erases || batch.position.is_some();
    if is_alone {
        sweep::settle(link, OP).await?;
    }
    let mut args = arguments(link, repo, batch, is_large)?;
    if let Some(position) = batch.position {
        args = args.int(sweep::number(position.log)).int(sweep::number(position.unlogged));
    }
    let count = if batch.position.is_some() { 33 } else { 31 };
    let mut parameters: Vec<String> = (1..=count).map(|n| format!("${n}")).collect();
    if is_large && let Some(contents) = parameters.get_mut(CONTENTS - 1) {
        *contents = portions::SENT.to_owned();
    }
    // If no ref moves, `apply` itself counts the write.
    let is_ahead = !batch.refs.is_empty() && link.has_appends() && batch.stores_ahead();
    let function = match (batch.position.is_some(), is_ahead) {
        (false, false) => "apply",
        (false, true) => "apply_ahead",
        (true, false) => "apply_at",
        (true, true) => "apply_ahead_at",
    };
    let sql = link.sql(&format!("SELECT * FROM {{s}}.{function}({})", parameters.join(", ")));
    let blobs: Vec<&Blob> =
        if is_large { blobs(batch).into_values().collect() } else { Vec::new() };
    let once = async || {
        let rows = if is_large {
            portions::once(link, OP, &blobs, &sql, &args, deadline).await
        } else {
            link.once(OP, &Scope::Own, &sql, &args, Some(deadline)).await
        };
        if is_alone { rows.map_err(erase::waits_again) } else { rows }
    };
    let rows = link.until_answered(tried, true, Some(deadline), once).await;
    let rows = rows.inspect_err(|error| {
        if erases && error.kind == StoreErrorKind::Unknown {
            // It may have been written. `None` makes the next wipe rewrite all partitions.
            link.erased_cuts().insert(None);
        }
    })?;
    let row = rows.first().ok_or_else(unanswered)?;
    let answer = ServerAnswer {
        status: column(OP, row, 0)?,
        what: column(OP, row, 1)?,
        found: column(OP, row, 2)?,
        sum: column(OP, row, 3)?,
    };
    applied(target, batch, answer)
}

pub(crate) fn unanswered() -> StoreError {
    damaged(OP, "expected one answer to a write, found none")
}

pub(crate) fn applied(
    target: &Target,
    batch: &Batch,
    answer: ServerAnswer,
) -> StoreResult<Applied> {
    let Target { link, repo, writers } = target;
    let ServerAnswer { status, what, found, sum } = answer;
    let what = what.as_deref().unwrap_or_default();
    match status {
        0 => {
            if erase::erases(batch) && sum.is_some() {
                link.erased_cuts().insert(append::partition(what));
            }
            if link.has_appends()
                && let Some(place) = sum.and_then(|number| append::place(link, what, number))
            {
                writers.set_place(Some(place));
            }
            Ok(Applied::Done)
        }
        1 => {
            if erase::erases(batch) {
                link.erased_cuts().insert(None);
            }
            Ok(Applied::Already)
        }
        2 => {
            let edit = batch.refs.iter().find(|edit| edit.name.as_str() == what);
            let edit =
                edit.ok_or_else(|| damaged(OP, format!("a conflict of {what}, not asked for")))?;
            let is_damaged = || damaged(OP, format!("the ref {what} is damaged"));
            let found = match found {
                None => None,
                Some(target) if sum != Some(ref_sum(repo, what, &target)) => {
                    return Err(is_damaged());
                }
                Some(target) => Some(RefTarget::decode(&target).ok_or_else(is_damaged)?),
            };
            let (name, expected) = (edit.name.clone(), edit.expect.clone());
            Ok(Applied::Conflict(Conflict { name, expected, found }))
        }
        3 => {
            let id: [u8; 32] = found.unwrap_or_default().try_into().map_err(|_| {
                damaged(OP, "expected the id of a missing object, found something else")
            })?;
            let object = match what {
                "commit" => ObjectId::Commit(CommitId::from_bytes(id)),
                "blob" => ObjectId::Blob(BlobId::from_bytes(id)),
                "toolset" => ObjectId::Toolset(ToolsetId::from_bytes(id)),
                _ => ObjectId::Tool(ToolId::from_bytes(id)),
            };
            Err(StoreError::missing(BACKEND, OP, object))
        }
        4 => {
            let position = found.and_then(|bytes| <[u8; 8]>::try_from(bytes).ok()).zip(sum);
            let (unlogged, log) = position.ok_or_else(|| {
                damaged(OP, "expected a position of the writes, found something else")
            })?;
            Ok(Applied::Moved(sweep::write_position(log, i64::from_be_bytes(unlogged))))
        }
        other => Err(damaged(OP, format!("expected an answer from 0 to 4, found {other}"))),
    }
}

fn arguments(
    link: &Connector,
    repo: &RepoName,
    batch: &Batch,
    is_large: bool,
) -> StoreResult<Args> {
    let note = encode_note(&batch.note);
    let is_alone = erase::erases(batch) || batch.position.is_some();
    let lock_ms = if is_alone { sweep::lock_ms(link) } else { link.lock_ms() };
    let args = Args::new()
        .text(repo.as_str())
        .id(batch.id.as_bytes())
        .id(&note)
        .with(lock_ms, Type::INT4)
        .with(link.options.unsafe_lose_on_power_loss, Type::BOOL);
    let args = refs(args, repo, batch, &note);
    let args = needs(batch).into_iter().fold(args, Args::raws);
    objects(args, batch, is_large)
}

fn refs(args: Args, repo: &RepoName, batch: &Batch, note: &[u8]) -> Args {
    let edits = &batch.refs;
    let names: Vec<String> = edits.iter().map(|edit| edit.name.as_str().to_owned()).collect();
    // All writers lock refs in name order, so they cannot deadlock.
    let mut sorted: Vec<i32> = (1..).take(names.len()).collect();
    sorted.sort_by_key(|n| names.get(usize::try_from(*n - 1).unwrap_or_default()));
    let (mut expects, mut is, mut to) = (Vec::new(), Vec::new(), Vec::new());
    let (mut sums, mut log_sums) = (Vec::new(), Vec::new());
    for edit in edits {
        let (expect, target) = match &edit.expect {
            Expect::Any => (0i16, None),
            Expect::Absent => (1, None),
            Expect::Is(target) => (2, Some(Raw::from(target.encode()))),
        };
        expects.push(expect);
        is.push(target);
        let after = edit.to.as_ref().map(RefTarget::encode);
        let name = edit.name.as_str();
        sums.push(after.as_deref().map_or(0, |after| ref_sum(repo, name, after)));
        log_sums.push(log_sum(repo, name, after.as_deref(), batch.id, note));
        to.push(after.map(Raw::from));
    }
    args.with(names, Type::TEXT_ARRAY)
        .with(sorted, Type::INT4_ARRAY)
        .with(expects, Type::INT2_ARRAY)
        .maybe_raws(is)
        .maybe_raws(to)
        .with(sums, Type::INT8_ARRAY)
        .with(log_sums, Type::INT8_ARRAY)
}

/// Returns the blobs sorted by hash, so that two batches with the same blobs cannot deadlock.
fn blobs(batch: &Batch) -> BTreeMap<BlobId, &Blob> {
    batch.blobs.iter().map(|blob| (blob.id(), blob)).collect()
}

fn objects(args: Args, batch: &Batch, is_large: bool) -> StoreResult<Args> {
    let blobs = blobs(batch);
    let (runs, commits) = runs(batch);
    let records: Vec<Vec<u8>> = commits.iter().map(|commit| commit.encode()).collect();
    let toolsets: BTreeMap<_, _> = batch.toolsets.iter().map(|set| (set.id(), set)).collect();
    let mut seen = HashSet::new();
    let tool_rows: Vec<_> =
        batch.tools.iter().filter(|tool| seen.insert((tool.id, tool.schema))).collect();
    let derived: BTreeMap<_, _> =
        batch.derived.iter().map(|row| ((row.kind.number(), row.commit), &row.bytes)).collect();
    let sizes = blobs.values().map(|blob| blob.bytes().len());
    let sizes = sizes.chain(records.iter().map(Vec::len)).chain(derived.values().map(|b| b.len()));
    let sizes = sizes.chain(toolsets.values().map(|set| set.entries().len() * 64));
    let size: usize = sizes.sum();
    if size > MAX_BYTES {
        let message = format!("expected a batch of at most {MAX_BYTES} bytes, found {size}");
        return Err(new(StoreErrorKind::TooLarge, OP, message));
    }
    let parents = commits.iter().map(|commit| Some(Raw::id(commit.parent()?.as_bytes()))).collect();
    let args = args
        .ids(blobs.keys().map(BlobId::as_bytes))
        .raws(if is_large {
            Vec::new()
        } else {
            blobs.values().map(|blob| Raw(blob.bytes().clone())).collect()
        })
        .ids(commits.iter().map(|commit| *commit.id().as_bytes()))
        .raws(records.into_iter().map(Raw::from).collect())
        .maybe_raws(parents)
        .with(runs, Type::INT4_ARRAY)
        .ids(toolsets.keys().map(ToolsetId::as_bytes))
        .raws(toolsets.values().map(|set| Raw::from(set.encode())).collect());
    Ok(tools::arguments(args, tool_rows)
        .with(
            derived.keys().map(|(kind, _)| i16::from(*kind)).collect::<Vec<_>>(),
            Type::INT2_ARRAY,
        )
        .ids(derived.keys().map(|(_, commit)| *commit.as_bytes()))
        .raws(derived.values().map(|bytes| Raw((*bytes).clone())).collect()))
}
