//! Finds the message that a commit belongs to.

use std::collections::HashSet;

use tract_core::{Change, Commit, CommitId, Op};

use crate::repo::Repo;
use crate::repo::error::Result;

/// Returns the slot of the message that a commit adds or edits, given its changes. A commit that
/// does neither counts as its own message.
pub(crate) fn slot_in(commit: &Commit, changes: &[Change]) -> CommitId {
    let id = commit.id();
    if let Op::Append { slot, .. } = &commit.op {
        return slot.unwrap_or(id);
    }
    let own = changes.iter().find_map(|change| match change {
        Change::Add { slot, row } if row.version.resolve(id) == id => Some(slot.resolve(id)),
        Change::Version { slot, to, .. } if to.resolve(id) == id => Some(slot.resolve(id)),
        Change::Add { .. }
        | Change::Version { .. }
        | Change::Remove { .. }
        | Change::Mark { .. } => None,
    });
    own.unwrap_or(id)
}

/// Returns the slot of a stored commit's message.
pub(super) async fn slot_of(repo: &Repo, commit: &Commit) -> Result<CommitId> {
    if let Op::Append { slot, .. } = &commit.op {
        return Ok(slot.unwrap_or_else(|| commit.id()));
    }
    Ok(slot_in(commit, &repo.changes(commit).await?))
}

/// Returns whether a commit is a summary of one of these messages.
pub(super) async fn summarizes(
    repo: &Repo,
    commit: &Commit,
    messages: &HashSet<CommitId>,
) -> Result<bool> {
    if !matches!(commit.op, Op::Compress { .. }) {
        return Ok(false);
    }
    let (id, changes) = (commit.id(), repo.changes(commit).await?);
    Ok(changes.iter().any(|change| match change {
        Change::Remove { slot, .. } => messages.contains(&slot.resolve(id)),
        Change::Add { .. } | Change::Version { .. } | Change::Mark { .. } => false,
    }))
}
