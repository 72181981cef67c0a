//! Kept merges: the conflicts of a merge as a pending decision, and the merge that follows once all
//! of them are resolved.
//!
//! The document under `pending/<id>` contains the conflicts and the resolutions so far. Each write
//! that changes the document expects the version that was read, so two callers cannot overwrite
//! each other's resolutions. It also moves `merge/<branch>`: that is the ref by which `undo` finds
//! decisions about merges of the branch.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tract_core::{Commit, CommitId, RefName, RefTarget};
use tract_hooks::Hooks;

use super::{MergeOptions, Merged, merge_of};
use crate::plan::{
    Details, KeptConflict, MergeConflict, Refusal, Resolution, ResolvableConflict, ResolveFn,
    Resolver,
};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::verbs::approvals::{own_record, waiting};
use crate::write::hooks::WriteTarget;
use crate::write::pending::{Document, KEPT_MERGE, Pending, PendingRequest, RecordedDecision};
use crate::write::races::Attempts;
use crate::write::txn::{Txn, WriteOptions};

/// A merge with open conflicts, planned on the current head of its branch.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptMerge {
    /// The stored pending decision.
    pub pending: Pending,
    /// The head of the branch that it was planned on.
    pub head: Option<CommitId>,
    /// The head that is merged in.
    pub source: CommitId,
    /// The conflicts on this head, with their resolutions so far and the legal ones.
    pub conflicts: Vec<ResolvableConflict>,
    /// Conflicts that the stored merge does not contain yet, since the branch moved.
    pub new: Vec<MergeConflict>,
    /// Resolutions that no longer fit any conflict on this head.
    pub outdated: Vec<MergeConflict>,
}

impl KeptMerge {
    /// Returns the conflicts that are not resolved yet.
    pub fn open(&self) -> impl Iterator<Item = &ResolvableConflict> {
        self.conflicts.iter().filter(|conflict| conflict.resolution.is_none())
    }
}

/// The progress of a merge.
#[derive(Clone, Debug, PartialEq)]
pub enum MergeProgress {
    /// Some conflicts are open, and the merge is kept as a pending decision.
    Kept(Box<KeptMerge>),
    /// The merge is done.
    Merged(Merged),
}

/// A kept merge after planning.
struct PlannedKept {
    /// The merge, if no conflict is open.
    merged: Option<Merged>,
    kept: KeptMerge,
}

type Decisions = HashMap<MergeConflict, Resolution>;

/// Returns the ref that moves with each decision about merges of a branch.
pub(crate) fn decisions_ref(branch: &RefName) -> Result<RefName> {
    let name = branch.branch_name().unwrap_or(branch.as_str());
    Ok(RefName::new(format!("merge/{name}"))?)
}

impl Repo {
    /// Merges like [`merge`](Self::merge), but stores unresolved conflicts as a pending decision
    /// instead of failing. [`resolve_merge`](Self::resolve_merge) resolves them.
    ///
    /// # Errors
    /// As [`merge`](Self::merge), except for open conflicts.
    pub async fn merge_or_keep(
        &self,
        branch: &RefName,
        source: CommitId,
        options: &MergeOptions,
    ) -> Result<MergeProgress> {
        let mut attempts = Attempts::new(self);
        let mut ruling = None;
        loop {
            let mut txn = Txn::new(self)?;
            let mut resolver = options.resolver().collecting();
            let planned =
                txn.merge_asking(branch, source, options, &mut ruling, &mut resolver).await;
            let (progress, what) = match planned {
                Ok(Merged::NothingToMerge) => {
                    return Ok(MergeProgress::Merged(Merged::NothingToMerge));
                }
                Ok(merged) => (MergeProgress::Merged(merged), "merge"),
                Err(Error::Refused(Refusal::Conflicts(_))) => {
                    // Keep the handlers' decision, so that they are not asked again when the merge
                    // is completed.
                    let noted = ruling.as_ref().and_then(Option::as_ref);
                    let details = noted.map_or(&options.details, |noted| &noted.0).clone();
                    let no_fast_forward = options.no_fast_forward;
                    let conflicts = resolver.take_asked();
                    let kept =
                        txn.keep(branch, source, no_fast_forward, details, conflicts).await?;
                    (MergeProgress::Kept(Box::new(kept)), "merge keep")
                }
                Err(error) => {
                    attempts.again(error).await?;
                    continue;
                }
            };
            if attempts.won(txn.apply(what, &WriteOptions::default()).await?).await? {
                return Ok(progress);
            }
        }
    }

