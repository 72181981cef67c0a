//! The fast path for a batch of the usual shape, a run of commits and one ref that moves over it.
//! It uses narrower statements than `apply`: a single batch calls the function `append` of the
//! repository's partition, several batches of different refs call `append_group`, and several
//! batches of one ref call `append_chain`.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use tract_core::{Batch, Commit, Expect, ObjectId, RepoName, StoreResult};

use crate::args::{Args, Raw};
use crate::error::damaged;
use crate::link::{Connector, column};
use crate::schema::{MAX_BYTES, encode_note, log_sum, log_sum_before, ref_sum};

const OP: &str = "apply";

/// How long a group may wait for a ref that another writer has locked, in milliseconds. After that,
/// each batch is sent alone and may wait for the full lock timeout.
const GROUP_LOCK_MS: i32 = 100;

/// The partitions of the log have the same numbers as those of all tables.
const LOG: &str = "ref_log_";

/// The server's answer to a write.
pub(crate) struct ServerAnswer {
    pub(crate) status: i16,
    pub(crate) what: Option<String>,
    pub(crate) found: Option<Vec<u8>>,
    pub(crate) sum: Option<i64>,
}

/// The statements of the fast path for a repository.
pub(crate) struct RepoStatements {
    pub(crate) number: i64,
    /// The call of its partition's function for one batch.
    pub(crate) alone: String,
    /// The call of its partition's function for several batches of different refs.
    pub(crate) group: String,
    /// The call of its partition's function for several batches of one ref.
    pub(crate) chain: String,
}

/// Returns the statements for a repository, given its number and the name of its log partition,
/// which a write returned.
pub(crate) fn place(link: &Connector, log: &str, number: i64) -> Option<RepoStatements> {
    let cut = partition(log)?;
    let of = |function: &str, parameters: usize| {
        let cut = if link.has_row_security() { String::new() } else { format!("_{cut}") };
        let parameters: Vec<String> = (1..=parameters).map(|n| format!("${n}")).collect();
        link.sql(&format!("SELECT {{s}}.{function}{cut}({})", parameters.join(", ")))
    };
    let (alone, group) = (of("append", 22), of("append_group", 27));
    Some(RepoStatements { number, alone, group, chain: of("append_chain", 18) })
}

/// Returns the number of a log partition, given its name.
pub(crate) fn partition(log: &str) -> Option<u16> {
    let (_, cut) = log.trim_end_matches('"').rsplit_once(LOG)?;
    cut.parse().ok()
}

/// A batch of the usual shape, encoded for the server.
#[derive(Debug)]
pub(crate) struct Line {
    batch: Raw,
    note: Raw,
    /// The ref to move.
    name: String,
    is: Raw,
    to: Raw,
    ref_sum: i64,
    log_sum: i64,
    needed_blobs: Vec<Raw>,
    needed_toolsets: Vec<Raw>,
    /// The parent of the first commit.
    pub(crate) parent: Raw,
    /// Ids and records, parents first.
    commits: Vec<(Raw, Raw)>,
    /// Ids and contents, sorted by id.
    blobs: Vec<(Raw, Raw)>,
    /// Total size of records and contents, in bytes.
    pub(crate) bytes: usize,
}

