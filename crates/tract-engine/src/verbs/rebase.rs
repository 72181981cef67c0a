//! The verbs that repeat commits elsewhere: `cherry-pick`, `rebase`, `drop`, `insert`; and `reset`.
//!
//! Each plans a list of steps on a start commit, carries all of them out in one write, and moves
//! the branch with it. Commits that already follow the new head stay the commits that they are.

mod steps;

use std::collections::HashSet;

use tract_core::{CommitId, Draft, Kind, Op, RefName, RefTarget};

use self::steps::Steps;
use crate::plan::{Details, Refusal, Replayed, Request, Resolution, check_hidden, replay};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::verbs::merge::{MergeOptions, Merged};
use crate::write::races::Attempts;
use crate::write::txn::{Txn, WriteOptions};

/// One step of a rebase.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RebaseStep {
    /// Repeats a commit.
    Pick(CommitId),
    /// Leaves a commit out.
    Drop(CommitId),
    /// Adds a message.
    Insert(Box<Draft>),
}

/// What a cherry-pick copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PickTarget {
    /// A commit: a message as it was added, or one change of a message.
    Commit(CommitId),
    /// A message with the edits that show at a head.
    Message {
        /// The message's lasting name.
        slot: CommitId,
        /// The commit whose context shows it.
        head: CommitId,
    },
}

impl From<CommitId> for PickTarget {
    fn from(commit: CommitId) -> Self {
        Self::Commit(commit)
    }
}

/// A request to reapply commits and move a branch to them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rebase {
    /// Repeats the commits of the branch that another head has not on top of that head, or as a
    /// plan says.
    Onto {
        /// The head.
        onto: CommitId,
        /// What to do with the commits; all are picked in order when absent.
        plan: Option<Vec<RebaseStep>>,
    },
    /// Repeats commits of other branches here. A message with calls brings its results and its
    /// reasoning, a result its call.
    Pick {
        /// The messages or commits, in the order in which they are wanted.
        targets: Vec<PickTarget>,
        /// The head on whose history results of picked calls are looked for; all branches when
        /// absent.
        from: Option<CommitId>,
    },
    /// Leaves commits out: a message with calls goes with its results and its reasoning, and what
    /// changed a message goes with it.
    Drop {
        /// The commits.
        commits: Vec<CommitId>,
    },
    /// Adds a message behind a commit of the branch.
    Insert {
        /// The commit.
        after: CommitId,
        /// The message.
        draft: Box<Draft>,
    },
}

impl Rebase {
    /// Returns the verb, as the ref log has it.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Onto { .. } => "rebase",
            Self::Pick { .. } => "cherry-pick",
            Self::Drop { .. } => "drop",
            Self::Insert { .. } => "insert",
        }
    }
}

/// The outcome of a rebase, or its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rebased {
    /// The head of the branch before.
    pub before: Option<CommitId>,
    /// The head of the branch after.
    pub head: CommitId,
    /// The commits that were made, each with the one that it repeats; inserted messages repeat
    /// none.
    pub made: Vec<(Option<CommitId>, CommitId)>,
    /// Commits without a successor: they were left out, or the new history has what they say.
    pub left_out: Vec<CommitId>,
    /// The steps, as they were carried out.
    pub steps: Vec<RebaseStep>,
}

impl Rebased {
    /// Whether the branch only moved forward to commits that existed.
    pub fn is_fast_forward(&self) -> bool {
        self.made.is_empty() && self.before != Some(self.head)
    }
}