    /// Reads a kept merge by its name or a prefix of it, planned on the current head of its branch.
    ///
    /// # Errors
    /// [`Error::UnknownPending`], [`Error::AlreadyDecided`], [`Error::NotMerge`].
    pub async fn kept_merge(&self, id: &str) -> Result<KeptMerge> {
        self.preview_resolve(id, |_| None).await
    }

    /// Plans the effect of [`resolve_merge`](Self::resolve_merge) without writing.
    ///
    /// # Errors
    /// As [`resolve_merge`](Self::resolve_merge).
    pub async fn preview_resolve(
        &self,
        id: &str,
        resolve: impl Fn(&MergeConflict) -> Option<Resolution> + Send + Sync + 'static,
    ) -> Result<KeptMerge> {
        let pending = waiting(self, id).await?.1;
        let plain = self.with_hooks(Hooks::new());
        let mut txn = Txn::new(&plain)?;
        let resolve: Arc<ResolveFn> = Arc::new(resolve);
        Ok(Box::pin(txn.plan_kept(pending, &resolve)).await?.kept)
    }

    /// Resolves conflicts of a kept merge; `None` leaves a conflict as it is. Once none is open,
    /// the merge is written: one batch moves the branch, ends the pending decision and records it.
    ///
    /// # Behavior
    /// - The merge is planned on the current head of the branch. Resolutions apply to conflicts
    ///   that are unchanged; all others are listed in [`KeptMerge::outdated`].
    /// - Each call is one operation for [`undo`](Self::undo), which also reverts resolutions.
    /// - If two callers resolve the same conflict at the same time, one is refused.
    /// - Handlers are not asked again: they were asked when the merge was kept.
    ///
    /// # Errors
    /// [`Error::UnknownPending`], [`Error::AlreadyDecided`], [`Error::NotMerge`],
    /// [`Error::DecidedMeanwhile`]; [`Error::Refused`] with
    /// [`Refusal::IllegalResolution`](crate::Refusal) for a resolution that is not legal. Nothing
    /// is then written.
    pub async fn resolve_merge(
        &self,
        id: &str,
        resolve: impl Fn(&MergeConflict) -> Option<Resolution> + Send + Sync + 'static,
    ) -> Result<MergeProgress> {
        let resolve: Arc<ResolveFn> = Arc::new(resolve);
        Ok(Box::pin(self.resolve_kept(id, &resolve)).await?.0)
    }

