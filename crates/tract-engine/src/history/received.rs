//! Checks of commits that were made elsewhere, before they are stored here.

use std::collections::{HashSet, VecDeque};

use tract_compile::{Changed, shape};
use tract_core::{Change, Commit, CommitId, Op};

use crate::history::reach::changes_of;
use crate::repo::Repo;
use crate::repo::error::Result;

/// Checks that a commit changes only what its operation may change. `repo` contains the commits it
/// reverts.
pub(crate) async fn shaped(repo: &Repo, commit: &Commit, changes: &[Change]) -> Result<()> {
    let mut reverted = Vec::new();
    if let Op::Revert { targets, .. } = &commit.op {
        for id in targets {
            let target = repo.require_commit(*id).await?;
            let changes = changes_of(repo.store().as_ref(), repo.name(), &target).await?;
            reverted.push((target, changes?));
        }
    }
    let targets: Vec<Changed<'_>> =
        reverted.iter().map(|(commit, changes)| Changed { commit, changes }).collect();
    Ok(shape(Changed { commit, changes }, &targets)?)
}

/// Returns the time of a commit: its own, else that of its nearest ancestor with a time, else 0.
pub(crate) async fn time_of(repo: &Repo, commit: &Commit) -> Result<i64> {
    let mut at = (commit.created_at, commit.parent());
    loop {
        match at {
            (Some(time), _) => return Ok(time),
            (None, None) => return Ok(0),
            (None, Some(parent)) => {
                let parent = repo.require_commit(parent).await?;
                at = (parent.created_at, parent.parent());
            }
        }
    }
}

/// Page sizes of a walk: first and maximum. Small at first, since the ancestor is usually near.
const PAGES: [usize; 2] = [32, 4096];

/// Returns whether one commit has another among its ancestors, over all parents.
///
/// Branches are read in turn, a page at a time, so that an ancestor near one side of a merge is
/// found before a long history on another side is read to its root.
pub(crate) async fn descends(repo: &Repo, from: CommitId, ancestor: CommitId) -> Result<bool> {
    if from == ancestor {
        return Ok(true);
    }
    let [first, most] = PAGES;
    let (mut open, mut seen) = (VecDeque::from([(from, first)]), HashSet::new());
    while let Some((head, limit)) = open.pop_front() {
        if seen.contains(&head) {
            continue;
        }
        let mut history = repo.history(head).pages(limit, limit);
        let page = history.next_page().await?.unwrap_or_default();
        let mut next = history.peek();
        for commit in page {
            if !seen.insert(commit.id()) {
                next = None;
                break;
            }
            let mut parents = commit.parents.iter();
            if parents.clone().any(|parent| *parent == ancestor) {
                return Ok(true);
            }
            parents.next();
            open.extend(parents.filter(|id| !seen.contains(*id)).map(|id| (*id, first)));
        }
        open.extend(next.map(|next| (next, (limit * 2).min(most))));
    }
    Ok(false)
}