impl Line {
    /// Encodes a batch; `None` if it has another shape.
    pub(crate) fn of(repo: &RepoName, batch: &Batch) -> Option<Self> {
        let [edit] = batch.refs.as_slice() else { return None };
        let (Expect::Is(is), Some(to)) = (&edit.expect, &edit.to) else { return None };
        let others = batch.toolsets.len() + batch.tools.len() + batch.derived.len();
        let (lengths, commits) = runs(batch);
        // A batch that erases or requires a position needs exclusive access to the repository, which
        // `apply` and `apply_at` handle.
        let erases = edit.name.erased_blob().is_some();
        // A batch that stores objects beyond its ref is counted by `apply_ahead`.
        if is == to
            || erases
            || batch.position.is_some()
            || others > 0
            || lengths.len() != 1
            || batch.stores_ahead()
        {
            return None;
        }
        // The first commit of a history opens a segment, which only `apply` does.
        let parent = commits.first()?.parent()?;
        let [needed, needed_blobs, needed_toolsets, tools] = needs(batch);
        if !matches!(needed.as_slice(), [one] if *one.0 == *parent.as_bytes()) || !tools.is_empty()
        {
            return None;
        }
        let commits: Vec<(Raw, Raw)> = commits
            .iter()
            .map(|commit| (Raw::id(commit.id().as_bytes()), commit.encode().into()))
            .collect();
        let brought: BTreeMap<_, _> = batch.blobs.iter().map(|blob| (blob.id(), blob)).collect();
        let blobs: Vec<(Raw, Raw)> = brought
            .into_iter()
            .map(|(id, blob)| (Raw::id(id.as_bytes()), Raw(blob.bytes().clone())))
            .collect();
        let bytes = commits.iter().chain(&blobs).map(|(_, bytes)| bytes.0.len()).sum();
        if bytes > MAX_BYTES {
            return None;
        }
        let (note, name) = (encode_note(&batch.note), edit.name.as_str());
        let (is, to) = (is.encode(), to.encode());
        Some(Self {
            batch: Raw::id(batch.id.as_bytes()),
            ref_sum: ref_sum(repo, name, &to),
            log_sum: log_sum(repo, name, Some(&to), batch.id, &note) ^ log_sum_before(&is),
            note: note.into(),
            name: name.to_owned(),
            is: is.into(),
            to: to.into(),
            needed_blobs,
            needed_toolsets,
            parent: Raw::id(parent.as_bytes()),
            commits,
            blobs,
            bytes,
        })
    }

    /// Returns whether it continues another batch on the same ref.
    pub(crate) fn follows(&self, other: &Self) -> bool {
        let last = other.commits.last().map(|(id, _)| &id.0);
        self.name == other.name && self.is.0 == other.to.0 && last == Some(&self.parent.0)
    }

    /// Returns the arguments of `append`.
    pub(crate) fn alone(&self, link: &Connector, repo: &RepoName, number: i64) -> Args {
        let args = Args::new()
            .text(repo.as_str())
            .int(number)
            .raw(&self.batch)
            .raw(&self.note)
            .with(link.lock_ms(), Type::INT4)
            .with(link.options.unsafe_lose_on_power_loss, Type::BOOL)
            .text(&self.name)
            .raw(&self.is)
            .raw(&self.to)
            .int(self.ref_sum)
            .int(self.log_sum)
            .listed(self.needed_blobs.clone())
            .listed(self.needed_toolsets.clone())
            .raw(&self.parent);
        pairs(pairs(args, &self.commits), &self.blobs)
    }
}

/// Adds the first id and its bytes, and then the others as lists.
fn pairs(args: Args, pairs: &[(Raw, Raw)]) -> Args {
    let (mut ids, mut bytes): (Vec<Raw>, Vec<Raw>) = pairs.iter().cloned().unzip();
    let first = |list: &mut Vec<Raw>| (!list.is_empty()).then(|| list.remove(0));
    let args = args.with(first(&mut ids), Type::BYTEA).with(first(&mut bytes), Type::BYTEA);
    args.listed(ids).listed(bytes)
}

