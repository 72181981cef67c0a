//! Merges: common ancestors, fast-forward, and the merge commit.

mod ancestry;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use tract_compile::Compiled;
use tract_core::{Commit, CommitId, Op, RefName, RefTarget};
use tract_hooks::{BeforeMerge, Hooks};

use self::ancestry::{Ancestry, Graph, ancestors, common, since};
use crate::history::counts::recent_histories;
use crate::plan::{
    BranchTip, ConflictKind, Details, History, KeptConflict, MergeConflict, MergeSides, NewContent,
    Refusal, Request, Resolution, ResolvableConflict, ResolveFn, Resolver, differing,
    merge as plan_merge,
};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::verbs::approvals::{own_record, waiting};
use crate::write::hooks::WriteTarget;
use crate::write::pending::{Document, KEPT_MERGE, Pending, PendingRequest, RecordedDecision};
use crate::write::races::Attempts;
use crate::write::txn::{Txn, WriteOptions};

/// Options of a merge.
#[derive(Clone, Debug, Default)]
pub struct MergeOptions {
    /// Whether to create a commit even if a fast-forward is possible.
    pub no_fast_forward: bool,
    /// Whether to merge histories that share no commit.
    pub allow_unrelated: bool,
    /// The details of the merge commit.
    pub details: Details,
    /// Resolves conflicts; set it with [`resolve`](Self::resolve()).
    pub resolve: Option<ConflictResolver>,
}

/// A function that resolves the conflicts of a merge; see [`MergeOptions::resolve`].
#[derive(Clone)]
pub struct ConflictResolver(Arc<ResolveFn>);

impl fmt::Debug for ConflictResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConflictResolver")
    }
}

impl MergeOptions {
    /// Resolves conflicts with a function; `None` leaves a conflict open. The function is called
    /// once per conflict. The metadata of the merge commit lists the resolutions as `resolutions`.
    ///
    /// ```
    /// use tract_engine::plan::{ConflictKind, Resolution};
    /// use tract_engine::MergeOptions;
    /// let options = MergeOptions::default().resolve(|conflict| match conflict.kind {
    ///     ConflictKind::Version => Some(Resolution::Both),
    ///     _ => Some(Resolution::Theirs),
    /// });
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn resolve(
        mut self,
        resolve: impl Fn(&MergeConflict) -> Option<Resolution> + Send + Sync + 'static,
    ) -> Self {
        self.resolve = Some(ConflictResolver(Arc::new(resolve)));
        self
    }

    fn resolver(&self) -> Resolver<'_> {
        self.resolve.as_ref().map_or_else(Resolver::none, |resolve| Resolver::new(&*resolve.0))
    }
}

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// The branch already contains everything in the source.
    NothingToMerge,
    /// The branch was fast-forwarded to the source.
    FastForward {
        /// The new head.
        head: CommitId,
    },
    /// A merge commit joins both.
    Commit(Commit),
}

/// The record of the handlers' decisions on a merge, if any: details of the commit, and a document.
type MergeNote = Option<Box<(Details, Document)>>;

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

/// One side of a conflict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConflictSide {
    /// The number of the message in the context of this side, from 1; `None` if it is not shown.
    pub number: Option<usize>,
    /// The text, the priority, or the names of the tools; `None` if missing on this side.
    pub text: Option<String>,
}

/// A conflict with both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedConflict {
    /// The conflict.
    pub conflict: MergeConflict,
    /// Our side.
    pub ours: ConflictSide,
    /// Their side.
    pub theirs: ConflictSide,
}

impl Repo {
    /// Merges a head into a branch.
    ///
    /// # Errors
    /// [`Error::Refused`] with [`Refusal::Conflicts`](crate::Refusal) when
    /// both sides changed the same thing and [`MergeOptions::resolve`] does not resolve it, or with
    /// [`Refusal::IllegalResolution`](crate::Refusal) when a resolution is not legal for its
    /// conflict. Nothing is then written.
    pub async fn merge(
        &self,
        branch: &RefName,
        source: CommitId,
        options: &MergeOptions,
    ) -> Result<Merged> {
        let mut attempts = Attempts::new(self);
        // Handlers are asked once, even if the merge is retried.
        let mut ruling = None;
        // Kept across retries as well: a resolver may ask a person or a model, and must not be
        // asked twice about the same conflict.
        let mut resolver = options.resolver();
        loop {
            let mut txn = Txn::new(self)?;
            let merged =
                merge_asking(&mut txn, branch, source, options, &mut ruling, &mut resolver).await;
            let merged = match merged {
                Ok(merged) => merged,
                // The branch may have moved since it was read, and its commits may be collected.
                Err(error) => {
                    attempts.again(error).await?;
                    continue;
                }
            };
            if merged == Merged::NothingToMerge {
                return Ok(merged);
            }
            if attempts.won(txn.apply("merge", &WriteOptions::default()).await).await? {
                return Ok(merged);
            }
        }
    }