impl Repo {
    /// Repeats commits elsewhere, all or none, and moves the branch there: one operation. Other
    /// branches and tags keep the old commits.
    ///
    /// # Behavior
    /// - A commit whose parent is the new head already stays as it is. So a rebase that changes
    ///   nothing makes no commit.
    /// - Messages keep their slots: a message that was picked and then merged is shown once.
    /// - Where the branch moves meanwhile, the steps are planned again on its new head.
    /// - Handlers are asked about inserted messages, not about repeated commits.
    ///
    /// # Errors
    /// [`Error::Refused`] with [`Refusal::Replay`] naming each commit that cannot be repeated and
    /// why, with [`Refusal::Hidden`] where a repeated message would be shown next to a summary of
    /// it, and with other refusals for bad plans; nothing is written then.
    pub async fn rebase(&self, branch: &RefName, rebase: &Rebase) -> Result<Rebased> {
        let (mut races, mut attempts) = (self.races(), Attempts::new(self));
        loop {
            let mut txn = Txn::new(self)?;
            let rebased = match txn.rebase(branch, rebase).await {
                Ok(rebased) => rebased,
                // A branch that was read may be moved since, and its commits collected.
                Err(error) => {
                    attempts.again(error).await?;
                    continue;
                }
            };
            if rebased.before == Some(rebased.head) {
                return Ok(rebased);
            }
            if races.won(txn.apply(rebase.verb(), &WriteOptions::default()).await?).await? {
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

    /// Moves a branch to any commit. Returns where it was. Where the commit shows a message that was
    /// erased since, the branch gets the edit of the erasure on top.
    ///
    /// # Errors
    /// [`Error::Missing`] when there is no such commit; [`Error::KeptMoving`] when others move the
    /// branch each time.
    pub async fn reset(&self, branch: &RefName, to: CommitId) -> Result<Option<CommitId>> {
        self.require_commit(to).await?;
        let mut races = self.races();
        loop {
            let mut txn = Txn::new(self)?;
            let before = txn.head(branch).await?;
            if before == Some(to) {
                return Ok(before);
            }
            txn.move_ref(branch, Some(RefTarget::Commit(to))).await?;
            if races.won(txn.apply("reset", &WriteOptions::default()).await?).await? {
                return Ok(before);
            }
        }
    }
}

impl Txn<'_> {
    /// Repeats commits elsewhere, as a part of this write.
    ///
    /// # Errors
    /// As [`Repo::rebase`].
    pub async fn rebase(&mut self, branch: &RefName, rebase: &Rebase) -> Result<Rebased> {
        let before = self.head(branch).await?;
        let Steps { start, steps } = Box::pin(self.steps(before, rebase)).await?;
        self.move_ref(branch, start.map(RefTarget::Commit)).await?;
        let mut replayed = Replayed::default();
        let (mut made, mut left_out) = (Vec::new(), Vec::new());
        let mut refused = Vec::new();
        for (place, step) in steps.iter().enumerate() {
            match step {
                RebaseStep::Pick(id) => {
                    let merges = !matches!(rebase, Rebase::Pick { .. });
                    match Box::pin(self.replay(branch, *id, merges, &mut replayed)).await {
                        Ok(Some(new)) if new != *id => made.push((Some(*id), new)),
                        Ok(Some(_)) => {}
                        Ok(None) => left_out.push(*id),
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
        if made.iter().any(|(from, _)| from.is_some()) {
            let line = self.line(Some(head)).await?;
            self.plan_with(Some(head), |records| check_hidden(&line, records)).await?;
        }
        Ok(Rebased { before, head, made, left_out, steps })
    }

    /// Repeats one commit on top of a branch; `None` where its effect is there already. With
    /// `merges`, a merge is merged again.
    async fn replay(
        &mut self,
        branch: &RefName,
        source: CommitId,
        merges: bool,
        replayed: &mut Replayed,
    ) -> Result<Option<CommitId>> {
        let head = self.head(branch).await?;
        let commit = self.repo().require_commit(source).await?;
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
        let line = self.line(head).await?;
        let planned =
            self.plan_with(head, |records| replay(&line, records, source, replayed)).await?;
        let Some(planned) = planned else { return Ok(None) };
        let made = self.commit(branch, &line, planned).await?;
        replayed.insert(&commit, made.id());
        Ok(Some(made.id()))
    }

    /// Merges again what a merge brought in; `None` where the new history has it. Conflicts are
    /// resolved as the merge says that they were.
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
            let options = MergeOptions::new()
                .no_fast_forward()
                .allow_unrelated()
                .details(details.clone())
                .resolve(move |conflict| {
                    let of = |noted: &&steps::NotedResolution| noted.is_of(conflict);
                    match noted.iter().find(of)?.resolution.as_str() {
                        "theirs" => Some(Resolution::Theirs),
                        "both" => Some(Resolution::Both),
                        // The edit that made the text is a commit of its own.
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

    /// Checks that what follows does not belong to a turn that has begun here.
    async fn check_between_turns(
        &mut self,
        branch: &RefName,
        following: &[RebaseStep],
    ) -> Result<()> {
        let head = self.head(branch).await?;
        let line = self.line(head).await?;
        let repo = self.repo();
        let mut first = true;
        for id in following.iter().filter_map(pick_of) {
            let commit = repo.require_commit(id).await?;
            let Op::Append { answers, .. } = &commit.op else { continue };
            if let Some(call) = answers.filter(|call| line.view().contains(call.slot)) {
                return Err(Refusal::InsideTurn { call: call.slot }.into());
            }
            if first
                && commit.kind == Some(Kind::Assistant)
                && let Some(last) = line.view().rows().next_back()
                && self.require_commit(last.version).await?.kind == Some(Kind::Reasoning)
            {
                return Err(Refusal::InsideTurn { call: last.slot }.into());
            }
            first = false;
        }
        Ok(())
    }
}

fn pick_of(step: &RebaseStep) -> Option<CommitId> {
    match step {
        RebaseStep::Pick(id) => Some(*id),
        RebaseStep::Drop(_) | RebaseStep::Insert(_) => None,
    }
}

/// Whether a list names every commit, and none twice.
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
