//! What is asked of a commit that was made elsewhere, before it is stored here.

use std::collections::HashSet;

use tract_compile::{Changed, shape};
use tract_core::{Change, Commit, CommitId, Op};

use crate::error::{Error, Result};
use crate::reach::changes_of;
use crate::repo::Repo;

/// Checks that a commit changes what its operation may change; `repo` holds what it reverts.
pub(crate) async fn shaped(repo: &Repo, commit: &Commit, changes: &[Change]) -> Result<()> {
    let mut reverted = Vec::new();
    if let Op::Revert { targets, .. } = &commit.op {
        for id in targets {
            let target = repo.require_commit(*id).await?;
            let changes = changes_of(repo.store().as_ref(), repo.name(), &target).await?;
            let changes = changes
                .map_err(|damage| Error::Damaged { object: damage.object, what: damage.what })?;
            reverted.push((target, changes));
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

/// Whether one commit has another among its ancestors, over all parents.
pub(crate) async fn descends(repo: &Repo, from: CommitId, ancestor: CommitId) -> Result<bool> {
    let (mut open, mut seen) = (vec![from], HashSet::new());
    while let Some(id) = open.pop() {
        if id == ancestor {
            return Ok(true);
        }
        if seen.insert(id) {
            open.extend(repo.require_commit(id).await?.parents.iter());
        }
    }
    Ok(false)
}
