//! Transfers commits and refs from one repository to another.

use std::collections::{HashMap, HashSet};

use tract_core::store::Walk;
use tract_core::{Blob, BlobId, CommitId, RefName, RefTarget};

use super::{
    MissingCommits, PlannedRef, TransferStatus, TransferredRef, lacking_commits, move_refs,
};
use crate::history::turns::{catch_up, copy_rows};
use crate::repo::Repo;
use crate::repo::error::gone::is_gone;
use crate::repo::error::{Error, Result};
use crate::sync::carry::ObjectCopier;
use crate::sync::copy::OnCopy;
use crate::upkeep::erase::{CarriedErasures, arrive, sent_erasures};
use crate::upkeep::restore::{Replace, readable_commits};
use crate::write::races::Attempts;

/// The planned transfer, from the refs as they were read.
#[derive(Default)]
pub(super) struct Plan {
    /// The refs to move once all their objects are there.
    pub(super) planned: Vec<PlannedRef>,
    /// Additional commits to transfer.
    pub(super) heads: Vec<CommitId>,
    /// The blobs that refs point to.
    pub(super) documents: HashMap<BlobId, Blob>,
    /// Refs that cannot be transferred, with the reason.
    pub(super) refused: Vec<TransferredRef>,
}

/// The result of a transfer.
pub(super) struct Transferred {
    /// Number of commits that were missing.
    pub(super) commits: usize,
    /// Number of damaged or missing objects of the receiver that were replaced.
    pub(super) restored: usize,
    /// The refs with their outcomes.
    pub(super) refs: Vec<TransferredRef>,
    /// Erasures of the source that were applied to the receiver.
    pub(super) erased: CarriedErasures,
}

/// Carries out a plan. If one of its objects is erased or garbage-collected on either side in the
/// meantime, plans again. A branch that cannot be transferred is left out.
///
/// `judge` is the repository that has the histories of both sides, as far as they are related.
pub(super) async fn transfer(
    carrier: &mut ObjectCopier<'_>,
    judge: &Repo,
    progress: Option<&OnCopy>,
    plan: impl AsyncFn() -> Result<Plan>,
) -> Result<Transferred> {
    let mut attempts = Attempts::new(carrier.to);
    let done = loop {
        let attempt = async {
            // Read for every attempt: the object that was gone may have been erased since the last
            // one.
            carrier.read_erasures().await?;
            bring(carrier, judge, progress, &plan().await?).await
        };
        match attempt.await {
            Ok(done) => break Ok(done),
            Err(error) => match attempts.again(error).await {
                Ok(()) => {}
                Err(error) if is_gone(&error) => {
                    let plan = plan().await;
                    break match plan {
                        Ok(plan) => one_by_one(carrier, judge, progress, plan, error).await,
                        Err(_) => Err(error),
                    };
                }
                Err(error) => break Err(error),
            },
        }
    };
    // The refs have moved or the transfer failed: what it stored needs no more protection.
    carrier.lease.release().await;
    carrier.restorer.finish().await;
    let (refs, commits) = (done?, carrier.brought);
    let restored = carrier.restorer.restored;
    // A transfer that is rejected must not change the receiver, so it applies no erasures either.
    let (from, to) = (carrier.from, carrier.to);
    let erased = match refs.iter().any(is_accepted) {
        true => arrive(to, Some(from), sent_erasures(from).await?).await?,
        false => CarriedErasures::default(),
    };
    let source = carrier.brings_rows.then_some(from);
    index_moved(to, source, &refs, commits).await;
    Ok(Transferred { commits, restored, refs, erased })
}

