//! Writes of adapters: items of a framework, moves of branches and documents, in one batch.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tract::core::{Applied, Blob, BlobId, RefName, RefTarget};
use tract::engine::{Details, Request, Selection, Txn, WriteOptions};
use tract::import::{FrameworkItem, ItemFormat, read_item};
use tract::store::BlobKey;
use tract::{Commit, CommitId, Draft, Error, Priority, Result, Tract};

use crate::verbs::Expected;

/// A write of an adapter. All of it is stored, or nothing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// The verb for the ref log.
    verb: String,
    #[serde(default)]
    branches: Vec<Branch>,
    #[serde(default)]
    skips: Vec<Skip>,
    #[serde(default)]
    items: Vec<Item>,
    #[serde(default)]
    documents: Vec<Document>,
}

/// A branch that is checked, moved, or both, before items are added.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Branch {
    name: String,
    /// The required head.
    expect: Option<Expected>,
    /// The new head; null deletes the branch.
    to: Option<Expected>,
}

/// Messages that are left out of the context from here on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Skip {
    branch: String,
    messages: Vec<CommitId>,
    reason: String,
}

/// An item to add to a branch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    branch: String,
    format: String,
    /// The item: JSON text.
    text: String,
    /// The facts about the item: a JSON object, stored in the metadata under the format's name.
    facts: Option<String>,
    /// The instructions of the item before.
    instructions: Option<String>,
}

/// A document to write, or to delete if `text` is null.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    name: String,
    /// The id of the stored document; null requires that the name is free.
    expect: Option<ExpectedDocument>,
    text: Option<String>,
    /// A branch whose new head becomes the member `head` of the document.
    head_of: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedDocument {
    id: Option<BlobId>,
}

/// Carries out a write, and retries a lost race unless the moved ref has an expected target.
pub(crate) async fn record(tract: &Tract, write: &Record) -> Result<Value> {
    let mut races = tract.repo().races();
    loop {
        let mut txn = Txn::new(tract.repo())?;
        let answer = stage(&mut txn, write).await?;
        match txn.apply(&write.verb, &WriteOptions::default()).await? {
            Applied::Done | Applied::Already => return Ok(answer),
            Applied::Conflict(conflict) if write.expects(&conflict.name) => {
                return Err(tract::engine::Error::from(conflict).into());
            }
            Applied::Conflict(_) | Applied::Moved(_) => races.lose().await?,
        }
    }
}

impl Record {
    fn expects(&self, name: &RefName) -> bool {
        let branch = |branch: &Branch| {
            branch.expect.is_some() && name.branch_name() == Some(branch.name.as_str())
        };
        let document =
            |document: &Document| document.expect.is_some() && name.as_str() == document.name;
        self.branches.iter().any(branch) || self.documents.iter().any(document)
    }
}

async fn stage(txn: &mut Txn<'_>, write: &Record) -> Result<Value> {
    for branch in &write.branches {
        let name = RefName::branch(&branch.name)?;
        if let Some(Expected { head }) = branch.expect {
            txn.expect(&name, head.map(RefTarget::Commit)).await?;
        }
        if let Some(Expected { head }) = branch.to {
            txn.move_ref(&name, head.map(RefTarget::Commit)).await?;
        }
    }
    for skip in &write.skips {
        let request = Request::Annotate {
            targets: skip.messages.clone(),
            priority: Priority::Skip,
            reason: Some(skip.reason.clone()),
            retention: None,
            details: Details::default(),
        };
        txn.add(&RefName::branch(&skip.branch)?, &request).await?;
    }
    let mut items = Vec::with_capacity(write.items.len());
    for item in &write.items {
        items.push(add(txn, item).await?);
    }
    let mut documents = Vec::with_capacity(write.documents.len());
    for document in &write.documents {
        documents.push(put(txn, document).await?);
    }
    Ok(json!({"items": items, "documents": documents}))
}

/// Writes a document, or deletes it. Returns its id.
async fn put(txn: &mut Txn<'_>, document: &Document) -> Result<Option<BlobId>> {
    let name = RefName::new(&document.name)?;
    if let Some(expected) = &document.expect {
        txn.expect(&name, expected.id.map(RefTarget::Blob)).await?;
    }
    let Some(text) = &document.text else {
        txn.move_ref(&name, None).await?;
        return Ok(None);
    };
    let mut text = text.clone();
    if let Some(branch) = &document.head_of {
        let head = txn.head(&RefName::branch(branch)?).await?;
        let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&text)?;
        members.insert("head".to_owned(), to_raw_value(&head)?);
        text = serde_json::to_string(&members)?;
    }
    let blob = Blob::seal(text.into_bytes());
    let id = blob.id();
    txn.blob(blob)?;
    txn.move_ref(&name, Some(RefTarget::Blob(id))).await?;
    Ok(Some(id))
}

/// Adds an item. Returns its commits.
async fn add(txn: &mut Txn<'_>, item: &Item) -> Result<Vec<CommitId>> {
    let format = format(&item.format)?;
    let FrameworkItem { drafts, is_summary } =
        read_item(format, &item.text, item.instructions.as_deref())?;
    let branch = RefName::branch(&item.branch)?;
    let mut commits = Vec::with_capacity(drafts.len());
    for (part, mut draft) in drafts.into_iter().enumerate() {
        if let Some(facts) = &item.facts {
            // Only the first commit of an item has its facts.
            let facts = if part == 0 { facts.clone() } else { json!({"part": part}).to_string() };
            let facts = RawValue::from_string(facts)?;
            draft = draft.metadata(format.as_str(), facts)?;
        }
        let summary =
            if part == 0 && is_summary { summarize(txn, &branch, &draft).await? } else { None };
        let commit = match summary {
            Some(summary) => summary,
            // A framework may have results without calls, which an import accepts.
            None => txn.add(&branch, &Request::Import(draft)).await?,
        };
        commits.push(commit.id());
    }
    Ok(commits)
}

