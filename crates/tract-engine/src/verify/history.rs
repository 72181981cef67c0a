//! The history: shapes, folds, snapshots.

use std::collections::HashMap;

use tract_compile::{Changed, View, fold, shape};
use tract_core::store::{Damage, StoreResult};
use tract_core::{Change, Commit, CommitId, ObjectId, Op, RepoName, Store, This};

use crate::reach::{Reach, changes_of, damage};

pub(super) struct History<'a> {
    store: &'a dyn Store,
    repo: &'a RepoName,
    reach: &'a Reach,
    /// Views of commits that others continue, until the last of those is folded.
    views: HashMap<CommitId, View>,
    /// How many commits still have to be folded onto each.
    left: HashMap<CommitId, usize>,
}

impl<'a> History<'a> {
    pub(super) fn new(store: &'a dyn Store, repo: &'a RepoName, reach: &'a Reach) -> Self {
        Self { store, repo, reach, views: HashMap::new(), left: reach.continued() }
    }

    /// Folds commits, given behind their parents.
    pub(super) async fn fold(
        &mut self,
        commits: &[Commit],
        found: &mut Vec<Damage>,
    ) -> StoreResult<()> {
        for commit in commits {
            let object = ObjectId::Commit(commit.id());
            // A damaged list of changes was named when it was reached.
            let Ok(changes) = changes_of(self.store, self.repo, commit).await? else { continue };
            if let Some(what) = self.misshapen(commit, &changes).await? {
                found.push(damage(object, what));
            }
            let Some(before) = self.before(commit) else { continue };
            let view = match fold(&before, commit, &changes) {
                Ok(view) => view,
                Err(error) => {
                    found.push(damage(object, error.to_string()));
                    continue;
                }
            };
            if self.left.contains_key(&commit.id()) {
                self.views.insert(commit.id(), view);
            }
        }
        Ok(())
    }

    /// Returns the view that a commit is folded onto; `None` when its parent could not be folded.
    fn before(&mut self, commit: &Commit) -> Option<View> {
        let Some(parent) = commit.parent() else { return Some(View::empty()) };
        let left = self.left.get_mut(&parent)?;
        *left -= 1;
        match *left {
            0 => self.views.remove(&parent),
            _ => self.views.get(&parent).cloned(),
        }
    }

    async fn misshapen(&self, commit: &Commit, changes: &[Change]) -> StoreResult<Option<String>> {
        if let Some(what) = unfit(commit, changes) {
            return Ok(Some(what.to_owned()));
        }
        let Op::Revert { targets, .. } = &commit.op else {
            let of = Changed { commit, changes };
            return Ok(shape(of, &[]).err().map(|bad| bad.what.to_owned()));
        };
        let mut reverted = Vec::with_capacity(targets.len());
        for target in targets {
            // Targets are names, not links; on this line they are ancestors all the same.
            if !self.reach.holds(*target) {
                return Ok(Some(format!("it reverts commit {target}, which is no ancestor")));
            }
            let target = self.store.commits(self.repo, &[*target]).await?;
            let Some(target) = target.into_iter().flatten().next() else { return Ok(None) };
            let Ok(changes) = changes_of(self.store, self.repo, &target).await? else {
                return Ok(None);
            };
            reverted.push((target, changes));
        }
        let targets: Vec<Changed<'_>> =
            reverted.iter().map(|(commit, changes)| Changed { commit, changes }).collect();
        let of = Changed { commit, changes };
        Ok(shape(of, &targets).err().map(|bad| bad.what.to_owned()))
    }
}

/// What a commit must bear for its row to be compiled.
fn unfit(commit: &Commit, changes: &[Change]) -> Option<&'static str> {
    let shows = |change: &Change| match change {
        Change::Add { row, .. } => row.version == This::This,
        Change::Version { to, .. } => *to == This::This,
        Change::Remove { .. } | Change::Mark { .. } => false,
    };
    let says = matches!(commit.op, Op::Append { .. }) || changes.iter().any(shows);
    match (commit.content, &commit.kind) {
        (Some(_), Some(_)) => None,
        (Some(_), None) => Some("it has content without a kind"),
        (None, _) if says => Some("a row shows it, but it has no content"),
        (None, _) => None,
    }
}
