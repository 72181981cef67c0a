//! Imports the data of the Python original: all conversations of a file with their branches, as
//! histories that compile to the same messages.

mod content;
mod database;
mod priorities;
mod tags;
mod text;
mod walk;

use std::collections::{BTreeSet, HashSet};

use serde::Serialize;
use serde_json::json;
use tract_core::json::{Escapes, canonical};
use tract_core::{Applied, Blob, CommitId, RefName, RefTarget};
use tract_engine::{ImportStatus, Repo, Result, WriteOptions};

pub use self::database::{
    Annotation, Commit, Database, Event, EventCommit, NEWEST_VERSION, OLDEST_VERSION, Operation,
    PythonError, RefRow, Spawn, Tag, Tool, read,
};
use self::walk::{Walk, WalkState};
use crate::error::damaged;
use crate::writer::write_document;

/// The result for one branch of the original.
#[derive(Debug)]
pub struct Branch {
    /// The conversation and the branch, such as `trip/main`.
    pub id: String,
    /// The imported branch, or the reason why it was left out.
    pub done: Result<ImportedBranch, String>,
}

/// An imported branch.
#[derive(Debug)]
pub struct ImportedBranch {
    /// The name of the branch here.
    pub branch: String,
    /// The outcome of the import.
    pub status: ImportStatus,
    /// Commits that lead to its head.
    pub commits: usize,
    /// Number of these commits that were already stored, or came with an earlier branch.
    pub reused: usize,
    /// Anomalies of the branch, which were imported as recorded.
    pub anomalies: Vec<String>,
}

/// Imports a file. All its branches become visible at once, in the last durable write.
///
/// A branch with a damaged commit is left out and reported; all others are imported. A branch that
/// has moved elsewhere here is left alone.
///
/// # Errors
/// [`Error::Engine`](crate::Error::Engine) when the store fails, and
/// [`Error::KeptMoving`](crate::Error::KeptMoving) when other writers win every race.
pub async fn import(repo: &Repo, data: &Database) -> crate::Result<Vec<Branch>> {
    const ATTEMPTS: usize = 16;
    for _ in 0..ATTEMPTS {
        if let Some(branches) = attempt(repo, data).await? {
            return Ok(branches);
        }
    }
    Err(crate::Error::KeptMoving)
}

