//! What the commits of a line say of tool turns.

use std::collections::{BTreeSet, HashMap, HashSet};

use tract_compile::count_content;
use tract_core::store::BlobKey;
use tract_core::{
    Blob, BlobId, CallRef, Change, Changes, Commit, CommitId, Content, Kind, ObjectId, Op,
};

use super::{FoundCall, FoundResult};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};

/// One thing that a commit says of tool turns. Entries of a line, oldest first, give its turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TurnEntry {
    /// A message with calls is in the view.
    Calls(FoundCall),
    /// A result is in the view, by the name that it tells itself; the call that it answers was
    /// settled when it was written.
    Answer(FoundResult),
    /// A message with calls says something else.
    NewCalls(FoundCall),
    /// A result says something else: it is no further result, and names no call.
    NewAnswer(FoundResult),
    /// A message with calls, or a result, is not a row any more.
    Gone(CommitId),
}

/// Commits and blobs that are at hand, so that they need not be read.
#[derive(Default)]
pub(crate) struct LoadedObjects {
    pub(crate) commits: HashMap<CommitId, Commit>,
    pub(crate) blobs: HashMap<BlobId, Blob>,
    /// Contents that are erased.
    pub(crate) erased: HashSet<BlobId>,
}

/// A version that has to be looked at.
struct VersionLookup {
    commit: usize,
    slot: CommitId,
    version: CommitId,
    how: VersionChange,
}

#[derive(Clone, Copy)]
enum VersionChange {
    Added(Option<CallRef>),
    Changed,
    Removed,
}

/// Whether a commit is seen to say nothing of tool turns.
pub(crate) fn has_no_entries(commit: &Commit, has_text_only: impl FnOnce() -> bool) -> bool {
    matches!(commit.op, Op::Append { .. })
        && match commit.kind {
            Some(Kind::ToolResult | Kind::Custom(_)) => false,
            Some(Kind::Assistant) => has_text_only(),
            _ => true,
        }
}

/// Content that is one text is one JSON string, so it has no call.
pub(crate) fn is_one_text(content: &str) -> bool {
    content.starts_with('"')
}

/// How many contents are read together, so that few large ones are in memory at once.
const BLOBS: usize = 2048;

/// Reads what each of these commits says of tool turns.
pub(crate) async fn entries(
    repo: &Repo,
    commits: &[Commit],
    hand: &mut LoadedObjects,
) -> Result<Vec<Vec<TurnEntry>>> {
    let mut looks = Vec::new();
    for (place, commit) in commits.iter().enumerate() {
        collect_lookups(repo, place, commit, &mut looks).await?;
        hand.commits.entry(commit.id()).or_insert_with(|| commit.clone());
    }
    let versions = looks.iter().map(|look| look.version);
    let missing: BTreeSet<CommitId> =
        versions.filter(|id| !hand.commits.contains_key(id)).collect();
    if !missing.is_empty() {
        let missing: Vec<CommitId> = missing.into_iter().collect();
        let found = repo.store().commits(repo.name(), &missing).await?;
        hand.commits.extend(found.into_iter().flatten().map(|commit| (commit.id(), commit)));
    }
    let mut contents = BTreeSet::new();
    for look in &looks {
        if let Some(commit) = hand.commits.get(&look.version)
            && matches!(commit.kind, Some(Kind::ToolResult | Kind::Assistant | Kind::Custom(_)))
        {
            contents.extend(commit.content.filter(|id| !hand.blobs.contains_key(id)));
        }
    }
    let contents: Vec<BlobKey> = contents.into_iter().map(BlobKey::from).collect();
    for keys in contents.chunks(BLOBS) {
        for (key, blob) in keys.iter().zip(repo.blobs_or_erased(keys).await?) {
            match blob {
                Some(blob) => drop(hand.blobs.insert(key.id, blob)),
                None => drop(hand.erased.insert(key.id)),
            }
        }
    }
    let mut found: Vec<Vec<TurnEntry>> = commits.iter().map(|_| Vec::new()).collect();
    for look in &looks {
        if let (Some(entry), Some(out)) = (seen(repo, look, hand)?, found.get_mut(look.commit)) {
            out.push(entry);
        }
    }
    Ok(found)
}