    /// Resolves conflicts. Also returns the record of the merge if it is completed.
    pub(crate) async fn resolve_kept(
        &self,
        id: &str,
        resolve: &Arc<ResolveFn>,
    ) -> Result<(MergeProgress, Option<RecordedDecision>)> {
        let plain = self.with_hooks(Hooks::new());
        let mut races = self.races();
        let mut first_seen: Option<Decisions> = None;
        let mut id = id.to_owned();
        loop {
            let (target, pending) = waiting(self, &id).await?;
            id.clone_from(&pending.id);
            let stored = decisions(&pending)?;
            let mut txn = Txn::new(&plain)?;
            let planned = match Box::pin(txn.plan_kept(pending, resolve)).await {
                Ok(planned) => planned,
                // If another caller completed the merge first, report that.
                Err(error) => {
                    waiting(self, &id).await?;
                    return Err(error);
                }
            };
            let first_seen = first_seen.get_or_insert_with(|| stored.clone());
            for ResolvableConflict { conflict, .. } in &planned.kept.conflicts {
                let (before, now) = (first_seen.get(conflict), stored.get(conflict));
                let decides = resolve(conflict).is_some_and(|mine| Some(&mine) != now);
                if let Some(now) = now.filter(|now| before != Some(*now) && decides) {
                    let (conflict, resolution) = (Box::new(conflict.clone()), now.kind());
                    return Err(Error::DecidedMeanwhile { id, conflict, resolution });
                }
            }
            let PlannedKept { merged, mut kept } = planned;
            let conflicts = remembered(&kept, &stored);
            if merged.is_none() && decided(&conflicts) == stored {
                return Ok((MergeProgress::Kept(Box::new(kept)), None));
            }
            kept.pending.request.set_conflicts(conflicts);
            let pending = &kept.pending;
            let (document, recorded) = match &merged {
                None => (Document::pending(pending)?, None),
                Some(merged) => {
                    let commit = match merged {
                        Merged::Commit(commit) => Some(commit),
                        Merged::NothingToMerge | Merged::FastForward { .. } => None,
                    };
                    let recorded = self.decision_on_merge(pending, "resolve", None, commit);
                    (Document::decided(&recorded)?, Some(recorded))
                }
            };
            txn.replace_pending(pending, target, &document).await?;
            if races.won(txn.apply("merge resolve", &WriteOptions::default()).await?).await? {
                return Ok(match merged {
                    Some(merged) => (MergeProgress::Merged(merged), recorded),
                    None => (MergeProgress::Kept(Box::new(kept)), None),
                });
            }
        }
    }

    /// Discards a kept merge. The branch is unchanged, and the conflicts and resolutions stay
    /// readable as a decision.
    ///
    /// # Errors
    /// [`Error::UnknownPending`], [`Error::AlreadyDecided`], [`Error::NotMerge`].
    pub async fn abort_merge(
        &self,
        id: &str,
        reason: impl Into<String>,
    ) -> Result<RecordedDecision> {
        let reason = Some(reason.into()).filter(|reason| !reason.is_empty());
        let mut races = self.races();
        let mut id = id.to_owned();
        loop {
            let (target, pending) = waiting(self, &id).await?;
            id.clone_from(&pending.id);
            source_of(&pending)?;
            let recorded = self.decision_on_merge(&pending, "abort", reason.clone(), None);
            let mut txn = Txn::new(self)?;
            let document = Document::decided(&recorded)?;
            txn.replace_pending(&pending, target, &document).await?;
            if races.won(txn.apply("merge abort", &WriteOptions::default()).await?).await? {
                return Ok(recorded);
            }
        }
    }

    fn decision_on_merge(
        &self,
        pending: &Pending,
        action: &str,
        reason: Option<String>,
        commit: Option<&Commit>,
    ) -> RecordedDecision {
        let mut record = own_record(self, &pending.event, action);
        record.pending = Some(pending.id.clone());
        record.reason = reason;
        RecordedDecision {
            id: pending.id.clone(),
            branch: pending.branch.clone(),
            record,
            request: pending.request.clone(),
            commit: commit.map(Commit::id),
        }
    }
}

