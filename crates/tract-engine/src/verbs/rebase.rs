//! Verbs that replay commits elsewhere: `cherry-pick`, `rebase`, `drop`, `insert`; and `reset`.
//!
//! Each plans a list of steps on a start commit, carries all of them out in one write, and moves
//! the branch with it. Commits that already follow the new head are kept and not replayed.

mod steps;

use std::collections::HashSet;

use tract_compile::View;
use tract_core::{BlobId, CommitId, Draft, Kind, Op, RefName, RefTarget};

use self::steps::Steps;
use crate::plan::{Details, Refusal, Replayed, Request, Resolution, check_hidden, replay};
use crate::repo::Repo;
use crate::repo::error::gone::is_gone;
use crate::repo::error::{Error, Result};
use crate::verbs::merge::{MergeOptions, Merged};
use crate::write::races::Attempts;
use crate::write::txn::{Txn, WriteOptions};

/// One step of a rebase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RebaseStep {
    /// Replays a commit.
    Pick(CommitId),
    /// Leaves a commit out.
    Drop(CommitId),
    /// Adds a message.
    Insert(Box<Draft>),
}

/// The target of a cherry-pick, or the place of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebaseTarget {
    /// A commit: a message as it was added, or one change of a message.
    Commit(CommitId),
    /// A message with the edits that are shown at a head.
    Message {
        /// The message's slot.
        slot: CommitId,
        /// The commit whose context shows it.
        head: CommitId,
    },
}

impl RebaseTarget {
    /// Returns the commit that the caller named. A slot is a name: its commit may not be stored.
    fn named(&self) -> CommitId {
        match self {
            Self::Commit(commit) => *commit,
            Self::Message { head, .. } => *head,
        }
    }
}

impl From<CommitId> for RebaseTarget {
    fn from(commit: CommitId) -> Self {
        Self::Commit(commit)
    }
}

/// A request to reapply commits and move a branch to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rebase {
    /// Replays the commits of the branch that another head lacks on top of that head, or follows a
    /// plan.
    Onto {
        /// The head.
        onto: CommitId,
        /// The steps for these commits; default: pick all in order.
        plan: Option<Vec<RebaseStep>>,
    },
    /// Replays commits of other branches on this one. A message with calls brings its results and
    /// its reasoning; a result brings its call.
    Pick {
        /// The messages or commits, in the order to replay them.
        targets: Vec<RebaseTarget>,
        /// The head whose history is searched for results of picked calls; default: all branches.
        from: Option<CommitId>,
    },
    /// Drops commits. A message with calls is dropped with its results and reasoning, and every
    /// message with its changes. If a summary is dropped, the messages that it hides are shown.
    Drop {
        /// The commits.
        commits: Vec<CommitId>,
    },
    /// Inserts a message after a commit of the branch, or directly after a message that it shows.
    Insert {
        /// The commit or message.
        after: RebaseTarget,
        /// The message.
        draft: Box<Draft>,
    },
}

impl Rebase {
    /// Returns the verb name used in the ref log.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Onto { .. } => "rebase",
            Self::Pick { .. } => "cherry-pick",
            Self::Drop { .. } => "drop",
            Self::Insert { .. } => "insert",
        }
    }

    /// Returns the commits that the caller named. Garbage collection may have deleted them since.
    fn named(&self) -> Vec<CommitId> {
        match self {
            Self::Onto { onto, .. } => vec![*onto],
            Self::Pick { targets, from } => {
                targets.iter().map(RebaseTarget::named).chain(*from).collect()
            }
            Self::Drop { commits } => commits.clone(),
            Self::Insert { after, .. } => vec![after.named()],
        }
    }
}

/// The outcome of a rebase, or its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebased {
    /// The previous head of the branch.
    pub before: Option<CommitId>,
    /// The new head of the branch.
    pub head: CommitId,
    /// The new commits, each with the one it replays; `None` for inserted messages.
    pub made: Vec<(Option<CommitId>, CommitId)>,
    /// Commits without a successor: they were dropped, or the new history already has their effect.
    pub left_out: Vec<CommitId>,
    /// The steps that were carried out.
    pub steps: Vec<RebaseStep>,
}