    /// Plans a merge without writing or asking handlers.
    ///
    /// # Errors
    /// As [`merge`](Self::merge).
    pub async fn preview_merge(
        &self,
        branch: &RefName,
        source: CommitId,
        options: &MergeOptions,
    ) -> Result<Merged> {
        merge_decided(&mut Txn::new(self)?, branch, source, options).await
    }

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
                merge_asking(&mut txn, branch, source, options, &mut ruling, &mut resolver).await;
            let kept = match planned {
                Err(Error::Refused(Refusal::Conflicts(_))) => {
                    // Keep the handlers' decision, so that they are not asked again when the merge
                    // is completed.
                    let noted = ruling.as_ref().and_then(Option::as_ref);
                    let details = noted.map_or(&options.details, |noted| &noted.0).clone();
                    let no_fast_forward = options.no_fast_forward;
                    let conflicts = resolver.take_asked();
                    let kept =
                        keep_merge(&mut txn, branch, source, no_fast_forward, details, conflicts)
                            .await;
                    kept.map(|kept| MergeProgress::Kept(Box::new(kept)))
                }
                planned => planned.map(MergeProgress::Merged),
            };
            let (progress, what) = match kept {
                Ok(MergeProgress::Merged(Merged::NothingToMerge)) => {
                    return Ok(MergeProgress::Merged(Merged::NothingToMerge));
                }
                Ok(progress @ MergeProgress::Merged(_)) => (progress, "merge"),
                Ok(progress @ MergeProgress::Kept(_)) => (progress, "merge keep"),
                Err(error) => {
                    attempts.again(error).await?;
                    continue;
                }
            };
            if attempts.won(txn.apply(what, &WriteOptions::default()).await).await? {
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
        Ok(Box::pin(plan_kept(&mut txn, pending, &resolve)).await?.kept)
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
        Ok(Box::pin(resolve_kept(self, id, &resolve)).await?.0)
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
            let recorded = decision_on_merge(self, &pending, "abort", reason.clone(), None);
            let mut txn = Txn::new(self)?;
            let document = Document::decided(&recorded)?;
            replace_pending(&mut txn, &pending, target, &document).await?;
            if races.won(txn.apply("merge abort", &WriteOptions::default()).await?).await? {
                return Ok(recorded);
            }
        }
    }

    /// Reads both sides of conflicts, for a person who resolves them.
    ///
    /// # Errors
    /// When a commit or a content is not stored.
    pub async fn describe_conflicts(
        &self,
        ours: Option<CommitId>,
        theirs: CommitId,
        conflicts: &[MergeConflict],
    ) -> Result<Vec<DescribedConflict>> {
        let ours = self.compiler().compile(ours).await?;
        let theirs = self.compiler().compile(Some(theirs)).await?;
        let (our_numbers, their_numbers) = (numbers(&ours), numbers(&theirs));
        let mut described = Vec::with_capacity(conflicts.len());
        for conflict in conflicts {
            let number = |numbers: &HashMap<CommitId, usize>, side: Option<CommitId>| {
                let of = |id: Option<CommitId>| numbers.get(&id?).copied();
                of(conflict.slot).or_else(|| of(side))
            };
            let (our, their) = if conflict.kind == ConflictKind::Tools {
                (Some(tool_names(&ours)), Some(tool_names(&theirs)))
            } else {
                (side_text(self, conflict.ours).await?, side_text(self, conflict.theirs).await?)
            };
            described.push(DescribedConflict {
                conflict: conflict.clone(),
                ours: ConflictSide { number: number(&our_numbers, conflict.ours), text: our },
                theirs: ConflictSide {
                    number: number(&their_numbers, conflict.theirs),
                    text: their,
                },
            });
        }
        Ok(described)
    }
}