impl Txn<'_> {
    /// Adds the conflicts of a merge as a pending decision.
    async fn keep(
        &mut self,
        branch: &RefName,
        source: CommitId,
        no_fast_forward: bool,
        details: Details,
        resolvable: Vec<ResolvableConflict>,
    ) -> Result<KeptMerge> {
        let head = self.head(branch).await?;
        let conflicts = resolvable.iter().map(KeptConflict::from).collect();
        let request =
            PendingRequest::Merge { source, no_fast_forward, details, conflicts: Some(conflicts) };
        let (place, who) = (WriteTarget::new(self.repo(), branch, head), self.repo().who());
        let (pending, document) =
            place.pending(KEPT_MERGE, request, "merge", who, "conflicts".to_owned())?;
        self.add_document(&document)?;
        self.move_ref(&decisions_ref(branch)?, Some(document.target())).await?;
        let (new, outdated) = (Vec::new(), Vec::new());
        Ok(KeptMerge { pending, head, source, conflicts: resolvable, new, outdated })
    }

    /// Plans a kept merge on the current head of its branch.
    async fn plan_kept(
        &mut self,
        pending: Pending,
        resolve: &Arc<ResolveFn>,
    ) -> Result<PlannedKept> {
        let (source, options) = source_of(&pending)?;
        let mut stored = decisions(&pending)?;
        let mut outdated = Vec::new();
        let head = self.head(&pending.branch).await?;
        loop {
            let (asks, knows) = (Arc::clone(resolve), stored.clone());
            let ask = move |conflict: &MergeConflict| {
                asks(conflict).or_else(|| knows.get(conflict).cloned())
            };
            let mut resolver = Resolver::new(&ask).collecting();
            let branch = &pending.branch;
            let planned =
                self.merge_asking(branch, source, &options, &mut Some(None), &mut resolver).await;
            let merged = match planned {
                Ok(merged) => Some(merged),
                Err(Error::Refused(Refusal::Conflicts(_))) => None,
                // A resolution that was legal on another head: the conflict is open again.
                Err(Error::Refused(Refusal::IllegalResolution { conflict, .. }))
                    if resolve(&conflict).is_none() && stored.remove(&conflict).is_some() =>
                {
                    outdated.push(*conflict);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let conflicts = resolver.take_asked();
            let known = pending.request.conflicts();
            let known: Option<HashSet<&MergeConflict>> =
                known.map(|known| known.iter().map(|one| &one.conflict).collect());
            let seen: HashSet<&MergeConflict> = conflicts.iter().map(|one| &one.conflict).collect();
            let is_new = |conflict: &&MergeConflict| {
                known.as_ref().is_some_and(|known| !known.contains(conflict))
            };
            let current = conflicts.iter().map(|one| &one.conflict);
            let new = current.filter(is_new).cloned().collect();
            if merged.is_none() {
                outdated.extend(stored.keys().filter(|one| !seen.contains(one)).cloned());
            }
            outdated.sort();
            let kept = KeptMerge { pending, head, source, conflicts, new, outdated };
            return Ok(PlannedKept { merged, kept });
        }
    }

    /// Replaces a pending decision by its next state, or by the record of its end.
    async fn replace_pending(
        &mut self,
        pending: &Pending,
        target: RefTarget,
        document: &Document,
    ) -> Result<()> {
        let name = Document::pending_name(&pending.id)?;
        if document.is_named(&name) {
            self.replace_document(document, Some(target))?;
        } else {
            self.move_from(&name, Some(target), None);
            self.add_document(document)?;
        }
        self.move_ref(&decisions_ref(&pending.branch)?, Some(document.target())).await
    }
}

/// Returns the source head and the options of a pending merge.
fn source_of(pending: &Pending) -> Result<(CommitId, MergeOptions)> {
    merge_of(&pending.request).ok_or_else(|| Error::NotMerge { id: pending.id.clone() })
}

/// Returns the stored resolutions of a pending merge.
fn decisions(pending: &Pending) -> Result<Decisions> {
    source_of(pending)?;
    Ok(pending.request.conflicts().map(decided).unwrap_or_default())
}

fn decided(conflicts: &[KeptConflict]) -> Decisions {
    let decided = conflicts.iter().filter_map(|one| {
        let resolution = one.resolution.clone()?;
        Some((one.conflict.clone(), resolution))
    });
    decided.collect()
}

/// Returns the conflicts to store for a merge: those on this head, and those with resolutions that
/// a later round of conflicts, or another head, may need again.
fn remembered(kept: &KeptMerge, stored: &Decisions) -> Vec<KeptConflict> {
    let mut conflicts: Vec<KeptConflict> = kept.conflicts.iter().map(KeptConflict::from).collect();
    let seen: HashSet<&MergeConflict> = kept.conflicts.iter().map(|one| &one.conflict).collect();
    let unseen = stored.iter().filter(|(conflict, _)| !seen.contains(conflict));
    conflicts.extend(unseen.map(|(conflict, resolution)| KeptConflict {
        conflict: conflict.clone(),
        resolution: Some(resolution.clone()),
    }));
    conflicts.sort_by(|one, other| one.conflict.cmp(&other.conflict));
    conflicts
}