async fn attempt(repo: &Repo, data: &Database) -> Result<Option<Vec<Branch>>> {
    let mut walk = Walk::new(repo, data)?;
    // First the commits: refs move when all of them are stored.
    let mut ends: Vec<(&RefRow, &str, Result<WalkState<'_>, String>)> = Vec::new();
    for (row, name) in branch_rows(data) {
        let Some(hash) = &row.commit else { continue };
        let state = match walk.commit(hash).await? {
            Ok(state) => {
                let mut state = walk.finish(state).await?;
                walk.note_left_out(hash, &mut state);
                Ok(state)
            }
            Err(why) => Err(why),
        };
        ends.push((row, name, state));
    }
    let tags = name_unreferenced(&mut walk, data).await?;
    walk.flush().await?;
    let mut branches = Vec::new();
    let mut seen: HashSet<CommitId> = HashSet::new();
    for (row, name, state) in ends {
        let id = format!("{}/{name}", row.tract_id);
        let done = match state {
            Ok(state) => {
                let branch = ref_name("heads", &[&row.tract_id, name])?;
                Ok(place(repo, &mut walk, &branch, &state, &mut seen).await?)
            }
            Err(why) => Err(why),
        };
        if let (Ok(ImportedBranch { status, .. }), Some(hash)) = (&done, &row.commit)
            && *status != ImportStatus::Diverged
        {
            let document = ref_name("imports", &[&row.tract_id, name])?;
            let version = data.schema_version;
            let meta = json!({ "format": "python-tract", "schema_version": version, "head": hash });
            write_sidecar(&mut walk, &document, &json!({ "id": id, "meta": meta })).await?;
        }
        branches.push(Branch { id, done });
    }
    for (name, id) in tags {
        // Tags never move.
        if walk.txn().target(&name).await?.is_none() {
            walk.txn().move_ref(&name, Some(RefTarget::Commit(id))).await?;
        }
    }
    for tract in data.refs.iter().map(|row| row.tract_id.as_str()).collect::<BTreeSet<_>>() {
        let document = ref_name("imports", &[tract])?;
        write_sidecar(&mut walk, &document, &tract_document(data, tract)).await?;
    }
    let txn = walk.into_txn().await?;
    if !txn.moves_refs() {
        return Ok(Some(branches));
    }
    match txn.apply("import", &WriteOptions::default()).await? {
        Applied::Done | Applied::Already => Ok(Some(branches)),
        Applied::Conflict(_) | Applied::Moved(_) => Ok(None),
    }
}

/// Returns the branches of a file with their plain names, in order.
fn branch_rows(data: &Database) -> impl Iterator<Item = (&RefRow, &str)> {
    data.refs.iter().filter_map(|row| Some((row, row.name.strip_prefix("refs/heads/")?)))
}

/// Moves a branch to the head of the original's, if that is a fast-forward.
async fn place(
    repo: &Repo,
    walk: &mut Walk<'_>,
    branch: &RefName,
    state: &WalkState<'_>,
    seen: &mut HashSet<CommitId>,
) -> Result<ImportedBranch> {
    let line = ancestors(repo, state.head).await?;
    let reused = line.iter().filter(|id| !seen.insert(**id) || walk.is_old(**id)).count();
    let txn = walk.txn();
    let found = txn.head(branch).await?;
    let status = match (found, state.head) {
        (None, Some(_)) => ImportStatus::Created,
        (found, head) if found == head => ImportStatus::Unchanged,
        (Some(found), _) if line.contains(&found) => ImportStatus::Forwarded,
        _ => ImportStatus::Diverged,
    };
    if matches!(status, ImportStatus::Created | ImportStatus::Forwarded) {
        txn.move_ref(branch, state.head.map(RefTarget::Commit)).await?;
    }
    Ok(ImportedBranch {
        branch: branch.branch_name().unwrap_or(branch.as_str()).to_owned(),
        status,
        commits: line.len(),
        reused,
        anomalies: state.anomalies(),
    })
}

/// Returns all commits that lead to a head, over all parents.
async fn ancestors(repo: &Repo, head: Option<CommitId>) -> Result<Vec<CommitId>> {
    let mut found: HashSet<CommitId> = HashSet::new();
    let mut open: Vec<CommitId> = head.into_iter().collect();
    while !open.is_empty() {
        open.retain(|id| found.insert(*id));
        let stored = repo.store().commits(repo.name(), &open).await?;
        open = stored.iter().flatten().flat_map(|commit| commit.parents.clone()).collect();
    }
    Ok(found.into_iter().collect())
}

/// Creates refs for commits that no branch contains, and for tags, so that nothing is lost.
async fn name_unreferenced<'a>(
    walk: &mut Walk<'a>,
    data: &'a Database,
) -> Result<Vec<(RefName, CommitId)>> {
    let mut tags: Vec<(RefName, &str)> = Vec::new();
    for hash in unreferenced(data) {
        let Some(commit) = data.commits.get(hash) else { continue };
        let name = format!("unreferenced-{}", walk::short(hash));
        tags.push((ref_name("tags", &[&commit.tract_id, &name])?, hash));
    }
    for row in &data.refs {
        if let (Some(hash), "HEAD") = (&row.commit, row.name.as_str()) {
            tags.push((ref_name("tags", &[&row.tract_id, "HEAD"])?, hash));
        }
    }
    let automatic: HashSet<&str> = data.automatic_tags.iter().map(String::as_str).collect();
    let given = data.commits.values().flat_map(|commit| {
        commit.tags.iter().map(|tag| (commit.tract_id.as_str(), tag.as_str(), commit.hash.as_str()))
    });
    let later = data.tags.iter().map(|tag| (&*tag.tract_id, &*tag.tag, &*tag.target));
    let all: BTreeSet<(&str, &str, &str)> = given.chain(later).collect();
    for (tract, tag, hash) in all.into_iter().filter(|(_, tag, _)| !automatic.contains(tag)) {
        tags.push((ref_name("tags", &[tract, tag, walk::short(hash)])?, hash));
    }
    let mut named = Vec::with_capacity(tags.len());
    for (name, hash) in tags {
        // Commits that cannot be imported are reported with their branch; their tags are skipped.
        if walk.commit(hash).await?.is_ok()
            && let Some(id) = walk.imported_commit(hash)
        {
            named.push((name, id));
        }
    }
    Ok(named)
}

