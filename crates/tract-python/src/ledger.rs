//! Ledgers: histories of entries outside of all branches, for adapters that store more than messages.
//!
//! A ledger is a ref that points to a chain of notes. The metadata of a note is a small JSON object,
//! and its blobs are the entry's data. One write adds an entry and moves the branch that shows the
//! same messages, so that neither is ever ahead of the other.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tract::core::json::{read_string, split_array, split_object};
use tract::core::store::{BlobKey, Walk};
use tract::core::stream::StreamOp;
use tract::core::{Applied, Blob, BlobId, RefName, RefTarget};
use tract::engine::{Details, NewContent, Repo, Request, Txn, WriteOptions};
use tract::{CommitId, Draft, Error, JsonText, Priority, Result, Tract};

use crate::error;
use crate::operation::{Operation, Outcome};

/// The verb of these writes in the ref log.
const VERB: &str = "checkpoint";

/// A write to a ledger.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Write {
    ledger: String,
    /// The expected head, null for a ledger without entries.
    expect: Option<CommitId>,
    /// Whether the entries replace those that the ledger has.
    #[serde(default)]
    replace: bool,
    entries: Vec<Entry>,
    branch: Option<BranchWrite>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    metadata: String,
    /// Number of new blobs of this entry; they are taken from those of the call, in order.
    blobs: usize,
    /// Stored blobs that the entry keeps as well.
    keeps: Vec<BlobId>,
}

/// The move of the branch that shows the messages of an entry.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BranchWrite {
    name: String,
    /// The commit to continue from; null for a new history.
    base: Option<CommitId>,
    /// Number of messages at `base`.
    count: usize,
    /// Messages of `base` to leave out, by position.
    skip: Vec<usize>,
    /// Messages of `base` to replace, by position.
    edit: Vec<(usize, String)>,
    append: Vec<String>,
}

/// The move, deletion or creation of a ref.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Move {
    name: String,
    from: Option<CommitId>,
    to: Option<CommitId>,
}

fn bad_call(error: impl std::fmt::Display) -> Error {
    Error::Invalid { message: error.to_string(), note: None }
}

fn engine(error: tract::engine::Error) -> Error {
    error.into()
}

fn ref_name(name: &str) -> Result<RefName> {
    RefName::new(name).map_err(|error| engine(error.into()))
}

/// Returns an operation whose result is made by `convert`, with the GIL held.
fn operation<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
    convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> Operation {
    Operation::new(async move {
        let value = work.await.map_err(|error| error::of(&error))?;
        Ok(Outcome::Python(Box::new(move |py| convert(py, value))))
    })
}

/// Lists the refs of a prefix with the commits that they point to.
pub(crate) fn list(tract: Tract, prefix: String) -> Operation {
    let work = async move {
        let refs = tract.store().list_refs(tract.repo().name(), &prefix).await?;
        let entries = refs.into_iter().filter_map(|(name, target)| {
            Some((name.as_str().to_owned(), target.commit()?.to_string()))
        });
        Ok(entries.collect::<Vec<_>>())
    };
    operation(work, |py, refs| Ok(refs.into_pyobject(py)?.into_any().unbind()))
}

/// The entries of a ledger, oldest first: metadata, and the ids of the blobs.
struct Entries {
    head: Option<CommitId>,
    /// Whether these do not continue the given entry, but take the place of all that are known.
    complete: bool,
    entries: Vec<(String, Vec<u8>)>,
}

/// The most entries between two that contain an index of all entries before.
const WINDOW: usize = 64;

/// An entry's metadata, as far as it says whether it contains an index.
#[derive(Deserialize)]
struct Indexed {
    x: Option<IgnoredAny>,
}

