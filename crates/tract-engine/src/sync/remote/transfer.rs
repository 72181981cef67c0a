//! Commits and refs from one repository to another.

use std::collections::{HashMap, HashSet};

use tract_core::store::Walk;
use tract_core::{Blob, BlobId, CommitId, RefName, RefTarget};

use super::{
    MissingCommits, PlannedRef, TransferStatus, TransferredRef, lacking_commits, move_refs,
};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::sync::carry::ObjectCopier;
use crate::sync::copy::OnCopy;
use crate::upkeep::erase::{CarriedErasures, arrive, sent_erasures};
use crate::upkeep::restore::Replace;
use crate::write::races::{Attempts, is_gone};

/// What is to be brought from one repository to another, by the refs as they were read.
#[derive(Default)]
pub(super) struct Plan {
    /// The refs to move when all that they lead to is there.
    pub(super) planned: Vec<PlannedRef>,
    /// Commits that are brought besides.
    pub(super) heads: Vec<CommitId>,
    /// The blobs that refs point to.
    pub(super) documents: HashMap<BlobId, Blob>,
    /// Refs that cannot be brought, and why.
    pub(super) refused: Vec<TransferredRef>,
}

/// What was brought.
pub(super) struct Transferred {
    /// How many commits were lacking.
    pub(super) commits: usize,
    /// How many objects that were damaged or missing in the receiver were replaced.
    pub(super) restored: usize,
    /// What became of the refs.
    pub(super) refs: Vec<TransferredRef>,
    /// What was erased there, and now is here.
    pub(super) erased: CarriedErasures,
}

/// Brings what a plan calls for, and plans again where something of it is erased or collected
/// meanwhile, here or there. A branch that cannot be brought is left out.
///
/// `judge` is the one of the two repositories that has the histories of both, as far as they are
/// related.
pub(super) async fn transfer(
    carrier: &mut ObjectCopier<'_>,
    judge: &Repo,
    progress: Option<&OnCopy>,
    plan: impl AsyncFn() -> Result<Plan>,
) -> Result<Transferred> {
    let mut attempts = Attempts::new(carrier.to);
    let done = loop {
        let attempt = async {
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
    carrier.lease.release().await;
    carrier.restorer.finish().await;
    let (refs, commits) = (done?, carrier.brought);
    let restored = carrier.restorer.restored;
    // A transfer that is rejected leaves the receiver as it was.
    let (from, to) = (carrier.from, carrier.to);
    let erased = match refs.iter().any(is_accepted) {
        true => arrive(to, Some(from), sent_erasures(from).await?).await?,
        false => CarriedErasures::default(),
    };
    index_moved(to, &refs, commits).await;
    Ok(Transferred { commits, restored, refs, erased })
}

/// Brings what is lacking, and moves the refs.
async fn bring(
    carrier: &mut ObjectCopier<'_>,
    judge: &Repo,
    progress: Option<&OnCopy>,
    plan: &Plan,
) -> Result<Vec<TransferredRef>> {
    let (from, to) = (carrier.from, carrier.to);
    // What a ref of the receiver leads to, it has.
    let there = to.store().list_refs(to.name(), "").await?;
    let has = there.iter().filter_map(|(_, target)| target.commit());
    let targets = plan.planned.iter().filter_map(|planned| planned.to.as_ref());
    let heads = targets.filter_map(RefTarget::commit).chain(plan.heads.iter().copied());
    let mut seen = HashSet::new();
    let heads: Vec<CommitId> = heads.filter(|id| seen.insert(*id)).collect();
    let lacking = lacking_commits(from, Some(to), &heads, has).await?;
    restore_near(carrier, &heads, &lacking).await?;
    carrier.carry_all(&lacking.order, false, progress).await?;
    restore_documents(carrier, &plan.planned).await?;
    let mut refs = move_refs(carrier, judge, &plan.planned, &plan.documents).await?;
    refs.extend(plan.refused.iter().cloned());
    Ok(refs)
}

/// So many commits of branches that the receiver has already are compared at most, the newest of each.
const COMPARED: usize = 1024;
/// Of so many lines at most: each takes a question.
const COMPARED_LINES: usize = 16;

/// Replaces commits of the receiver that were found to be damaged. Of the branches that bring nothing
/// new, the newest commits are compared; all of them are by a copy, or by a verification.
async fn restore_near(
    carrier: &mut ObjectCopier<'_>,
    heads: &[CommitId],
    lacking: &MissingCommits,
) -> Result<()> {
    if !carrier.to.store().capabilities().restores {
        return Ok(());
    }
    carrier.restorer.commits(&lacking.damaged, Replace::Damaged).await?;
    let missing: HashSet<&CommitId> = lacking.order.iter().collect();
    let ends = heads.iter().filter(|head| !missing.contains(head));
    let (store, name) = (carrier.from.store(), carrier.from.name());
    let (mut near, mut seen) = (Vec::new(), HashSet::new());
    for end in ends.take(COMPARED_LINES) {
        let limit = COMPARED.saturating_sub(near.len());
        if limit == 0 || seen.contains(end) {
            continue;
        }
        let walk = Walk { limit, ..Walk::from(*end) };
        // What is damaged on the sending side is reported when it is needed.
        let Ok(page) = store.walk(name, walk).await else { continue };
        let line: Vec<CommitId> = page.steps.iter().map(|step| step.commit.id()).collect();
        near.extend(
            line.into_iter().take_while(|id| seen.insert(*id)).collect::<Vec<_>>().iter().rev(),
        );
    }
    carrier.restorer.commits(&near, Replace::Lacking).await
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

/// Brings each head by itself: one that leads to something damaged takes no other with it. `error` is
/// that of all together.
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
    // A document goes where its branch goes, and `HEAD` begins on a branch that is there.
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

/// Returns whether the receiver has a branch or tag now as it was sent.
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

/// Writes the rows of the turn index that branches and tags call for where many commits came.
pub(crate) async fn index_moved(repo: &Repo, refs: &[TransferredRef], commits: usize) {
    if (commits as u64) < repo.turn_rows_every() {
        return;
    }
    for at in refs.iter().filter(|at| at.name.remote_branch_name().is_none()) {
        if let (
            Some(RefTarget::Commit(head)),
            TransferStatus::Created | TransferStatus::Forwarded,
        ) = (&at.to, &at.status)
        {
            crate::history::turns::catch_up(repo, *head).await;
        }
    }
}
