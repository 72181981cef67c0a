//! Push: branches of this repository into another.

use std::fmt;

use tract_core::RefName;

use super::refs::documents_of;
use super::transfer::{Plan, Transferred, transfer};
use super::{PlannedRef, RefRule, TransferStatus, TransferredRef, begin_at, move_refs};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::sync::carry::ObjectCopier;
use crate::sync::copy::OnCopy;
use crate::upkeep::erase::CarriedErasures;

/// What [`push`] pushes.
#[derive(Clone, Default)]
pub struct PushOptions {
    /// The branches; those of [`all`](Self::all), or the current one, when empty.
    pub branches: Vec<String>,
    /// Every branch, and every tag.
    pub all: bool,
    /// Called with the progress.
    pub progress: Option<OnCopy>,
}

impl fmt::Debug for PushOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushOptions")
            .field("branches", &self.branches)
            .field("all", &self.all)
            .finish_non_exhaustive()
    }
}

impl PushOptions {
    /// Starts from the defaults: the branch that `HEAD` names.
    pub fn new() -> Self {
        Self::default()
    }

    /// Chooses branches.
    #[must_use]
    pub fn branches(mut self, branches: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.branches = branches.into_iter().map(Into::into).collect();
        self
    }

    /// Sets whether every branch and every tag is pushed.
    #[must_use]
    pub fn all(mut self, all: bool) -> Self {
        self.all = all;
        self
    }

    /// Sets what is called with the progress.
    #[must_use]
    pub fn progress(mut self, progress: OnCopy) -> Self {
        self.progress = Some(progress);
        self
    }
}

/// What [`push`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushReport {
    /// Commits that the remote lacked.
    pub commits: usize,
    /// Objects of the remote that were damaged or missing, and were replaced.
    pub restored: usize,
    /// The branches and tags, by their names in the remote.
    pub refs: Vec<TransferredRef>,
    /// What was erased here and now is in the remote.
    pub erased: CarriedErasures,
}

impl PushReport {
    /// Returns whether a branch or tag points elsewhere in the remote and was left alone.
    pub fn diverged(&self) -> bool {
        self.refs
            .iter()
            .any(|at| matches!(at.status, TransferStatus::Diverged { .. } | TransferStatus::Ahead))
    }

    /// Returns whether a branch or tag could not be brought.
    pub fn refused(&self) -> bool {
        self.refs.iter().any(|at| matches!(at.status, TransferStatus::Refused { .. }))
    }
}

/// Brings branches into another repository, and notes under `remotes/` where they are there.
///
/// # Behavior
/// - Only what the other repository lacks is read and sent, parents first. Refs move last, each by
///   compare-and-swap; a push that was cut short continues where it was.
/// - A branch is made when it is absent, forwarded when the new head descends from its own, else
///   left alone and said to be diverged, or ahead when it has all of this one. Tags are made, never
///   moved. The document of an import goes with its branch, and the signature of a tag with the tag,
///   where there is none.
/// - `HEAD` follows when it names a branch without commits.
/// - Commits that are found damaged there are replaced. Of branches without new commits, so is what
///   of the newest 1,024 is damaged or missing.
/// - A branch that cannot be brought, since its name is too long or its history is damaged, is
///   refused and stops no other.
/// - What was erased here is erased there too, once the push is accepted: in the same messages, with
///   the same edits. Bytes that other messages there have stay, and the erasure waits for
///   confirmation there. A message that was erased there does not get its bytes back.
/// - Approvals, policies, decisions, effects and pins stay here.
///
/// # Errors
/// [`Error::UnknownBranch`]; [`Error::Damaged`] when something that a branch leads to is damaged or
/// missing; [`Error::KeptMoving`] when others keep moving refs of the remote; those of both stores.
/// The remote may have objects then to which no ref leads.
pub async fn push(
    from: &Repo,
    to: &Repo,
    remote: &str,
    options: &PushOptions,
) -> Result<PushReport> {
    let mut carrier = ObjectCopier::new(from, to, "push")?;
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

/// The refs that are to be made or moved in the remote.
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

/// The documents that go where branches and tags go.
pub(super) async fn companions(from: &Repo, refs: &[RefName]) -> Result<Vec<PlannedRef>> {
    let names: Vec<RefName> = refs.iter().filter_map(RefName::companion).collect();
    let found = from.store().refs(from.name(), &names).await?;
    let found = names.into_iter().zip(found);
    Ok(found
        .filter_map(|(name, target)| Some(PlannedRef::new(name, target?, RefRule::MakeQuietly)))
        .filter(|planned| planned.to.as_ref().is_some_and(|to| to.blob().is_some()))
        .collect())
}

/// Notes where the branches of a remote are now. The push is done, so a note that cannot be written
/// is not its failure: the next fetch writes it.
async fn note(from: &Repo, remote: &str, refs: &[TransferredRef]) -> Result<()> {
    let mut seen = Vec::new();
    for at in refs {
        let (Some(branch), Some(to)) = (at.name.branch_name(), &at.to) else { continue };
        let target = match &at.status {
            TransferStatus::Created | TransferStatus::Forwarded | TransferStatus::Unchanged => to,
            // What they have may not be stored here; a fetch brings it.
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
        Ok(_) | Err(Error::Store(_) | Error::KeptMoving { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
