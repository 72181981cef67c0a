//! Fetch and pull: brings branches of another repository, or of a bundle, into this one.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Seek};

use tract_core::{RefName, RefTarget, nearest};

use super::push::companions;
use super::refs::documents_of;
use super::transfer::{Plan, Transferred, transfer};
use super::{PlannedRef, RefRule, TransferStatus, TransferredRef, begin_at, index_moved};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::sync::bundle::{self, Bundle, TakenBundle};
use crate::sync::carry::ObjectCopier;
use crate::sync::copy::OnCopy;
use crate::upkeep::erase::CarriedErasures;

/// The local branches that a fetch also moves forward.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PullBranches {
    /// None: a fetch moves only refs under `remotes/`, and creates tags.
    #[default]
    None,
    /// The branches with these names.
    Named(Vec<String>),
    /// All branches of the remote.
    All,
}

/// Options of [`fetch`].
#[derive(Clone, Debug, Default)]
pub struct FetchOptions {
    /// The local branches to move forward.
    pub pull: PullBranches,
    /// Whether refs under `remotes/` are deleted when their branches no longer exist in the remote.
    pub prune: bool,
    /// Called with the progress.
    pub progress: Option<OnCopy>,
}

/// The result of [`fetch`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchReport {
    /// Number of commits that were not here.
    pub commits: usize,
    /// Number of damaged or missing objects that were replaced.
    pub restored: usize,
    /// The remote-tracking refs and the tags, with their outcomes.
    pub refs: Vec<TransferredRef>,
    /// The local branches to move forward, with their outcomes.
    pub branches: Vec<TransferredRef>,
    /// Erasures of the remote that were applied here.
    pub erased: CarriedErasures,
}

impl FetchReport {
    /// Returns whether a local branch could not be moved forward because it has other commits.
    pub fn diverged(&self) -> bool {
        self.branches.iter().any(|at| matches!(at.status, TransferStatus::Diverged { .. }))
    }

    /// Returns whether a branch or tag of the remote could not be fetched.
    pub fn refused(&self) -> bool {
        let mut all = self.refs.iter().chain(&self.branches);
        all.any(|at| matches!(at.status, TransferStatus::Refused { .. }))
    }
}

/// Fetches the branches and tags of another repository. With [`FetchOptions::pull`], also moves
/// local branches forward.
///
/// # Behavior
/// - Reads only missing objects, parents first. Refs move last, each by compare-and-swap. Fetching
///   again continues an interrupted fetch.
/// - `remotes/REMOTE/BRANCH` follows the branch of the remote, even to an unrelated commit. Tags
///   are created, never moved.
/// - A local branch is created or moved forward, or stays if it is ahead or has diverged; `merge
///   remotes/REMOTE/BRANCH` merges a diverged one.
/// - Commits that are found damaged here are replaced. For branches without new commits, damaged
///   and missing objects of the newest 1,024 commits are replaced too.
/// - A branch that cannot be fetched, because its name is too long or its history is damaged, is
///   refused without affecting the others.
/// - All ref moves of a call are one operation, which is reverted by one undo of such a branch.
/// - Erasures of the remote are applied here once the refs have moved, to the same messages and
///   with the same edits. Bytes that other local messages share stay, and the erasure waits for
///   confirmation. A message that was erased here does not get its bytes back.
/// - Approvals, policies, decisions, effects and pins of the remote are not fetched.
///
/// # Errors
/// [`Error::UnknownBranch`] when the remote lacks a branch to pull; [`Error::Damaged`] when an
/// object that a branch leads to is damaged or missing there; [`Error::KeptMoving`] when others
/// keep moving refs here; those of both stores. Objects may have been stored then that no ref leads
/// to.
pub async fn fetch(
    to: &Repo,
    from: &Repo,
    remote: &str,
    options: &FetchOptions,
) -> Result<FetchReport> {
    let mut carrier = ObjectCopier::new(from, to, verb(options))?;
    let plan = async || {
        let mut theirs = from.store().list_refs(from.name(), "heads/").await?;
        theirs.extend(from.store().list_refs(from.name(), "tags/").await?);
        let mut plan = planned(to, remote, &theirs, options).await?;
        let made: Vec<RefName> = made(&plan.planned).cloned().collect();
        plan.planned.extend(companions(from, &made).await?);
        plan.documents = documents_of(from, &plan.planned).await?;
        Ok(plan)
    };
    Ok(report(transfer(&mut carrier, to, options.progress.as_ref(), plan).await?))
}