/// Takes down which versions a commit brings in, changes or takes out.
async fn collect_lookups(
    repo: &Repo,
    place: usize,
    commit: &Commit,
    looks: &mut Vec<VersionLookup>,
) -> Result<()> {
    let id = commit.id();
    let mut take =
        |slot, version, how| looks.push(VersionLookup { commit: place, slot, version, how });
    if let Op::Append { slot, answers, .. } = &commit.op {
        if matches!(commit.kind, Some(Kind::ToolResult | Kind::Assistant | Kind::Custom(_))) {
            take(slot.unwrap_or(id), id, VersionChange::Added(*answers));
        }
        return Ok(());
    }
    let many;
    let changes = match &commit.changes {
        Changes::List(list) => list.as_slice(),
        Changes::Blob(_) => {
            many = repo.changes(commit).await?;
            many.as_slice()
        }
    };
    for change in changes {
        let slot = change.slot().resolve(id);
        match change {
            Change::Add { row, .. } => {
                take(slot, row.version.resolve(id), VersionChange::Added(row.answers));
            }
            Change::Remove { row, .. } => {
                take(slot, row.version.resolve(id), VersionChange::Removed)
            }
            Change::Version { to, .. } => take(slot, to.resolve(id), VersionChange::Changed),
            Change::Mark { .. } => {}
        }
    }
    Ok(())
}

/// Says what a version is to tool turns; `None` when it is nothing to them.
fn seen(repo: &Repo, look: &VersionLookup, hand: &LoadedObjects) -> Result<Option<TurnEntry>> {
    let VersionLookup { slot, version, how, .. } = *look;
    let Some(commit) = hand.commits.get(&version) else {
        return Err(Error::Missing(ObjectId::Commit(version)));
    };
    let (Some(kind), Some(id)) = (&commit.kind, commit.content) else { return Ok(None) };
    let is_result = *kind == Kind::ToolResult;
    if !is_result && !matches!(kind, Kind::Assistant | Kind::Custom(_)) {
        return Ok(None);
    }
    // Of what is erased, neither name nor calls are known. A later version may have some.
    let content = if hand.erased.contains(&id) {
        None
    } else {
        let blob = hand.blobs.get(&id).ok_or(Error::Missing(ObjectId::Blob(id)))?;
        let text = blob.text().ok_or(tract_core::ContentError::NotText)?;
        if !is_result && is_one_text(text) {
            return Ok(None);
        }
        Some(Content::from_blob(kind, text)?)
    };
    let calls = content.iter().flat_map(Content::calls);
    let names: Vec<String> = calls.map(|call| call.name.clone()).collect();
    if !is_result && content.is_some() && names.is_empty() {
        return Ok(None);
    }
    if matches!(how, VersionChange::Removed) {
        return Ok(Some(TurnEntry::Gone(slot)));
    }
    let tokens = content.as_ref().map_or(0, |content| count_content(content, repo.counter()));
    if !is_result {
        let call = FoundCall { id: slot, version, tool_names: names, tokens };
        return Ok(Some(match how {
            VersionChange::Added(_) => TurnEntry::Calls(call),
            VersionChange::Changed | VersionChange::Removed => TurnEntry::NewCalls(call),
        }));
    }
    let (name, is_error) = match content {
        Some(Content::ToolResult(answer)) => (answer.name, answer.is_error),
        _ => (None, false),
    };
    let result = |call| FoundResult { id: slot, version, name, call, is_error, tokens };
    Ok(Some(match how {
        VersionChange::Added(call) => TurnEntry::Answer(result(call)),
        VersionChange::Changed | VersionChange::Removed => TurnEntry::NewAnswer(result(None)),
    }))
}