/// Returns the arguments of `append_group`.
pub(crate) fn group(link: &Connector, repo: &RepoName, number: i64, lines: &[&Line]) -> Args {
    let names: Vec<String> = lines.iter().map(|line| line.name.clone()).collect();
    let each = |part: fn(&Line) -> Option<&Raw>| -> Vec<Option<Raw>> {
        lines.iter().map(|line| part(line).cloned()).collect()
    };
    let numbers =
        |part: fn(&Line) -> i64| -> Vec<i64> { lines.iter().map(|line| part(line)).collect() };
    let args = Args::new()
        .text(repo.as_str())
        .int(number)
        .with(link.lock_ms().min(GROUP_LOCK_MS), Type::INT4)
        .with(link.options.unsafe_lose_on_power_loss, Type::BOOL)
        .maybe_raws(each(|line| Some(&line.batch)))
        .maybe_raws(each(|line| Some(&line.note)))
        .with(names, Type::TEXT_ARRAY)
        .maybe_raws(each(|line| Some(&line.is)))
        .maybe_raws(each(|line| Some(&line.to)))
        .with(numbers(|line| line.ref_sum), Type::INT8_ARRAY)
        .with(numbers(|line| line.log_sum), Type::INT8_ARRAY)
        .maybe_raws(each(|line| Some(&line.parent)))
        .maybe_raws(each(|line| line.commits.first().map(|(id, _)| id)))
        .maybe_raws(each(|line| line.commits.first().map(|(_, record)| record)))
        .maybe_raws(each(|line| line.blobs.first().map(|(id, _)| id)))
        .maybe_raws(each(|line| line.blobs.first().map(|(_, content)| content)));
    let args = needed(args, lines, |line| &line.needed_blobs);
    let args = needed(args, lines, |line| &line.needed_toolsets);
    let (of, at, ids, records) = others(lines, |line| &line.commits);
    let args = args.numbered(of).numbered(at).listed(ids).listed(records);
    let (of, _, ids, contents) = others(lines, |line| &line.blobs);
    args.numbered(of).listed(ids).listed(contents)
}

/// Returns the arguments of `append_chain`.
pub(crate) fn chain(link: &Connector, repo: &RepoName, number: i64, lines: &[&Line]) -> Args {
    let each = |part: fn(&Line) -> &Raw| -> Vec<Raw> {
        lines.iter().map(|line| part(line).clone()).collect()
    };
    let all = |part: fn(&Line) -> &[(Raw, Raw)]| -> (Vec<Raw>, Vec<Raw>) {
        lines.iter().flat_map(|line| part(line).iter().cloned()).unzip()
    };
    // The server counts these ids, so each is sent once, and without those that the chain stores.
    let needed = |part: fn(&Line) -> &[Raw]| -> Vec<Raw> {
        let brought = lines.iter().flat_map(|line| &line.blobs).map(|(id, _)| id.0.clone());
        let mut seen: HashSet<Bytes> = brought.collect();
        let ids = lines.iter().flat_map(|line| part(line));
        ids.filter(|id| seen.insert(id.0.clone())).cloned().collect()
    };
    let empty = || Raw(Bytes::new());
    let args = Args::new()
        .text(repo.as_str())
        .int(number)
        .with(link.lock_ms(), Type::INT4)
        .with(link.options.unsafe_lose_on_power_loss, Type::BOOL)
        .text(lines.first().map_or("", |line| &line.name))
        .int(lines.last().map_or(0, |line| line.ref_sum))
        .raws(each(|line| &line.batch))
        .raws(each(|line| &line.note))
        .raws(each(|line| &line.is))
        .raws(each(|line| &line.to))
        .with(lines.iter().map(|line| line.log_sum).collect::<Vec<_>>(), Type::INT8_ARRAY)
        .listed(needed(|line| &line.needed_blobs))
        .listed(needed(|line| &line.needed_toolsets))
        .raw(&lines.first().map_or_else(empty, |line| line.parent.clone()));
    let ((commits, records), (blobs, contents)) =
        (all(|line| &line.commits), all(|line| &line.blobs));
    args.raws(commits).raws(records).listed(blobs).listed(contents)
}

/// Adds the objects that batches need, each with the number of its batch.
fn needed(args: Args, lines: &[&Line], part: fn(&Line) -> &[Raw]) -> Args {
    let each = lines.iter().zip(1i32..);
    let (of, ids) =
        each.flat_map(|(line, n)| part(line).iter().map(move |id| (n, id.clone()))).unzip();
    args.numbered(of).listed(ids)
}