impl Rebased {
    /// Returns whether the branch only moved forward to existing commits.
    pub fn is_fast_forward(&self) -> bool {
        self.made.is_empty() && self.before != Some(self.head)
    }
}

impl Repo {
    /// Replays commits elsewhere, all or none, and moves the branch there: one operation. Other
    /// branches and tags keep the old commits.
    ///
    /// # Behavior
    /// - A commit whose parent is already the new head is kept. So a rebase without an effect
    ///   creates no commits.
    /// - Messages keep their slots: a message that was picked and then merged is shown once.
    /// - If another writer moves the branch, the steps are planned again on its new head.
    /// - Handlers are asked about inserted messages, not about replayed commits.
    ///
    /// # Errors
    /// [`Error::Refused`] with [`Refusal::Replay`] with each commit that cannot be replayed and the
    /// reason, with [`Refusal::Hidden`] if a replayed message would be shown next to a summary of
    /// it, with [`Refusal::MergedLater`] if a replayed merge brings a dropped commit back, and with
    /// other refusals for bad plans. [`Error::Collected`] when garbage collection
    /// deleted a commit that was named. Nothing is then written.
    pub async fn rebase(&self, branch: &RefName, rebase: &Rebase) -> Result<Rebased> {
        let mut attempts = Attempts::new(self);
        loop {
            let mut txn = Txn::new(self)?;
            let rebased = match txn.rebase(branch, rebase).await {
                Ok(rebased) => rebased,
                // A branch may have moved since it was read, and its commits may be collected.
                Err(error) => {
                    attempts.again(error).await?;
                    continue;
                }
            };
            if rebased.before == Some(rebased.head) {
                return Ok(rebased);
            }
            if attempts.won(txn.apply(rebase.verb(), &WriteOptions::default()).await?).await? {
                return Ok(rebased);
            }
        }
    }

    /// Plans a rebase and writes nothing.
    ///
    /// # Errors
    /// As [`rebase`](Self::rebase).
    pub async fn preview_rebase(&self, branch: &RefName, rebase: &Rebase) -> Result<Rebased> {
        Txn::new(self)?.rebase(branch, rebase).await
    }

    /// Moves a branch to any commit. Returns its previous head. If the commit shows a message that
    /// was erased since, the branch gets the edit of the erasure on top.
    ///
    /// # Errors
    /// [`Error::Collected`] when the commit is not stored; [`Error::KeptMoving`] when others move
    /// the branch during every try.
    pub async fn reset(&self, branch: &RefName, to: CommitId) -> Result<Option<CommitId>> {
        self.require_uncollected(&[to]).await?;
        let mut races = self.races();
        loop {
            let mut txn = Txn::new(self)?;
            let before = txn.head(branch).await?;
            if before == Some(to) {
                return Ok(before);
            }
            txn.move_ref(branch, Some(RefTarget::Commit(to))).await?;
            let applied = txn.apply("reset", &WriteOptions::default()).await;
            if races.won(self.or_collected(applied, &[to]).await?).await? {
                return Ok(before);
            }
        }
    }
}