/// Transfers the missing objects, and moves the refs.
async fn bring(
    carrier: &mut ObjectCopier<'_>,
    judge: &Repo,
    progress: Option<&OnCopy>,
    plan: &Plan,
) -> Result<Vec<TransferredRef>> {
    let (from, to) = (carrier.from, carrier.to);
    // The receiver has everything that its refs lead to.
    let there = to.store().list_refs(to.name(), "").await?;
    let has: HashSet<CommitId> = there.iter().filter_map(|(_, target)| target.commit()).collect();
    let targets = plan.planned.iter().filter_map(|planned| planned.to.as_ref());
    let heads = targets.filter_map(RefTarget::commit).chain(plan.heads.iter().copied());
    let mut seen = HashSet::new();
    let heads: Vec<CommitId> = heads.filter(|id| seen.insert(*id)).collect();
    let lacking = lacking_commits(from, Some(to), &heads, has.iter().copied()).await?;
    restore_near(carrier, &heads, &has, &lacking).await?;
    carrier.carry_all(&lacking.order, false, progress).await?;
    restore_documents(carrier, &plan.planned).await?;
    let mut refs = move_refs(carrier, judge, &plan.planned, &plan.documents).await?;
    refs.extend(plan.refused.iter().cloned());
    Ok(refs)
}

/// Maximum number of commits that are compared for branches without new commits, the newest of
/// each.
const COMPARED: usize = 1024;
/// Maximum number of such branches, because each takes a request.
const COMPARED_LINES: usize = 16;

/// Replaces commits of the receiver that were found damaged, and compares the newest commits of
/// branches without new commits. Only a copy or a verification compares all commits.
///
/// `has` names the commits that the receiver's refs point to. A commit that is stored but that no
/// ref leads to may be garbage, so the absence of its objects is not damage.
async fn restore_near(
    carrier: &mut ObjectCopier<'_>,
    heads: &[CommitId],
    has: &HashSet<CommitId>,
    lacking: &MissingCommits,
) -> Result<()> {
    if !carrier.to.store().capabilities().restores {
        return Ok(());
    }
    carrier.restorer.commits(&lacking.damaged, Replace::Damaged).await?;
    let ends = heads.iter().filter(|head| has.contains(head));
    let (store, name) = (carrier.from.store(), carrier.from.name());
    let (mut near, mut seen) = (Vec::new(), HashSet::new());
    for end in ends.take(COMPARED_LINES) {
        let limit = COMPARED.saturating_sub(near.len());
        if limit == 0 || seen.contains(end) {
            continue;
        }
        let walk = Walk { limit, ..Walk::from(*end) };
        // Damage on the sending side is reported when the object is needed.
        let Ok(page) = store.walk(name, walk).await else { continue };
        let line: Vec<CommitId> = page.entries.iter().map(|entry| entry.commit.id()).collect();
        near.extend(
            line.into_iter().take_while(|id| seen.insert(*id)).collect::<Vec<_>>().iter().rev(),
        );
    }
    let (found, damaged) = readable_commits(carrier.to, &near).await?;
    let lost =
        near.iter().zip(found).filter(|(id, found)| found.is_none() && !damaged.contains(id));
    let lost: Vec<CommitId> = lost.map(|(id, _)| *id).collect();
    if !lost.is_empty() {
        // Copied as new commits are, because the store then requires all objects that they link to.
        let brought = carrier.brought;
        carrier.carry_all(&lost, false, None).await?;
        carrier.brought = brought;
        carrier.restorer.restored += lost.len();
        carrier.restorer.is_moved = true;
    }
    carrier.restorer.commits(&near, Replace::Linked).await
}

/// Compares the documents that refs of both sides point to.
async fn restore_documents(carrier: &mut ObjectCopier<'_>, planned: &[PlannedRef]) -> Result<()> {
    let to = carrier.to;
    let with_document =
        |planned: &PlannedRef| Some((planned.name.clone(), planned.to.as_ref()?.blob()?));
    let (names, ids): (Vec<RefName>, Vec<BlobId>) =
        planned.iter().filter_map(with_document).unzip();
    if names.is_empty() || !to.store().capabilities().restores {
        return Ok(());
    }
    let found = to.store().refs(to.name(), &names).await?;
    let same = ids.into_iter().zip(found).filter(|(id, at)| *at == Some(RefTarget::Blob(*id)));
    let same: Vec<BlobId> = same.map(|(id, _)| id).collect();
    carrier.restorer.blobs(&same, Replace::Lacking).await
}