/// Like [`fetch`], from a bundle. The bundle is read twice: nothing is written before all of it was
/// checked.
///
/// # Errors
/// Those of [`fetch`], and [`Error::Bundle`] when the bundle is incomplete, or prerequisites are
/// missing.
pub async fn fetch_bundle(
    to: &Repo,
    from: impl Read + Seek,
    remote: &str,
    options: &FetchOptions,
) -> Result<FetchReport> {
    let mut bundle = Bundle::open(from)?;
    bundle.require_prerequisites(to).await?;
    let theirs: Vec<(RefName, RefTarget)> = bundle
        .refs()
        .iter()
        .filter(|(name, _)| name.branch_name().is_some() || name.tag_name().is_some())
        .cloned()
        .collect();
    let Plan { mut planned, refused, .. } = planned(to, remote, &theirs, options).await?;
    let documents: HashSet<RefName> = made(&planned).filter_map(RefName::companion).collect();
    let documents = bundle.refs().iter().filter(|(name, _)| documents.contains(name));
    let documents = documents
        .map(|(name, target)| PlannedRef::new(name.clone(), target.clone(), RefRule::MakeQuietly));
    planned.extend(documents);
    let carrier = ObjectCopier::new(to, to, verb(options))?;
    let done = bundle::take(to, &mut bundle, &carrier, &planned, &options.progress).await?;
    let TakenBundle { new: commits, restored, mut refs, .. } = done;
    refs.extend(refused);
    index_moved(to, None, &refs, commits).await;
    let erased = CarriedErasures::default();
    Ok(report(Transferred { commits, restored, refs, erased }))
}

fn verb(options: &FetchOptions) -> &'static str {
    match options.pull {
        PullBranches::None => "fetch",
        PullBranches::Named(_) | PullBranches::All => "pull",
    }
}

/// Returns the local branches and tags to create or move forward.
fn made(planned: &[PlannedRef]) -> impl Iterator<Item = &RefName> {
    let names = planned.iter().map(|planned| &planned.name);
    names.filter(|name| name.branch_name().is_some() || name.tag_name().is_some())
}

/// Plans the refs to create or move.
async fn planned(
    to: &Repo,
    remote: &str,
    theirs: &[(RefName, RefTarget)],
    options: &FetchOptions,
) -> Result<Plan> {
    let (mut planned, mut refused) = (Vec::with_capacity(theirs.len()), Vec::new());
    let mut branches = HashMap::new();
    for (name, target) in theirs {
        match name.branch_name() {
            Some(branch) => match RefName::remote_branch(remote, branch) {
                Ok(seen) => {
                    planned.push(PlannedRef::new(seen, target.clone(), RefRule::Follow));
                    branches.insert(branch, (name, target));
                }
                Err(bad) => {
                    let status = TransferStatus::Refused { why: bad.to_string() };
                    let (name, to) = (name.clone(), Some(target.clone()));
                    refused.push(TransferredRef { name, to, status });
                }
            },
            None => planned.push(PlannedRef::new(name.clone(), target.clone(), RefRule::Make)),
        }
    }
    if options.prune {
        let prefix = format!("remotes/{remote}/");
        for (name, _) in to.store().list_refs(to.name(), &prefix).await? {
            let is_gone = name.remote_branch_name().is_some_and(|at| !branches.contains_key(at.1));
            if is_gone {
                planned.push(PlannedRef { name, to: None, rule: RefRule::Follow });
            }
        }
    }
    let mut wanted: Vec<(&RefName, &RefTarget)> = Vec::new();
    match &options.pull {
        PullBranches::None => {}
        PullBranches::All => wanted.extend(branches.values().copied()),
        PullBranches::Named(names) => {
            for name in names {
                let Some(found) = branches.get(name.as_str()) else {
                    let near = nearest(name, branches.keys().copied());
                    let nearest = near.map(str::to_owned).into_iter().collect();
                    return Err(Error::UnknownBranch { name: name.clone(), nearest });
                };
                wanted.push(*found);
            }
        }
    }
    wanted.sort_unstable();
    wanted.dedup();
    let forward = wanted.iter().map(|(name, target)| {
        PlannedRef::new((*name).clone(), (*target).clone(), RefRule::Forward)
    });
    planned.extend(forward);
    let current = to.current_branch().await?;
    let begin = wanted.iter().find(|(name, _)| **name == current).or(wanted.first());
    planned.extend(begin.map(|(name, _)| begin_at(name)));
    Ok(Plan { planned, refused, ..Plan::default() })
}

fn report(moved: Transferred) -> FetchReport {
    let Transferred { commits, restored, refs, erased } = moved;
    let mut report = FetchReport { commits, restored, erased, ..FetchReport::default() };
    for at in refs {
        if at.name.branch_name().is_some() {
            report.branches.push(at);
        } else if at.name.remote_branch_name().is_some() || at.name.tag_name().is_some() {
            report.refs.push(at);
        }
    }
    report
}
