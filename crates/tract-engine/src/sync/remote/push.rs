//! Push: sends branches of this repository to another one.

use tract_core::RefName;

use super::refs::documents_of;
use super::transfer::{Plan, Transferred, transfer};
use super::{PlannedRef, RefRule, TransferStatus, TransferredRef, begin_at, move_refs};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::sync::carry::ObjectCopier;
use crate::sync::copy::OnCopy;
use crate::upkeep::erase::CarriedErasures;

/// Options of [`push`].
#[derive(Clone, Debug, Default)]
pub struct PushOptions {
    /// The branches; if empty, all of them with [`all`](Self::all), else the current one.
    pub branches: Vec<String>,
    /// Whether to push all branches and all tags.
    pub all: bool,
    /// Called with the progress.
    pub progress: Option<OnCopy>,
}

/// The result of [`push`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushReport {
    /// Number of commits that the remote lacked.
    pub commits: usize,
    /// Number of damaged or missing objects of the remote that were replaced.
    pub restored: usize,
    /// The branches and tags, by their names in the remote, with their outcomes.
    pub refs: Vec<TransferredRef>,
    /// Erasures of this repository that were applied to the remote.
    pub erased: CarriedErasures,
}

impl PushReport {
    /// Returns whether a branch or tag points elsewhere in the remote and was not changed.
    pub fn diverged(&self) -> bool {
        self.refs
            .iter()
            .any(|at| matches!(at.status, TransferStatus::Diverged { .. } | TransferStatus::Ahead))
    }

    /// Returns whether a branch or tag could not be pushed.
    pub fn refused(&self) -> bool {
        self.refs.iter().any(|at| matches!(at.status, TransferStatus::Refused { .. }))
    }
}

/// Pushes branches to another repository, and updates their refs under `remotes/`.
///
/// # Behavior
/// - Reads and sends only missing objects, parents first. Refs move last, each by compare-and-swap.
///   Pushing again continues an interrupted push.
/// - A branch is created if absent, moved forward if the new head descends from its own, and
///   otherwise left alone and reported as diverged, or as ahead if it contains all commits of the
///   pushed one. Tags are created, never moved. The document of an import is pushed with its
///   branch, and the signature of a tag with the tag, unless the remote has one.
/// - `HEAD` of the remote is set if it names a branch without commits.
/// - Commits that are found damaged in the remote are replaced. For branches without new commits,
///   damaged and missing objects of the newest 1,024 commits are replaced too.
/// - A branch that cannot be pushed, because its name is too long or its history is damaged, is
///   refused without affecting the others.
/// - Erasures of this repository are applied to the remote once the push is accepted, to the same
///   messages and with the same edits. Bytes that other messages there share stay, and the erasure
///   waits for confirmation there. A message that was erased there does not get its bytes back.
/// - Approvals, policies, decisions, effects and pins are not pushed.
///
/// # Errors
/// [`Error::UnknownBranch`]; [`Error::Damaged`] when an object that a branch leads to is damaged or
/// missing; [`Error::KeptMoving`] when others keep moving refs of the remote; those of both stores.
/// The remote may have objects then that no ref leads to.
pub async fn push(
    from: &Repo,
    to: &Repo,
    remote: &str,
    options: &PushOptions,
) -> Result<PushReport> {
    let mut carrier = ObjectCopier::new(from, to, "push")?;
    carrier.brings_rows = true;
    let plan = async || {
        let planned = planned(from, options).await?;
        let documents = documents_of(from, &planned).await?;
        Ok(Plan { planned, documents, ..Plan::default() })
    };
    let done = transfer(&mut carrier, from, options.progress.as_ref(), plan).await?;
    let Transferred { commits, restored, refs, erased } = done;
    note(from, remote, &refs).await?;
    let refs = refs
        .into_iter()
        .filter(|at| at.name.branch_name().is_some() || at.name.tag_name().is_some())
        .collect();
    Ok(PushReport { commits, restored, refs, erased })
}

/// Plans the refs to create or move in the remote.
async fn planned(from: &Repo, options: &PushOptions) -> Result<Vec<PlannedRef>> {
    let (store, name) = (from.store().as_ref(), from.name());
    let mut branches: Vec<RefName> =
        options.branches.iter().map(|name| RefName::branch(name)).collect::<Result<_, _>>()?;
    let mut planned = Vec::new();
    let refs = if options.all {
        let mut refs = store.list_refs(name, "heads/").await?;
        branches = refs.iter().map(|(name, _)| name.clone()).collect();
        refs.extend(store.list_refs(name, "tags/").await?);
        refs
    } else {
        if branches.is_empty() {
            branches.push(from.current_branch().await?);
        }
        branches.sort_unstable();
        branches.dedup();
        let found = store.refs(name, &branches).await?;
        let mut refs = Vec::new();
        for (branch, target) in branches.iter().zip(found) {
            let Some(target) = target else {
                return Err(from
                    .unknown_branch(branch.branch_name().unwrap_or(branch.as_str()))
                    .await?);
            };
            refs.push((branch.clone(), target));
        }
        refs
    };
    let names: Vec<RefName> = refs.iter().map(|(name, _)| name.clone()).collect();
    for (name, target) in refs {
        let rule = if name.tag_name().is_some() { RefRule::Make } else { RefRule::Forward };
        planned.push(PlannedRef::new(name, target, rule));
    }
    planned.extend(companions(from, &names).await?);
    let current = from.current_branch().await?;
    let begin = branches.iter().find(|branch| **branch == current).or(branches.first());
    planned.extend(begin.map(begin_at));
    Ok(planned)
}

/// Returns the documents that accompany branches and tags.
pub(super) async fn companions(from: &Repo, refs: &[RefName]) -> Result<Vec<PlannedRef>> {
    let names: Vec<RefName> = refs.iter().filter_map(RefName::companion).collect();
    let found = from.store().refs(from.name(), &names).await?;
    let found = names.into_iter().zip(found);
    Ok(found
        .filter_map(|(name, target)| Some(PlannedRef::new(name, target?, RefRule::MakeQuietly)))
        .filter(|planned| planned.to.as_ref().is_some_and(|to| to.blob().is_some()))
        .collect())
}

/// Updates the refs under `remotes/`. The push is already done, so a failure here is not reported:
/// the next fetch updates them.
async fn note(from: &Repo, remote: &str, refs: &[TransferredRef]) -> Result<()> {
    let mut seen = Vec::new();
    for at in refs {
        let (Some(branch), Some(to)) = (at.name.branch_name(), &at.to) else { continue };
        let target = match &at.status {
            TransferStatus::Created | TransferStatus::Forwarded | TransferStatus::Unchanged => to,
            // The commits of the remote may not be stored here; a fetch brings them.
            TransferStatus::Ahead
            | TransferStatus::Refused { .. }
            | TransferStatus::Moved
            | TransferStatus::Diverged { .. }
            | TransferStatus::Deleted => continue,
        };
        let name = RefName::remote_branch(remote, branch)?;
        seen.push(PlannedRef::new(name, target.clone(), RefRule::Follow));
    }
    let carrier = ObjectCopier::new(from, from, "push")?;
    match move_refs(&carrier, from, &seen, &std::collections::HashMap::new()).await {
        // The push is done already. A head that is not noted here is noted by the next fetch.
        Ok(_) | Err(Error::Store(_) | Error::KeptMoving { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