impl Txn<'_> {
    /// Replays commits elsewhere, as part of this transaction.
    ///
    /// # Errors
    /// As [`Repo::rebase`].
    pub async fn rebase(&mut self, branch: &RefName, rebase: &Rebase) -> Result<Rebased> {
        let rebased = self.rebase_stored(branch, rebase).await;
        if rebased.as_ref().is_err_and(is_gone) {
            self.repo().require_uncollected(&rebase.named()).await?;
        }
        rebased
    }

    /// Replays commits that are expected to be stored.
    async fn rebase_stored(&mut self, branch: &RefName, rebase: &Rebase) -> Result<Rebased> {
        let before = self.head(branch).await?;
        let Steps { start, steps } = Box::pin(self.steps(before, rebase)).await?;
        self.move_ref(branch, start.map(RefTarget::Commit)).await?;
        let mut replayed = Replayed::default();
        let (mut made, mut left_out) = (Vec::new(), Vec::new());
        let mut refused = Vec::new();
        let mut inserted = None;
        let erased = self.repo().erased_blobs().await?;
        for (place, step) in steps.iter().enumerate() {
            match step {
                RebaseStep::Pick(id) => {
                    let merges = !matches!(rebase, Rebase::Pick { .. });
                    match Box::pin(self.replay(branch, *id, merges, &erased, &mut replayed)).await {
                        Ok(Some(new)) if new != *id => made.push((Some(*id), new)),
                        Ok(Some(_)) => {}
                        Ok(None) => left_out.push(*id),
                        // Continue, so that all refusals are reported at once. Some of the later
                        // ones may only follow from this one.
                        Err(Error::Refused(refusal)) => refused.push((*id, refusal)),
                        Err(error) => return Err(error),
                    }
                }
                RebaseStep::Drop(id) => {
                    let commit = self.repo().require_commit(*id).await?;
                    match &commit.op {
                        Op::Append { slot, .. } => replayed.drop_message(slot.unwrap_or(*id)),
                        Op::Compress { .. } => replayed.drop_message(*id),
                        _ => {}
                    }
                    replayed.drop_commit(*id);
                    left_out.push(*id);
                }
                RebaseStep::Insert(draft) => {
                    self.check_between_turns(branch, steps.get(place..).unwrap_or_default())
                        .await?;
                    let request = Request::Append(draft.as_ref().clone());
                    let commit = Box::pin(self.add(branch, &request)).await?;
                    made.push((None, commit.id()));
                    inserted = Some(commit.id());
                }
            }
        }
        if !refused.is_empty() {
            return Err(Refusal::Replay(refused).into());
        }
        let head = self.head(branch).await?.ok_or(Refusal::EmptyBranch)?;
        if matches!(rebase, Rebase::Pick { .. }) && before == Some(head) {
            return Err(Refusal::NothingToPick.into());
        }
        if let Some(target) = self.first_reached(head, start, replayed.dropped_commits()).await? {
            return Err(Refusal::MergedLater { target }.into());
        }
        // Checked once at the end: a later step may replay the summary that a message belongs
        // under, or drop it.
        if made.iter().any(|(from, _)| from.is_some()) {
            let history = self.fold(Some(head)).await?;
            self.plan_with(Some(head), |records| check_hidden(&history, records)).await?;
            if let Rebase::Insert { after: RebaseTarget::Message { slot, .. }, .. } = rebase {
                check_directly_after(history.view(), replayed.slot(*slot), inserted)?;
            }
        }
        Ok(Rebased { before, head, made, left_out, steps })
    }

    /// Replays one commit on top of a branch; `None` if its effect is already there. With `merges`,
    /// merge commits are merged again. A new commit cannot have a content that is `erased`.
    async fn replay(
        &mut self,
        branch: &RefName,
        source: CommitId,
        merges: bool,
        erased: &HashSet<BlobId>,
        replayed: &mut Replayed,
    ) -> Result<Option<CommitId>> {
        let head = self.head(branch).await?;
        let commit = self.repo().require_commit(source).await?;
        // This keeps the ids of the commits before the first change. The commit may be reachable
        // only from the old head, which others can move and collect, so the batch requires it.
        if commit.parent() == head {
            self.require(source);
            self.move_ref(branch, Some(RefTarget::Commit(source))).await?;
            return Ok(Some(source));
        }
        if let Op::Merge { sources } = &commit.op
            && merges
        {
            let made = self.replay_merge(branch, &commit, sources).await?;
            if let Some(made) = made {
                replayed.insert(&commit, made);
            }
            return Ok(made);
        }
        let history = self.fold(head).await?;
        let planned =
            self.plan_with(head, |records| replay(&history, records, source, replayed)).await?;
        let Some(planned) = planned else { return Ok(None) };
        if planned.record.content.is_some_and(|content| erased.contains(&content)) {
            return Err(Refusal::ReplaysErased { target: source }.into());
        }
        let made = self.commit(branch, &history, planned).await?;
        replayed.insert(&commit, made.id());
        Ok(Some(made.id()))
    }

    /// Merges the sources of a merge commit again; `None` if the new history contains them.
    /// Conflicts get the resolutions recorded in the merge commit.
    async fn replay_merge(
        &mut self,
        branch: &RefName,
        merge: &tract_core::Commit,
        sources: &[CommitId],
    ) -> Result<Option<CommitId>> {
        let noted = steps::resolutions(merge);
        let details = Details::of_replayed(merge);
        let mut made = None;
        for source in sources {
            let noted = noted.clone();
            let options = MergeOptions {
                no_fast_forward: true,
                allow_unrelated: true,
                details: details.clone(),
                ..MergeOptions::default()
            }
            .resolve(move |conflict| {
                let of = |noted: &&steps::NotedResolution| noted.is_of(conflict);
                match noted.iter().find(of)?.resolution.as_str() {
                    "theirs" => Some(Resolution::Theirs),
                    "both" => Some(Resolution::Both),
                    // The new text was written by a separate edit commit, which is replayed.
                    _ => Some(Resolution::Ours),
                }
            });
            match self.merge_decided(branch, *source, &options).await? {
                Merged::Commit(commit) => made = Some(commit.id()),
                Merged::FastForward { head } => made = Some(head),
                Merged::NothingToMerge => {}
            }
        }
        Ok(made)
    }

    /// Checks that the following steps do not belong to a turn that has started here.
    async fn check_between_turns(
        &mut self,
        branch: &RefName,
        following: &[RebaseStep],
    ) -> Result<()> {
        let head = self.head(branch).await?;
        let history = self.fold(head).await?;
        let repo = self.repo();
        let mut first = true;
        for id in following.iter().filter_map(pick_of) {
            let commit = repo.require_commit(id).await?;
            let Op::Append { answers, .. } = &commit.op else { continue };
            if let Some(call) = answers.filter(|call| history.view().contains(call.slot)) {
                return Err(Refusal::InsideTurn { call: call.slot }.into());
            }
            if first
                && commit.kind == Some(Kind::Assistant)
                && let Some(last) = history.view().rows().next_back()
                && self.require_commit(last.version).await?.kind == Some(Kind::Reasoning)
            {
                return Err(Refusal::InsideTurn { call: last.slot }.into());
            }
            first = false;
        }
        Ok(())
    }
}