/// Replaces the messages before a summary with it; `None` if there are none to replace.
async fn summarize(txn: &mut Txn<'_>, branch: &RefName, draft: &Draft) -> Result<Option<Commit>> {
    let request = Request::Compress {
        select: Selection::Range { from: None, to: None },
        content: draft.content.clone(),
        role: draft.role.clone(),
        details: Details::from(draft),
    };
    match txn.add(branch, &request).await {
        Ok(commit) => Ok(Some(commit)),
        Err(tract::engine::Error::Refused(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn format(name: &str) -> Result<ItemFormat> {
    ItemFormat::parse(name).ok_or_else(|| Error::Invalid {
        message: format!("unknown format of items {name:?}"),
        note: None,
    })
}

/// A query for the items of a history.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Items {
    head: CommitId,
    format: String,
    /// A commit before which the walk stops.
    until: Option<CommitId>,
    /// Maximum number of items, counted from the head.
    limit: Option<usize>,
    /// Whether the texts are read as well.
    texts: bool,
}

/// An item of a history.
struct HistoryItem {
    commit: CommitId,
    /// Its last commit.
    end: CommitId,
    facts: Box<RawValue>,
    original: Option<BlobId>,
}

/// The facts of a commit that continues an item.
#[derive(Deserialize)]
struct Continuation {
    part: Option<usize>,
}

/// Returns the items that lead to a head, oldest first: first and last commit, facts and text. The
/// text of an erased item is null.
pub(crate) async fn items(tract: &Tract, query: &Items) -> Result<Value> {
    let format = format(&query.format)?.as_str();
    let repo = tract.repo();
    let limit = query.limit.unwrap_or(usize::MAX);
    let mut items: Vec<HistoryItem> = Vec::new();
    let mut end = None;
    let mut history = repo.history(query.head).until(query.until);
    while items.len() < limit
        && let Some(commit) = history.next().await?
    {
        let Some(metadata) = &commit.record().metadata else { continue };
        let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(metadata.as_str())?;
        let Some(facts) = members.remove(format) else { continue };
        let part: Continuation = serde_json::from_str(facts.get())?;
        let last = *end.get_or_insert(commit.id());
        if part.part.is_none() {
            end = None;
            let original = commit.record().keeps.last().copied();
            items.push(HistoryItem { commit: commit.id(), end: last, facts, original });
        }
    }
    items.reverse();
    let originals = items.iter().filter_map(|item| item.original).filter(|_| query.texts);
    let texts = texts(tract, originals.collect()).await?;
    let mut answer = Vec::with_capacity(items.len());
    for HistoryItem { commit, end, facts, original } in items {
        let text = original.and_then(|id| texts.get(&id));
        answer.push(json!({"commit": commit, "end": end, "facts": facts, "text": text}));
    }
    Ok(Value::Array(answer))
}

/// Reads blobs with text. Erased ones are left out.
async fn texts(tract: &Tract, ids: Vec<BlobId>) -> Result<HashMap<BlobId, String>> {
    let repo = tract.repo();
    let keys: Vec<BlobKey> = ids.iter().copied().map(BlobKey::from).collect();
    let blobs = repo.store().blobs(repo.name(), &keys).await?;
    let mut texts = HashMap::with_capacity(ids.len());
    for (id, blob) in ids.into_iter().zip(blobs) {
        if blob.is_none() && repo.erasure_of(id).await?.is_none() {
            // Reports it as missing.
            repo.require_blob(id).await?;
        }
        if let Some(text) = blob.as_ref().and_then(Blob::text) {
            texts.insert(id, text.to_owned());
        }
    }
    Ok(texts)
}

/// Returns the documents whose names begin with a prefix, sorted by name.
pub(crate) async fn documents(tract: &Tract, prefix: &str) -> Result<Value> {
    let repo = tract.repo();
    let refs = repo.store().list_refs(repo.name(), prefix).await?;
    let named = refs.into_iter().filter_map(|(name, target)| match target {
        RefTarget::Blob(id) => Some((name, id)),
        _ => None,
    });
    let named: Vec<(RefName, BlobId)> = named.collect();
    let texts = texts(tract, named.iter().map(|(_, id)| *id).collect()).await?;
    let entry = |(name, id): (RefName, BlobId)| json!({"name": name.as_str(), "id": id, "text": texts.get(&id)});
    Ok(named.into_iter().map(entry).collect())
}

/// Returns a document; null if there is none of this name.
pub(crate) async fn document(tract: &Tract, name: &str) -> Result<Value> {
    let name = RefName::new(name)?;
    match tract.repo().ref_target(&name).await? {
        Some(RefTarget::Blob(id)) => {
            let blob = tract.repo().require_blob(id).await?;
            Ok(json!({"name": name.as_str(), "id": id, "text": blob.text()}))
        }
        _ => Ok(Value::Null),
    }
}