/// Returns all pairs except the first of each batch: the number of the batch, the index of the
/// pair, its id and its bytes.
fn others(
    lines: &[&Line],
    part: fn(&Line) -> &[(Raw, Raw)],
) -> (Vec<i32>, Vec<i32>, Vec<Raw>, Vec<Raw>) {
    let (mut of, mut at, mut ids, mut bytes) = (vec![], vec![], vec![], vec![]);
    for (line, n) in lines.iter().zip(1i32..) {
        for ((id, content), place) in part(line).iter().zip(0i32..).skip(1) {
            of.push(n);
            at.push(place);
            ids.push(id.clone());
            bytes.push(content.clone());
        }
    }
    (of, at, ids, bytes)
}

/// Reads the answer of `append`: `None` if the batch was written, else the answer of `apply`.
pub(crate) fn answer(row: &Row) -> StoreResult<Option<ServerAnswer>> {
    let Some(parts) = column::<Option<Vec<Option<Vec<u8>>>>>(OP, row, 0)? else { return Ok(None) };
    let unreadable = || damaged(OP, "expected the four parts of an answer, found others");
    let Ok([Some(status), what, found, sum]) = <[_; 4]>::try_from(parts) else {
        return Err(unreadable());
    };
    let status = status.try_into().map(i16::from_be_bytes).map_err(|_| unreadable())?;
    let what = what.map(String::from_utf8).transpose().map_err(|_| unreadable())?;
    let sum = sum.map(|sum| sum.try_into().map(i64::from_be_bytes)).transpose();
    Ok(Some(ServerAnswer { status, what, found, sum: sum.map_err(|_| unreadable())? }))
}

/// Reads the answer of `append_group`: the numbers, from 1, of the written batches.
pub(crate) fn written(row: &Row) -> StoreResult<Vec<i32>> {
    Ok(column::<Option<Vec<i32>>>(OP, row, 0)?.unwrap_or_default())
}

/// Reads the answer of `append_chain`: whether all batches were written.
pub(crate) fn chain_written(row: &Row) -> StoreResult<bool> {
    Ok(column::<Option<bool>>(OP, row, 0)?.unwrap_or_default())
}

/// Returns the objects that the batch needs but does not contain: commits, blobs, toolsets and
/// tools.
pub(crate) fn needs(batch: &Batch) -> [Vec<Raw>; 4] {
    let mut settled: HashSet<ObjectId> = batch.objects().collect();
    let mut needed: [Vec<Raw>; 4] = Default::default();
    // A batch may link to blobs that it erases, or names as erased.
    let erased: HashSet<ObjectId> = batch.erasures().map(ObjectId::Blob).collect();
    let mut need = |object: ObjectId| {
        if settled.insert(object) {
            let [commits, blobs, toolsets, tools] = &mut needed;
            let list = match object {
                ObjectId::Commit(_) => commits,
                ObjectId::Blob(_) => blobs,
                ObjectId::Toolset(_) => toolsets,
                ObjectId::Tool(_) => tools,
            };
            list.push(Raw::id(object.as_bytes()));
        }
    };
    batch.requires.iter().for_each(|object| need(*object));
    batch.links().filter(|object| !erased.contains(object)).for_each(&mut need);
    needed
}

/// Orders commits into runs, in which each commit is the first parent of the next, with parents
/// before children. Returns the lengths of the runs and the commits.
pub(crate) fn runs(batch: &Batch) -> (Vec<i32>, Vec<&Commit>) {
    let ordered = batch.parents_first();
    let follows = |one: &&Commit, next: &&Commit| next.parent() == Some(one.id());
    let lengths = ordered.chunk_by(follows).map(|line| line.len() as i32).collect();
    (lengths, ordered)
}