/// Reads the entries after a commit. If the ledger does not contain it, reads the newest ones up to
/// one with an index, or all.
pub(crate) fn read(tract: Tract, name: String, after: Option<String>, all: bool) -> Operation {
    let work = async move {
        let after = after.map(|id| id.parse::<CommitId>()).transpose().map_err(bad_call)?;
        let head = tract.repo().head_of(&ref_name(&name)?).await.map_err(engine)?;
        let mut entries = Entries { head, complete: true, entries: Vec::new() };
        let Some(head) = head else { return Ok(entries) };
        if after == Some(head) {
            entries.complete = false;
            return Ok(entries);
        }
        let mut next = Some(head);
        let mut parent = None;
        while let Some(head) = next {
            let mut walk = Walk { until: after, ..Walk::from(head) };
            if !all {
                walk.limit = WINDOW;
            }
            let page = tract.store().walk(tract.repo().name(), walk).await?;
            next = page.next;
            for entry in page.entries {
                let commit = entry.commit;
                parent = commit.parent();
                let metadata = commit.metadata.as_ref().map_or("{}", JsonText::as_str);
                let ids = commit.keeps.iter().flat_map(|id| id.as_bytes()).copied().collect();
                entries.entries.push((metadata.to_owned(), ids));
                let indexed = serde_json::from_str::<Indexed>(metadata);
                if !all && indexed.is_ok_and(|indexed| indexed.x.is_some()) {
                    next = None;
                    break;
                }
            }
        }
        entries.entries.reverse();
        entries.complete = after.is_none() || parent != after;
        Ok(entries)
    };
    operation(work, |py, found: Entries| {
        let entries = found
            .entries
            .into_iter()
            .map(|(metadata, ids)| (metadata, PyBytes::new(py, &ids)))
            .collect::<Vec<_>>();
        let head = found.head.map(|id| id.to_string());
        Ok((head, found.complete, entries).into_pyobject(py)?.into_any().unbind())
    })
}

/// Reads blobs.
async fn blobs(repo: &Repo, ids: &[BlobId]) -> Result<Vec<Blob>> {
    let keys: Vec<BlobKey> = ids.iter().copied().map(BlobKey::from).collect();
    let found = repo.store().blobs(repo.name(), &keys).await?;
    let mut blobs = Vec::with_capacity(ids.len());
    for (id, blob) in ids.iter().zip(found) {
        match blob {
            Some(blob) => blobs.push(blob),
            // Reports an erased blob as such.
            None => blobs.push(repo.require_blob(*id).await.map_err(engine)?),
        }
    }
    Ok(blobs)
}

/// Reads blobs by their ids, 32 bytes each.
pub(crate) fn read_blobs(tract: Tract, ids: Vec<[u8; 32]>) -> Operation {
    let ids: Vec<BlobId> = ids.into_iter().map(BlobId::from_bytes).collect();
    let work = async move { blobs(tract.repo(), &ids).await };
    operation(work, |py, blobs| {
        let bytes = blobs.iter().map(|blob| PyBytes::new(py, blob.bytes()));
        Ok(PyList::new(py, bytes.collect::<Vec<_>>())?.into_any().unbind())
    })
}

/// Serialized values whose long texts are stored elsewhere: the length of the type and the type,
/// then literal bytes (a length in four bytes, little-endian) and ids of blobs in turn.
struct Frame<'a> {
    kind: &'a str,
    literals: Vec<&'a [u8]>,
    texts: Vec<BlobId>,
}

impl<'a> Frame<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (length, bytes) = bytes.split_first()?;
        let (kind, mut bytes) = bytes.split_at_checked(usize::from(*length))?;
        let mut frame =
            Self { kind: std::str::from_utf8(kind).ok()?, literals: Vec::new(), texts: Vec::new() };
        loop {
            let (length, after) = bytes.split_first_chunk::<4>()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            let (literal, after) = after.split_at_checked(length)?;
            frame.literals.push(literal);
            if after.is_empty() {
                return Some(frame);
            }
            let (id, after) = after.split_first_chunk::<32>()?;
            frame.texts.push(BlobId::from_bytes(*id));
            bytes = after;
        }
    }
}

/// Returns the text of a message's content: the string itself, the content of a tool's result, or
/// the first text of a list of parts.
fn text_of(content: &str) -> Option<String> {
    let content = content.trim();
    match content.as_bytes().first()? {
        b'"' => read_string(content),
        b'{' => {
            let members = split_object(content).ok()?;
            let member = |key: &str| members.iter().find(|(name, _)| name == key);
            let (_, value) = member("content").or_else(|| member("text"))?;
            text_of(value)
        }
        b'[' => split_array(content).ok()?.into_iter().find_map(text_of),
        _ => None,
    }
}