/// Returns the ends of the histories that no branch of the original contains, in order.
fn unreferenced(data: &Database) -> Vec<&str> {
    let mut reached: HashSet<&str> = HashSet::new();
    let mut open: Vec<&str> =
        branch_rows(data).filter_map(|(row, _)| row.commit.as_deref()).collect();
    while let Some(hash) = open.pop() {
        if reached.insert(hash)
            && let Some(commit) = data.commits.get(hash)
        {
            open.extend(walk::parents(commit));
        }
    }
    let rest = || data.commits.values().filter(|commit| !reached.contains(&*commit.hash));
    let inner: HashSet<&str> = rest().flat_map(walk::parents).collect();
    let ends = rest().map(|commit| &*commit.hash).filter(|hash| !inner.contains(hash));
    let mut ends: Vec<&str> = ends.collect();
    ends.sort_unstable();
    ends
}

async fn write_sidecar(
    walk: &mut Walk<'_>,
    name: &RefName,
    document: &impl Serialize,
) -> Result<()> {
    let text = serde_json::to_string(document).map_err(damaged)?;
    let text = canonical(&text, Escapes::Raw)?;
    write_document(walk.txn(), name, Blob::seal(text.into_bytes())).await
}

#[derive(Serialize)]
struct TractDocument<'a> {
    id: &'a str,
    meta: TractMeta<'a>,
}

#[derive(Serialize)]
struct TractMeta<'a> {
    format: &'a str,
    schema_version: u32,
    refs: Vec<(&'a str, Option<&'a str>, Option<&'a str>)>,
    events: Vec<EventMeta<'a>>,
    spawned: Vec<serde_json::Value>,
}

#[derive(Serialize)]
struct EventMeta<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    event_type: &'a str,
    branch: Option<&'a str>,
    params: Option<tract_core::JsonText>,
    at: i64,
    sources: &'a [String],
    results: &'a [String],
}

/// The original's facts about a conversation other than its commits: how it was rewritten, and the
/// conversations spawned from it. Its commits have the old hashes as the ids of their origins.
fn tract_document<'a>(data: &'a Database, tract: &'a str) -> TractDocument<'a> {
    let refs = data.refs.iter().filter(|row| row.tract_id == tract);
    let meta = TractMeta {
        format: "python-tract",
        schema_version: data.schema_version,
        refs: refs
            .map(|row| (row.name.as_str(), row.commit.as_deref(), row.symbolic.as_deref()))
            .collect(),
        events: data
            .events
            .iter()
            .filter(|row| row.tract_id == tract)
            .map(|row| EventMeta {
                id: &row.id,
                event_type: &row.event_type,
                branch: row.branch.as_deref(),
                params: row.params.as_deref().and_then(|text| tract_core::JsonText::new(text).ok()),
                at: row.created_at,
                sources: &row.sources,
                results: &row.results,
            })
            .collect(),
        spawned: data
            .spawns
            .iter()
            .filter(|row| row.parent_tract_id == tract)
            .map(|row| {
                let (child, commit) = (&row.child_tract_id, &row.parent_commit);
                json!({ "child": child, "commit": commit, "purpose": row.purpose,
                    "inheritance": row.inheritance_mode })
            })
            .collect(),
    };
    TractDocument { id: tract, meta }
}

/// Joins parts into a ref name: unchanged if they are valid, else encoded so that different parts
/// give different names.
fn ref_name(space: &str, parts: &[&str]) -> Result<RefName> {
    let plain = format!("{space}/{}", parts.join("/"));
    // A slash in any part but the last would make the name ambiguous.
    let is_clear =
        parts.split_last().is_none_or(|(_, before)| before.iter().all(|part| !part.contains('/')));
    if let (true, Ok(name)) = (is_clear, RefName::new(plain)) {
        return Ok(name);
    }
    let parts: Vec<String> = parts.iter().map(|part| RefName::distinct(part)).collect();
    Ok(RefName::new(format!("{space}/{}", parts.join("/")))?)
}