/// Merges a head into a branch, as part of this transaction.
///
/// # Errors
/// As [`Repo::merge`].
pub async fn merge_in(
    txn: &mut Txn<'_>,
    branch: &RefName,
    source: CommitId,
    options: &MergeOptions,
) -> Result<Merged> {
    merge_asking(txn, branch, source, options, &mut None, &mut options.resolver()).await
}

/// Merges without asking handlers.
pub(crate) async fn merge_decided(
    txn: &mut Txn<'_>,
    branch: &RefName,
    source: CommitId,
    options: &MergeOptions,
) -> Result<Merged> {
    let resolver = &mut options.resolver();
    merge_asking(txn, branch, source, options, &mut Some(None), resolver).await
}

/// Returns the commits that a branch shares with another head. The set is complete enough to
/// find, walking the branch from its head, the first commit that both contain.
pub(crate) async fn shared_commits(
    txn: &mut Txn<'_>,
    head: CommitId,
    other: CommitId,
) -> Result<Shared> {
    let ancestry = common(txn, head, other).await?;
    let contains_head = matches!(ancestry, Ancestry::Contained);
    let commits = match ancestry {
        Ancestry::Forward => HashSet::from([head]),
        Ancestry::Best(bases) if bases.is_empty() => HashSet::new(),
        Ancestry::Contained | Ancestry::Best(_) => {
            ancestors(txn, &mut Graph::default(), other).await?
        }
    };
    Ok(Shared { contains_head, commits })
}

/// Returns the smallest of some commits that a head contains. `base` must contain none of them,
/// and is what the walk from the head stops at.
pub(crate) async fn first_reached(
    txn: &Txn<'_>,
    head: CommitId,
    base: Option<CommitId>,
    commits: &HashSet<CommitId>,
) -> Result<Option<CommitId>> {
    if commits.is_empty() {
        return Ok(None);
    }
    let reached = since(txn, head, base).await?;
    Ok(commits.iter().filter(|commit| reached.contains(commit)).min().copied())
}

/// Merges. Asks handlers unless `ruling` already contains their decision.
///
/// # Errors
/// [`Error::Collected`] when garbage collection deleted the source after the caller named it. The
/// store is healthy, so this must not be reported as damage.
async fn merge_asking(
    txn: &mut Txn<'_>,
    branch: &RefName,
    source: CommitId,
    options: &MergeOptions,
    ruling: &mut Option<MergeNote>,
    resolver: &mut Resolver<'_>,
) -> Result<Merged> {
    let merged = merge_stored(txn, branch, source, options, ruling, resolver).await;
    txn.repo().or_collected(merged, &[source]).await
}

