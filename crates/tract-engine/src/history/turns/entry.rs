//! Entries about tool turns, derived from the commits of a history.

use std::collections::{BTreeSet, HashMap, HashSet};

use tract_compile::count_content;
use tract_core::store::BlobKey;
use tract_core::{
    Blob, BlobId, CallRef, Change, Changes, Commit, CommitId, Content, Kind, ObjectId, Op,
};

use super::{FoundCall, FoundResult};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};

/// The effect of a commit on tool turns. The entries of a history, oldest first, yield its turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TurnEntry {
    /// A message with calls is in the view.
    Calls(FoundCall),
    /// A result is in the view, with the tool name that it contains. The call that it answers was
    /// bound when it was written.
    Answer(FoundResult),
    /// A message with calls has another version.
    NewCalls(FoundCall),
    /// A result has another version. It is not a new result, and names no call.
    NewAnswer(FoundResult),
    /// A message with calls, or a result, is no longer a row.
    Gone(CommitId),
}

/// Commits and blobs that are already loaded.
#[derive(Default)]
pub(crate) struct LoadedObjects {
    pub(crate) commits: HashMap<CommitId, Commit>,
    pub(crate) blobs: HashMap<BlobId, Blob>,
    /// Blobs that are erased.
    pub(crate) erased: HashSet<BlobId>,
}

/// A version that has to be read.
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

/// Returns whether a commit evidently has no entries about tool turns.
pub(crate) fn has_no_entries(commit: &Commit, has_text_only: impl FnOnce() -> bool) -> bool {
    matches!(commit.op, Op::Append { .. })
        && match commit.kind {
            Some(Kind::ToolResult | Kind::Custom(_)) => false,
            Some(Kind::Assistant) => has_text_only(),
            _ => true,
        }
}

/// Returns whether a content is a single text. That is stored as one JSON string, so it has no
/// calls.
pub(crate) fn is_one_text(content: &str) -> bool {
    content.starts_with('"')
}

/// Number of contents read together. Bounds the number of large ones in memory.
const BLOBS: usize = 2048;

/// Reads the entries about tool turns of each commit.
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

/// Collects the versions that a commit adds, changes or removes.
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

/// Returns the entry for a version; `None` if it does not affect tool turns.
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
    // The name and calls of an erased version are unknown. A later version may have some.
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