async fn assemble(repo: &Repo, frames: &[Vec<u8>]) -> Result<Vec<(String, Vec<u8>)>> {
    let damaged = || Error::Invalid {
        message: "a stored value is damaged".to_owned(),
        note: Some("`verify` lists what is damaged".to_owned()),
    };
    let frames: Option<Vec<Frame<'_>>> = frames.iter().map(|bytes| Frame::parse(bytes)).collect();
    let frames = frames.ok_or_else(damaged)?;
    let ids: Vec<BlobId> = frames.iter().flat_map(|frame| frame.texts.iter().copied()).collect();
    let mut texts = HashMap::with_capacity(ids.len());
    for (id, blob) in ids.iter().zip(blobs(repo, &ids).await?) {
        if let std::collections::hash_map::Entry::Vacant(entry) = texts.entry(*id) {
            entry.insert(blob.text().and_then(text_of).ok_or_else(damaged)?);
        }
    }
    let mut values = Vec::with_capacity(frames.len());
    for frame in frames {
        let mut bytes = Vec::with_capacity(frame.literals.iter().map(|it| it.len()).sum());
        let mut holes = frame.texts.iter();
        for literal in frame.literals {
            bytes.extend_from_slice(literal);
            if let Some(id) = holes.next() {
                bytes.extend_from_slice(texts.get(id).ok_or_else(damaged)?.as_bytes());
            }
        }
        values.push((frame.kind.to_owned(), bytes));
    }
    Ok(values)
}

fn values(py: Python<'_>, values: Vec<(String, Vec<u8>)>) -> PyResult<Py<PyAny>> {
    let pairs = values.into_iter().map(|(kind, bytes)| (kind, PyBytes::new(py, &bytes)));
    Ok(PyList::new(py, pairs.collect::<Vec<_>>())?.into_any().unbind())
}

/// Puts frames together, with texts that are stored as blobs.
pub(crate) fn read_frames(tract: Tract, frames: Vec<Vec<u8>>) -> Operation {
    let work = async move { assemble(tract.repo(), &frames).await };
    operation(work, values)
}

/// Writes entries, and moves the branch that shows their messages. Returns the head of the ledger
/// and, if the branch was written, its head.
pub(crate) fn write(tract: Tract, call: &str, blobs: Vec<Vec<u8>>) -> PyResult<Operation> {
    let write: Write = serde_json::from_str(call).map_err(error::invalid)?;
    let work = async move { carry_out(&tract, write, blobs).await };
    Ok(operation(work, |py, heads| {
        let (ledger, branch) = heads;
        let branch = branch.map(|id| id.to_string());
        Ok((ledger.to_string(), branch).into_pyobject(py)?.into_any().unbind())
    }))
}