/// Merges a source whose commits are expected to be stored.
async fn merge_stored(
    txn: &mut Txn<'_>,
    branch: &RefName,
    source: CommitId,
    options: &MergeOptions,
    ruling: &mut Option<MergeNote>,
    resolver: &mut Resolver<'_>,
) -> Result<Merged> {
    let head = txn.head(branch).await?;
    let ancestry = match head {
        Some(head) => common(txn, head, source).await?,
        None => Ancestry::Forward,
    };
    let forward = matches!(ancestry, Ancestry::Forward) && !options.no_fast_forward;
    let forward = forward || head.is_none();
    if matches!(ancestry, Ancestry::Contained) {
        return Ok(Merged::NothingToMerge);
    }
    if matches!(&ancestry, Ancestry::Best(bases) if bases.is_empty()) && !options.allow_unrelated {
        return Err(Refusal::Unrelated.into());
    }
    let hooks = txn.repo().hooks();
    if ruling.is_none() && hooks.has_handler::<BeforeMerge>() && !txn.imports() {
        let event = BeforeMerge {
            head,
            fast_forward: forward,
            ..BeforeMerge::new(branch.clone(), vec![source])
        };
        let decision = hooks.before_merge(&event).await;
        let request = PendingRequest::Merge {
            source,
            no_fast_forward: options.no_fast_forward,
            details: options.details.clone(),
            conflicts: None,
        };
        match WriteTarget::new(txn.repo(), branch, head).merge(decision, request) {
            Ok(noted) => *ruling = Some(noted),
            Err(stopped) => return Err(Txn::store_stopped(txn.repo(), stopped).await),
        }
    }
    let noted_down = ruling.as_ref().and_then(Option::as_ref);
    if forward {
        if txn.made_here(source).is_none() {
            txn.repo().require_commit(source).await?;
        }
        // A fast-forward makes no commit to hold the record, so store it as a document.
        if let Some(noted) = noted_down {
            txn.add_document(&noted.1)?;
        }
        txn.move_ref(branch, Some(RefTarget::Commit(source))).await?;
        return Ok(Merged::FastForward { head: source });
    }
    let bases = match ancestry {
        Ancestry::Best(bases) => bases,
        Ancestry::Forward | Ancestry::Contained => head.into_iter().collect(),
    };
    if let (Some(ours), [base]) = (head, bases.as_slice())
        && let Some(ends) = ends_of(txn, ours, source, *base).await?
    {
        let (ours, theirs, base) = ends;
        let (histories, differing) = ([base], differing(ours.view(), theirs.view(), None));
        let sides =
            MergeSides { ours: &ours, theirs: &theirs, bases: &histories, differing: &differing };
        let details = noted_down.map_or(&options.details, |noted| &noted.0);
        let planned =
            txn.plan_with(head, |records| plan_merge(sides, records, details, resolver)).await;
        // The whole histories may allow the merge; if they do not, their refusal is more
        // precise.
        if let Ok(planned) = planned
            && planned.texts.is_empty()
        {
            let tip = BranchTip::from(&ours);
            return Ok(Merged::Commit(txn.change(branch, tip, planned.commit)?));
        }
    }
    let ours = txn.fold(head).await?;
    let theirs = txn.fold(Some(source)).await?;
    let mut histories = Vec::with_capacity(bases.len());
    for base in bases {
        histories.push(txn.fold(Some(base)).await?);
    }
    let differing = txn.repo().compared_heads().differing(&ours, &theirs);
    let sides =
        MergeSides { ours: &ours, theirs: &theirs, bases: &histories, differing: &differing };
    let details = noted_down.map_or(&options.details, |noted| &noted.0);
    let planned =
        txn.plan_with(head, |records| plan_merge(sides, records, details, resolver)).await?;
    let merged = txn.commit(branch, &ours, planned.commit).await?;
    let details = Details {
        origin: options.details.origin.clone(),
        created_at: options.details.created_at,
        ..Details::default()
    };
    for (target, text) in planned.texts {
        let content = NewContent::Text(text);
        let edit = Request::Edit { target, content, details: details.clone() };
        Box::pin(txn.add_decided(branch, &edit)).await?;
    }
    Ok(Merged::Commit(merged))
}

/// Returns the ends of two histories that forked near their heads, and the end of the history
/// at the fork; `None` if more than the ends is needed, or the histories are in memory anyway.
async fn ends_of(
    txn: &Txn<'_>,
    ours: CommitId,
    theirs: CommitId,
    base: CommitId,
) -> Result<Option<(History, History, History)>> {
    let repo = txn.repo();
    let is_known = repo.compiler().cached_history(ours).is_some();
    if is_known || txn.made_here(ours).is_some() || txn.made_here(theirs).is_some() {
        return Ok(None);
    }
    let ends = Box::pin(recent_histories(repo, base, [ours, theirs])).await?;
    Ok(ends.map(|(base, [ours, theirs])| (ours, theirs, base)))
}

/// The commits that two heads share.
pub(crate) struct Shared {
    /// Whether the branch contains the whole other history.
    pub(crate) contains_head: bool,
    pub(crate) commits: HashSet<CommitId>,
}

/// Returns the source head and options of a merge; `None` for any other request.
pub(crate) fn merge_of(request: &PendingRequest) -> Option<(CommitId, MergeOptions)> {
    let PendingRequest::Merge { source, no_fast_forward, details, .. } = request else {
        return None;
    };
    // Unrelated histories were already refused when the merge was deferred or kept.
    let mut options =
        MergeOptions { allow_unrelated: true, details: details.clone(), ..MergeOptions::default() };
    options.no_fast_forward = *no_fast_forward;
    Some((*source, options))
}

