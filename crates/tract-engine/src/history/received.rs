//! What is asked of a commit that was made elsewhere, before it is stored here.

use std::collections::{HashSet, VecDeque};

use tract_compile::{Changed, shape};
use tract_core::store::Walk;
use tract_core::{Change, Commit, CommitId, Op};

use crate::history::reach::changes_of;
use crate::repo::Repo;
use crate::repo::error::Result;

/// Checks that a commit changes what its operation may change; `repo` holds what it reverts.
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

/// When a commit counts as made: as its parent where it does not say, 0 at a root.
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

/// Commits asked for in one page of a walk: few at first, since what is looked for is near as a rule.
const PAGES: [usize; 2] = [32, 4096];

/// Whether one commit has another among its ancestors, over all parents.
///
/// Lines are read page by page in turn, so that an ancestor near one of the heads of a merge is
/// found before a long line is read to its root.
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
        let walk = Walk { limit, ..Walk::from(head) };
        let page = repo.store().walk(repo.name(), walk).await?;
        let mut next = page.next;
        for step in page.steps {
            if !seen.insert(step.commit.id()) {
                next = None;
                break;
            }
            let mut parents = step.commit.parents.iter();
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