async fn carry_out(
    tract: &Tract,
    write: Write,
    new_blobs: Vec<Vec<u8>>,
) -> Result<(CommitId, Option<CommitId>)> {
    let repo = tract.repo();
    let ledger = ref_name(&write.ledger)?;
    let options = WriteOptions { what: Some(VERB.to_owned()), ..WriteOptions::default() };
    let mut new_blobs = new_blobs.into_iter();
    let mut requests = Vec::with_capacity(write.entries.len());
    for entry in write.entries {
        let mut keeps: Vec<Blob> = new_blobs.by_ref().take(entry.blobs).map(Blob::seal).collect();
        keeps.extend(blobs(repo, &entry.keeps).await?);
        requests.push((entry.metadata, keeps));
    }
    let mut txn = Txn::new(repo).map_err(engine)?;
    txn.expect(&ledger, write.expect.map(RefTarget::Commit)).await.map_err(engine)?;
    if write.replace {
        txn.move_ref(&ledger, None).await.map_err(engine)?;
    }
    let shown = match &write.branch {
        Some(branch) => Some(show(&mut txn, branch).await?),
        None => None,
    };
    let mut head = None;
    for (metadata, keeps) in requests {
        let metadata = match (shown, metadata.strip_prefix('{')) {
            (Some(shown), Some("}")) => format!(r#"{{"h":"{shown}"}}"#),
            (Some(shown), Some(members)) => format!(r#"{{"h":"{shown}",{members}"#),
            _ => metadata,
        };
        let commit = txn.add(&ledger, &note(&metadata, keeps)?).await.map_err(engine)?;
        head = Some(commit.id());
    }
    let head = head.ok_or_else(|| bad_call("a write without entries"))?;
    match txn.apply(VERB, &options).await.map_err(engine)? {
        Applied::Conflict(conflict) => Err(engine(conflict.into())),
        Applied::Moved(_) => Err(engine(tract::engine::Error::KeptMoving { attempts: 1 })),
        Applied::Done | Applied::Already => Ok((head, shown)),
    }
}

fn note(metadata: &str, keeps: Vec<Blob>) -> Result<Request> {
    let metadata = Some(JsonText::new(metadata).map_err(bad_call)?);
    Ok(Request::Note { content: None, details: Details { metadata, keeps, ..Details::default() } })
}

/// Moves a branch from `base` to its new messages. If the branch is not at `base`, its history stays
/// under a name of its own.
async fn show(txn: &mut Txn<'_>, write: &BranchWrite) -> Result<CommitId> {
    let branch = ref_name(&format!("heads/{}", write.name))?;
    let current = txn.head(&branch).await.map_err(engine)?;
    if current != write.base {
        if let Some(current) = current {
            let digits: String = current.to_string().chars().take(8).collect();
            let other = ref_name(&format!("heads/{}/fork-{digits}", write.name))?;
            txn.move_ref(&other, Some(RefTarget::Commit(current))).await.map_err(engine)?;
        }
        txn.move_ref(&branch, write.base.map(RefTarget::Commit)).await.map_err(engine)?;
    }
    if !(write.skip.is_empty() && write.edit.is_empty()) {
        let history = txn.fold(write.base).await.map_err(engine)?;
        // Only skipped messages of these branches have a mark.
        let shown = history.view().rows().filter(|row| row.mark.is_none());
        let versions: Vec<CommitId> = shown.map(|row| row.version).collect();
        if versions.len() != write.count {
            return Err(bad_call("the branch has other messages than the thread"));
        }
        let at = |position: usize| {
            versions.get(position).copied().ok_or_else(|| bad_call("no message at this position"))
        };
        for (position, line) in &write.edit {
            let draft = draft(line)?;
            let request = Request::Edit {
                target: at(*position)?,
                content: NewContent::Content(draft.content.clone()),
                details: Details { message: None, ..Details::from(&draft) },
            };
            txn.add(&branch, &request).await.map_err(engine)?;
        }
        let targets: Vec<CommitId> =
            write.skip.iter().map(|position| at(*position)).collect::<Result<_>>()?;
        if !targets.is_empty() {
            let request = Request::annotate(targets, Priority::Skip);
            txn.add(&branch, &request).await.map_err(engine)?;
        }
    }
    for line in &write.append {
        let request = Request::Import(draft(line)?);
        txn.add(&branch, &request).await.map_err(engine)?;
    }
    let head = txn.head(&branch).await.map_err(engine)?;
    head.ok_or_else(|| bad_call("a branch without messages"))
}

fn draft(line: &str) -> Result<Draft> {
    StreamOp::parse(line)?.into_draft().ok_or_else(|| bad_call("this operation adds no message"))
}

/// Moves, creates and deletes refs: all of them, or none.
pub(crate) fn move_refs(tract: Tract, moves: &str) -> PyResult<Operation> {
    let moves: Vec<Move> = serde_json::from_str(moves).map_err(error::invalid)?;
    let work = async move {
        let mut txn = Txn::new(tract.repo()).map_err(engine)?;
        for Move { name, from, to } in moves {
            let name = ref_name(&name)?;
            txn.expect(&name, from.map(RefTarget::Commit)).await.map_err(engine)?;
            txn.move_ref(&name, to.map(RefTarget::Commit)).await.map_err(engine)?;
        }
        if !txn.moves_refs() {
            return Ok(());
        }
        match txn
            .apply(VERB, &WriteOptions { what: Some(VERB.to_owned()), ..WriteOptions::default() })
            .await
            .map_err(engine)?
        {
            Applied::Conflict(conflict) => Err(engine(conflict.into())),
            Applied::Moved(_) => Err(engine(tract::engine::Error::KeptMoving { attempts: 1 })),
            Applied::Done | Applied::Already => Ok(()),
        }
    };
    Ok(operation(work, |py, ()| Ok(py.None())))
}