/// Resolves conflicts. Also returns the record of the merge if it is completed.
pub(crate) async fn resolve_kept(
    repo: &Repo,
    id: &str,
    resolve: &Arc<ResolveFn>,
) -> Result<(MergeProgress, Option<RecordedDecision>)> {
    let plain = repo.with_hooks(Hooks::new());
    let mut races = repo.races();
    let mut first_seen: Option<Decisions> = None;
    let mut id = id.to_owned();
    loop {
        let (target, pending) = waiting(repo, &id).await?;
        id.clone_from(&pending.id);
        let stored = decisions(&pending)?;
        let mut txn = Txn::new(&plain)?;
        let planned = match Box::pin(plan_kept(&mut txn, pending, resolve)).await {
            Ok(planned) => planned,
            // If another caller completed the merge first, report that.
            Err(error) => {
                waiting(repo, &id).await?;
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
                let recorded = decision_on_merge(repo, pending, "resolve", None, commit);
                (Document::decided(&recorded)?, Some(recorded))
            }
        };
        replace_pending(&mut txn, pending, target, &document).await?;
        if races.won(txn.apply("merge resolve", &WriteOptions::default()).await?).await? {
            return Ok(match merged {
                Some(merged) => (MergeProgress::Merged(merged), recorded),
                None => (MergeProgress::Kept(Box::new(kept)), None),
            });
        }
    }
}

fn decision_on_merge(
    repo: &Repo,
    pending: &Pending,
    action: &str,
    reason: Option<String>,
    commit: Option<&Commit>,
) -> RecordedDecision {
    let mut record = own_record(repo, &pending.event, action);
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

/// Adds the conflicts of a merge as a pending decision.
async fn keep_merge(
    txn: &mut Txn<'_>,
    branch: &RefName,
    source: CommitId,
    no_fast_forward: bool,
    details: Details,
    resolvable: Vec<ResolvableConflict>,
) -> Result<KeptMerge> {
    let head = txn.head(branch).await?;
    let conflicts = resolvable.iter().map(KeptConflict::from).collect();
    let request =
        PendingRequest::Merge { source, no_fast_forward, details, conflicts: Some(conflicts) };
    let (place, who) = (WriteTarget::new(txn.repo(), branch, head), txn.repo().who());
    let (pending, document) =
        place.pending(KEPT_MERGE, request, "merge", who, "conflicts".to_owned())?;
    txn.add_document(&document)?;
    txn.move_ref(&decisions_ref(branch)?, Some(document.target())).await?;
    let (new, outdated) = (Vec::new(), Vec::new());
    Ok(KeptMerge { pending, head, source, conflicts: resolvable, new, outdated })
}

/// Plans a kept merge on the current head of its branch.
async fn plan_kept(
    txn: &mut Txn<'_>,
    pending: Pending,
    resolve: &Arc<ResolveFn>,
) -> Result<PlannedKept> {
    let (source, options) = source_of(&pending)?;
    let mut stored = decisions(&pending)?;
    let mut outdated = Vec::new();
    let head = txn.head(&pending.branch).await?;
    loop {
        let (asks, knows) = (Arc::clone(resolve), stored.clone());
        let ask =
            move |conflict: &MergeConflict| asks(conflict).or_else(|| knows.get(conflict).cloned());
        let mut resolver = Resolver::new(&ask).collecting();
        let branch = &pending.branch;
        let planned =
            merge_asking(txn, branch, source, &options, &mut Some(None), &mut resolver).await;
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
    txn: &mut Txn<'_>,
    pending: &Pending,
    target: RefTarget,
    document: &Document,
) -> Result<()> {
    let name = Document::pending_name(&pending.id)?;
    if document.is_named(&name) {
        txn.replace_document(document, Some(target))?;
    } else {
        txn.move_from(&name, Some(target), None);
        txn.add_document(document)?;
    }
    txn.move_ref(&decisions_ref(&pending.branch)?, Some(document.target())).await
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

async fn side_text(repo: &Repo, commit: Option<CommitId>) -> Result<Option<String>> {
    let Some(id) = commit else { return Ok(None) };
    let commit = repo.require_commit(id).await?;
    if let Op::Annotate { priority, .. } = &commit.op {
        return Ok(Some(priority.to_string()));
    }
    let content = repo.content_of(id).await?;
    let calls = content.calls().map(|call| format!("{}({})", call.name, call.arguments));
    let parts: Vec<String> =
        Some(content.text()).into_iter().filter(|text| !text.is_empty()).chain(calls).collect();
    Ok(Some(parts.join("\n")))
}

/// Numbers the messages of a context from 1, by slot.
fn numbers(context: &Compiled) -> HashMap<CommitId, usize> {
    context.messages().enumerate().map(|(place, message)| (message.slot, place + 1)).collect()
}

fn tool_names(context: &Compiled) -> String {
    let names: Vec<&str> = context.tools().iter().map(|tool| tool.name.as_str()).collect();
    names.join(", ")
}
