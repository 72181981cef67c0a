//! Fetch and pull: branches of another repository, or of a bundle, into this one.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{Read, Seek};

use tract_core::{Blob, BlobId, CommitId, RefName, RefTarget, nearest};

use super::push::companions;
use super::refs::documents_of;
use super::transfer::{Transfer, Transferred};
use super::{
    PlannedRef, RefRule, TransferStatus, TransferredRef, begin_at, index_moved, move_refs,
};
use crate::bundle::{self, Bundle};
use crate::carry::ObjectCopier;
use crate::copy::OnCopy;
use crate::erase::CarriedErasures;
use crate::error::{Error, Result};
use crate::repo::Repo;

/// Which branches of this repository a fetch moves forward too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PullBranches {
    /// None: a fetch moves what is under `remotes/`, and makes tags.
    #[default]
    None,
    /// These.
    Named(Vec<String>),
    /// All that the remote has.
    All,
}

/// What [`fetch`] fetches.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct FetchOptions {
    /// The branches to move forward here too.
    pub pull: PullBranches,
    /// Whether refs under `remotes/` go whose branches are gone from the remote.
    pub prune: bool,
    /// Called with the progress.
    pub progress: Option<OnCopy>,
}

impl fmt::Debug for FetchOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchOptions")
            .field("pull", &self.pull)
            .field("prune", &self.prune)
            .finish_non_exhaustive()
    }
}

impl FetchOptions {
    /// Starts from the defaults: all branches and tags, and no branch here is moved.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets which branches are moved forward here too.
    #[must_use]
    pub fn pull(mut self, branches: PullBranches) -> Self {
        self.pull = branches;
        self
    }

    /// Sets whether refs under `remotes/` go whose branches are gone from the remote.
    #[must_use]
    pub fn prune(mut self, prune: bool) -> Self {
        self.prune = prune;
        self
    }

    /// Sets what is called with the progress.
    #[must_use]
    pub fn progress(mut self, progress: OnCopy) -> Self {
        self.progress = Some(progress);
        self
    }
}

/// What [`fetch`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchReport {
    /// Commits that were not here.
    pub commits: usize,
    /// Where the remote's branches are, and its tags.
    pub refs: Vec<TransferredRef>,
    /// The branches here that were to be moved forward.
    pub branches: Vec<TransferredRef>,
    /// What was erased in the remote and now is here.
    pub erased: CarriedErasures,
}

impl FetchReport {
    /// Returns whether a branch here was to be moved forward and has other commits.
    pub fn diverged(&self) -> bool {
        self.branches.iter().any(|at| matches!(at.status, TransferStatus::Diverged { .. }))
    }
}

/// Brings the branches and tags of another repository here; with [`FetchOptions::pull`] also moves
/// branches of this one forward.
///
/// # Behavior
/// - Only what is not here is read, parents first. Refs move last, each by compare-and-swap; a
///   fetch that was cut short continues where it was.
/// - `remotes/REMOTE/BRANCH` follows the branch of the remote, wherever it went. Tags are made,
///   never moved.
/// - A branch here is made or moved forward, or stays where it is: ahead, or diverged, for
///   `merge remotes/REMOTE/BRANCH`.
/// - All refs of one call are one operation, which one undo of such a branch reverts.
/// - What was erased there is erased here first, and what was erased here is not brought back.
/// - Approvals, policies, decisions, effects and pins of the remote stay there.
///
/// # Errors
/// [`Error::UnknownBranch`] when the remote has no branch that is to be pulled; [`Error::Damaged`]
/// when something that a branch leads to is damaged or missing there; [`Error::KeptMoving`] when
/// others keep moving refs here; those of both stores. Objects may be here then to which no ref
/// leads.
pub async fn fetch(
    to: &Repo,
    from: &Repo,
    remote: &str,
    options: &FetchOptions,
) -> Result<FetchReport> {
    let mut theirs = from.store().list_refs(from.name(), "heads/").await?;
    theirs.extend(from.store().list_refs(from.name(), "tags/").await?);
    let heads: Vec<CommitId> = theirs.iter().filter_map(|(_, target)| target.commit()).collect();
    let mut planned = planned(to, remote, &theirs, options).await?;
    let made: Vec<RefName> = made(&planned).cloned().collect();
    planned.extend(companions(from, &made).await?);
    let documents = documents_of(from, &planned).await?;
    let what = verb(options);
    let transfer = Transfer { from, to, judge: to, what, heads, planned, documents };
    Ok(report(transfer.run(options.progress.as_ref()).await?))
}

/// As [`fetch`], from a bundle. The bundle is read twice: nothing is written before all of it was
/// checked.
///
/// # Errors
/// As [`fetch`], and [`Error::Bundle`] when it is no whole bundle, or commits that it continues
/// are not here.
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
    let mut planned = planned(to, remote, &theirs, options).await?;
    let documents: HashSet<RefName> = made(&planned).filter_map(RefName::companion).collect();
    let documents = bundle.refs().iter().filter(|(name, _)| documents.contains(name));
    let documents = documents
        .map(|(name, target)| PlannedRef::new(name.clone(), target.clone(), RefRule::MakeQuietly));
    planned.extend(documents);
    let carrier = ObjectCopier::new(to, to, verb(options))?;
    let (commits, blobs) = bundle::load(to, &mut bundle, &carrier, &options.progress).await?;
    let blobs: HashMap<BlobId, Blob> = blobs;
    let refs = move_refs(&carrier, to, &planned, &blobs).await?;
    index_moved(to, &refs, commits).await;
    Ok(report(Transferred { commits, refs, erased: carrier.carried }))
}

fn verb(options: &FetchOptions) -> &'static str {
    match options.pull {
        PullBranches::None => "fetch",
        PullBranches::Named(_) | PullBranches::All => "pull",
    }
}

/// The branches and tags here that are to be made or moved forward.
fn made(planned: &[PlannedRef]) -> impl Iterator<Item = &RefName> {
    let names = planned.iter().map(|planned| &planned.name);
    names.filter(|name| name.branch_name().is_some() || name.tag_name().is_some())
}

/// The refs that are to be made or moved here.
async fn planned(
    to: &Repo,
    remote: &str,
    theirs: &[(RefName, RefTarget)],
    options: &FetchOptions,
) -> Result<Vec<PlannedRef>> {
    let mut planned = Vec::with_capacity(theirs.len());
    let mut branches = HashMap::new();
    for (name, target) in theirs {
        match name.branch_name() {
            Some(branch) => {
                let seen = RefName::remote_branch(remote, branch)?;
                planned.push(PlannedRef::new(seen, target.clone(), RefRule::Follow));
                branches.insert(branch, (name, target));
            }
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
    Ok(planned)
}

fn report(moved: Transferred) -> FetchReport {
    let Transferred { commits, refs, erased } = moved;
    let mut report = FetchReport { commits, erased, ..FetchReport::default() };
    for at in refs {
        if at.name.branch_name().is_some() {
            report.branches.push(at);
        } else if at.name.remote_branch_name().is_some() || at.name.tag_name().is_some() {
            report.refs.push(at);
        }
    }
    report
}
