//! A batch of the usual shape, a line of commits and the ref that moves over it, as a narrower
//! statement: the function `append` of the repository's partition.

use std::collections::BTreeMap;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use tract_core::{Batch, Expect, RepoName, StoreResult};

use crate::apply::{Answer, needs, runs};
use crate::args::{Args, Raw};
use crate::error::damaged;
use crate::link::{Link, Place, column};
use crate::schema::{MAX_BYTES, encode_note, encode_target, log_sum, log_sum_before, ref_sum};

const OP: &str = "apply";

/// The partitions of the log are numbered as those of all tables.
const LOG: &str = "ref_log_";

/// Returns the way to a repository whose number and partition of the log a write told.
pub(crate) fn place(link: &Link, log: &str, number: i64) -> Option<Place> {
    let (_, cut) = log.trim_end_matches('"').rsplit_once(LOG)?;
    let cut: u16 = cut.parse().ok()?;
    let function = match link.has_row_security() {
        true => "append".to_owned(),
        false => format!("append_{cut}"),
    };
    let parameters: Vec<String> = (1..=22).map(|n| format!("${n}")).collect();
    let sql = link.sql(&format!("SELECT {{s}}.{function}({})", parameters.join(", ")));
    Some(Place { number, sql })
}

/// Returns the arguments, where the batch has that shape.
pub(crate) fn arguments(
    link: &Link,
    repo: &RepoName,
    place: &Place,
    batch: &Batch,
) -> Option<Args> {
    let [edit] = batch.refs.as_slice() else { return None };
    let (Expect::Is(is), Some(to)) = (&edit.expect, &edit.to) else { return None };
    let others = batch.toolsets.len() + batch.tools.len() + batch.derived.len();
    let (lengths, commits) = runs(&batch.commits);
    if is == to || others > 0 || lengths.len() != 1 {
        return None;
    }
    let parent = commits.first()?.parent()?;
    let [needed, blobs, toolsets, tools] = needs(batch);
    if !matches!(needed.as_slice(), [one] if *one.0 == *parent.as_bytes()) || !tools.is_empty() {
        return None;
    }
    let records: Vec<Vec<u8>> = commits.iter().map(|commit| commit.encode()).collect();
    let brought: BTreeMap<_, _> = batch.blobs.iter().map(|blob| (blob.id(), blob)).collect();
    let sizes = brought.values().map(|blob| blob.bytes().len());
    if sizes.chain(records.iter().map(Vec::len)).sum::<usize>() > MAX_BYTES {
        return None;
    }
    let (note, name) = (encode_note(&batch.note), edit.name.as_str());
    let (is, to) = (encode_target(is), encode_target(to));
    let args = Args::new()
        .text(repo.as_str())
        .int(place.number)
        .id(batch.id.as_bytes())
        .id(&note)
        .with(link.lock_ms(), Type::INT4)
        .with(link.options.unsafe_lose_on_power_loss, Type::BOOL)
        .text(name)
        .id(&is)
        .id(&to)
        .int(ref_sum(repo, name, &to))
        .int(log_sum(repo, name, Some(&to), batch.id, &note) ^ log_sum_before(&is))
        .listed(blobs)
        .listed(toolsets)
        .id(parent.as_bytes());
    let ids = commits.iter().map(|commit| Raw::id(commit.id().as_bytes()));
    let args = pairs(args, ids, records.into_iter().map(Raw::from));
    let ids = brought.keys().map(|id| Raw::id(id.as_bytes()));
    let args = pairs(args, ids, brought.values().map(|blob| Raw(blob.bytes().clone())));
    Some(args)
}

/// Adds the first id and its bytes, and then the others.
fn pairs(
    args: Args,
    mut ids: impl Iterator<Item = Raw>,
    mut bytes: impl Iterator<Item = Raw>,
) -> Args {
    let args = args.with(ids.next(), Type::BYTEA).with(bytes.next(), Type::BYTEA);
    args.listed(ids.collect()).listed(bytes.collect())
}

/// Reads the answer: nothing where the batch is written, else what `apply` said.
pub(crate) fn answer(row: &Row) -> StoreResult<Option<Answer>> {
    let Some(parts) = column::<Option<Vec<Option<Vec<u8>>>>>(OP, row, 0)? else { return Ok(None) };
    let unreadable = || damaged(OP, "expected the four parts of an answer, found others");
    let Ok([Some(status), what, found, sum]) = <[_; 4]>::try_from(parts) else {
        return Err(unreadable());
    };
    let status = status.try_into().map(i16::from_be_bytes).map_err(|_| unreadable())?;
    let what = what.map(String::from_utf8).transpose().map_err(|_| unreadable())?;
    let sum = sum.map(|sum| sum.try_into().map(i64::from_be_bytes)).transpose();
    Ok(Some(Answer { status, what, found, sum: sum.map_err(|_| unreadable())? }))
}