/// Transfers each head separately, so that a head that leads to something damaged does not affect
/// the others. `error` is the error of the joint attempt.
async fn one_by_one(
    carrier: &mut ObjectCopier<'_>,
    judge: &Repo,
    progress: Option<&OnCopy>,
    plan: Plan,
    error: Error,
) -> Result<Vec<TransferredRef>> {
    let Plan { planned, documents, refused, .. } = plan;
    let mut groups: Vec<(CommitId, Vec<PlannedRef>)> = Vec::new();
    let mut places: HashMap<CommitId, usize> = HashMap::new();
    let mut others = Vec::new();
    for planned in planned {
        let Some(head) = planned.to.as_ref().and_then(RefTarget::commit) else {
            others.push(planned);
            continue;
        };
        let place = *places.entry(head).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(planned),
            None => groups.push((head, vec![planned])),
        }
    }
    if groups.len() < 2 {
        return Err(error);
    }
    let (mut refs, mut lost) = (refused, HashSet::new());
    for (_, planned) in groups {
        let plan = Plan { planned, ..Plan::default() };
        match bring(carrier, judge, progress, &plan).await {
            Ok(moved) => refs.extend(moved),
            Err(error) if is_gone(&error) => {
                for PlannedRef { name, to, .. } in plan.planned {
                    lost.insert(name.clone());
                    let status = TransferStatus::Refused { why: error.to_string() };
                    refs.push(TransferredRef { name, to, status });
                }
            }
            Err(error) => return Err(error),
        }
    }
    // A document is skipped with its branch, and so is a `HEAD` that names a skipped branch.
    let is_left = |planned: &PlannedRef| {
        let branch = match &planned.to {
            Some(RefTarget::Ref(branch)) => Some(branch.clone()),
            _ => planned.name.companion_of(),
        };
        branch.is_some_and(|branch| lost.contains(&branch))
    };
    others.retain(|planned| !is_left(planned));
    let plan = Plan { planned: others, documents, ..Plan::default() };
    refs.extend(bring(carrier, judge, progress, &plan).await?);
    Ok(refs)
}

/// Returns whether the receiver now has a branch or tag as it was sent.
pub(crate) fn is_accepted(at: &TransferredRef) -> bool {
    let is_history = at.name.branch_name().is_some()
        || at.name.tag_name().is_some()
        || at.name.remote_branch_name().is_some();
    let is_there = match at.status {
        TransferStatus::Created
        | TransferStatus::Forwarded
        | TransferStatus::Moved
        | TransferStatus::Unchanged => true,
        TransferStatus::Ahead
        | TransferStatus::Diverged { .. }
        | TransferStatus::Refused { .. }
        | TransferStatus::Deleted => false,
    };
    is_history && is_there
}

/// Writes the turn index rows of branches and tags if many commits were transferred. `source` is a
/// repository from which they can be copied.
pub(crate) async fn index_moved(
    repo: &Repo,
    source: Option<&Repo>,
    refs: &[TransferredRef],
    commits: usize,
) {
    let every = usize::try_from(repo.turn_rows_every()).unwrap_or(usize::MAX);
    if commits < every {
        return;
    }
    for at in refs.iter().filter(|at| at.name.remote_branch_name().is_none()) {
        if let (
            Some(RefTarget::Commit(head)),
            TransferStatus::Created | TransferStatus::Forwarded,
        ) = (&at.to, &at.status)
        {
            if let Some(source) = source {
                copy_rows(source, repo, *head, commits / every + 1).await;
            }
            catch_up(repo, *head).await;
        }
    }
}