/// Checks that the row before an inserted message is the one that it was to follow. One merge may
/// have added that message and the next.
fn check_directly_after(
    view: &View,
    after: CommitId,
    inserted: Option<CommitId>,
) -> Result<(), Refusal> {
    let row = inserted.and_then(|slot| view.get(slot));
    let before = row.and_then(|row| view.rows_before(row.row_key()).next());
    match before {
        Some(row) if row.slot == after => Ok(()),
        _ => Err(Refusal::InsideMerge { target: after }),
    }
}

fn pick_of(step: &RebaseStep) -> Option<CommitId> {
    match step {
        RebaseStep::Pick(id) => Some(*id),
        RebaseStep::Drop(_) | RebaseStep::Insert(_) => None,
    }
}

/// Checks that a plan names every commit of the range exactly once.
fn check_plan(plan: &[RebaseStep], range: &[CommitId]) -> Result<()> {
    let known: HashSet<CommitId> = range.iter().copied().collect();
    let mut named = HashSet::new();
    for step in plan {
        let (RebaseStep::Pick(id) | RebaseStep::Drop(id)) = step else { continue };
        if !known.contains(id) {
            return Err(Refusal::NotInRange { target: *id }.into());
        }
        if !named.insert(*id) {
            return Err(Refusal::IncompletePlan { target: *id }.into());
        }
    }
    match range.iter().find(|id| !named.contains(id)) {
        Some(target) => Err(Refusal::IncompletePlan { target: *target }.into()),
        None => Ok(()),
    }
}
