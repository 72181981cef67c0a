//! Verbs that replay commits elsewhere: `cherry-pick`, `rebase`, `drop`, `insert`; and `reset`.
//!
//! Each plans a list of steps on a start commit, carries all of them out in one write, and moves
//! the branch with it. Commits that already follow the new head are kept and not replayed.

use std::collections::HashSet;

use serde::Deserialize;
use tract_compile::{Row, View};
use tract_core::{BlobId, Change, Commit, CommitId, Draft, Kind, Op, RefName, RefTarget};

use crate::plan::{
    Details, MergeConflict, Refusal, Replayed, Request, Resolution, check_hidden, replay,
};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::verbs::merge::{MergeOptions, Merged, first_reached, merge_decided, shared_commits};
use crate::verbs::revision::place_after;
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
            let rebased = match rebase_in(&mut txn, branch, rebase).await {
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
            if attempts.won(txn.apply(rebase.verb(), &WriteOptions::default()).await).await? {
                return Ok(rebased);
            }
        }
    }

    /// Plans a rebase and writes nothing.
    ///
    /// # Errors
    /// As [`rebase`](Self::rebase).
    pub async fn preview_rebase(&self, branch: &RefName, rebase: &Rebase) -> Result<Rebased> {
        rebase_in(&mut Txn::new(self)?, branch, rebase).await
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

/// Replays commits elsewhere, as part of this transaction.
///
/// # Errors
/// As [`Repo::rebase`].
pub async fn rebase_in(txn: &mut Txn<'_>, branch: &RefName, rebase: &Rebase) -> Result<Rebased> {
    let rebased = rebase_stored(txn, branch, rebase).await;
    txn.repo().or_collected(rebased, &rebase.named()).await
}

/// Replays commits that are expected to be stored.
async fn rebase_stored(txn: &mut Txn<'_>, branch: &RefName, rebase: &Rebase) -> Result<Rebased> {
    let before = txn.head(branch).await?;
    let Steps { start, steps } = Box::pin(plan_steps(txn, before, rebase)).await?;
    txn.move_ref(branch, start.map(RefTarget::Commit)).await?;
    let mut replayed = Replayed::default();
    let (mut made, mut left_out) = (Vec::new(), Vec::new());
    let mut refused = Vec::new();
    let mut inserted = None;
    let erased = txn.repo().erased_blobs().await?;
    for (place, step) in steps.iter().enumerate() {
        match step {
            RebaseStep::Pick(id) => {
                let merges = !matches!(rebase, Rebase::Pick { .. });
                match Box::pin(replay_commit(txn, branch, *id, merges, &erased, &mut replayed))
                    .await
                {
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
                let commit = txn.repo().require_commit(*id).await?;
                match &commit.op {
                    Op::Append { slot, .. } => replayed.drop_message(slot.unwrap_or(*id)),
                    Op::Compress { .. } => replayed.drop_message(*id),
                    _ => {}
                }
                replayed.drop_commit(*id);
                left_out.push(*id);
            }
            RebaseStep::Insert(draft) => {
                check_between_turns(txn, branch, steps.get(place..).unwrap_or_default()).await?;
                let request = Request::Append(draft.as_ref().clone());
                let commit = Box::pin(txn.add(branch, &request)).await?;
                made.push((None, commit.id()));
                inserted = Some(commit.id());
            }
        }
    }
    if !refused.is_empty() {
        return Err(Refusal::Replay(refused).into());
    }
    let head = txn.head(branch).await?.ok_or(Refusal::EmptyBranch)?;
    if matches!(rebase, Rebase::Pick { .. }) && before == Some(head) {
        return Err(Refusal::NothingToPick.into());
    }
    if let Some(target) = first_reached(txn, head, start, replayed.dropped_commits()).await? {
        return Err(Refusal::MergedLater { target }.into());
    }
    // Checked once at the end: a later step may replay the summary that a message belongs
    // under, or drop it.
    if made.iter().any(|(from, _)| from.is_some()) {
        let history = txn.fold(Some(head)).await?;
        txn.plan_with(Some(head), |records| check_hidden(&history, records)).await?;
        if let Rebase::Insert { after: RebaseTarget::Message { slot, .. }, .. } = rebase {
            check_directly_after(history.view(), replayed.slot(*slot), inserted)?;
        }
    }
    Ok(Rebased { before, head, made, left_out, steps })
}

/// Replays one commit on top of a branch; `None` if its effect is already there. With `merges`,
/// merge commits are merged again. A new commit cannot have a content that is `erased`.
async fn replay_commit(
    txn: &mut Txn<'_>,
    branch: &RefName,
    source: CommitId,
    merges: bool,
    erased: &HashSet<BlobId>,
    replayed: &mut Replayed,
) -> Result<Option<CommitId>> {
    let head = txn.head(branch).await?;
    let commit = txn.repo().require_commit(source).await?;
    // This keeps the ids of the commits before the first change. The commit may be reachable
    // only from the old head, which others can move and collect, so the batch requires it.
    if commit.parent() == head {
        txn.require(source);
        txn.move_ref(branch, Some(RefTarget::Commit(source))).await?;
        return Ok(Some(source));
    }
    if let Op::Merge { sources } = &commit.op
        && merges
    {
        let made = replay_merge(txn, branch, &commit, sources).await?;
        if let Some(made) = made {
            replayed.insert(&commit, made);
        }
        return Ok(made);
    }
    let history = txn.fold(head).await?;
    let planned =
        txn.plan_with(head, |records| replay(&history, records, source, replayed)).await?;
    let Some(planned) = planned else { return Ok(None) };
    if planned.record.content.is_some_and(|content| erased.contains(&content)) {
        return Err(Refusal::ReplaysErased { target: source }.into());
    }
    let made = txn.commit(branch, &history, planned).await?;
    replayed.insert(&commit, made.id());
    Ok(Some(made.id()))
}

/// Merges the sources of a merge commit again; `None` if the new history contains them.
/// Conflicts get the resolutions recorded in the merge commit.
async fn replay_merge(
    txn: &mut Txn<'_>,
    branch: &RefName,
    merge: &tract_core::Commit,
    sources: &[CommitId],
) -> Result<Option<CommitId>> {
    let noted = resolutions(merge);
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
            let of = |noted: &&NotedResolution| noted.is_of(conflict);
            match noted.iter().find(of)?.resolution.as_str() {
                "theirs" => Some(Resolution::Theirs),
                "both" => Some(Resolution::Both),
                // The new text was written by a separate edit commit, which is replayed.
                _ => Some(Resolution::Ours),
            }
        });
        match merge_decided(txn, branch, *source, &options).await? {
            Merged::Commit(commit) => made = Some(commit.id()),
            Merged::FastForward { head } => made = Some(head),
            Merged::NothingToMerge => {}
        }
    }
    Ok(made)
}

/// Checks that the following steps do not belong to a turn that has started here.
async fn check_between_turns(
    txn: &mut Txn<'_>,
    branch: &RefName,
    following: &[RebaseStep],
) -> Result<()> {
    let head = txn.head(branch).await?;
    let history = txn.fold(head).await?;
    let repo = txn.repo();
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
            && txn.require_commit(last.version).await?.kind == Some(Kind::Reasoning)
        {
            return Err(Refusal::InsideTurn { call: last.slot }.into());
        }
        first = false;
    }
    Ok(())
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

/// A start commit and the steps that follow it.
struct Steps {
    start: Option<CommitId>,
    steps: Vec<RebaseStep>,
}

/// A resolution in the metadata of a merge commit.
#[derive(Clone, Debug, Deserialize)]
struct NotedResolution {
    kind: String,
    slot: Option<CommitId>,
    resolution: String,
}

impl NotedResolution {
    fn is_of(&self, conflict: &MergeConflict) -> bool {
        self.kind == conflict.kind.as_str() && self.slot == conflict.slot
    }
}

/// Returns the resolutions that a merge commit records.
fn resolutions(merge: &Commit) -> Vec<NotedResolution> {
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default)]
        resolutions: Vec<NotedResolution>,
    }
    let metadata = merge.metadata.as_ref();
    let metadata = metadata.and_then(|json| serde_json::from_str::<Metadata>(json.as_str()).ok());
    metadata.map(|metadata| metadata.resolutions).unwrap_or_default()
}

async fn plan_steps(txn: &mut Txn<'_>, head: Option<CommitId>, rebase: &Rebase) -> Result<Steps> {
    let repo = txn.repo();
    match rebase {
        Rebase::Onto { onto, plan } => {
            repo.require_uncollected(&[*onto]).await?;
            let Some(range) = fork_range(txn, head, *onto, plan.is_some()).await? else {
                return Ok(Steps { start: head, steps: Vec::new() });
            };
            let ids: Vec<CommitId> = range.iter().map(Commit::id).collect();
            let steps = match plan {
                Some(plan) => {
                    check_plan(plan, &ids)?;
                    plan.clone()
                }
                None => ids.into_iter().map(RebaseStep::Pick).collect(),
            };
            Ok(Steps { start: Some(*onto), steps })
        }
        Rebase::Pick { targets, from } => {
            let mut picked = Vec::new();
            let mut seen = HashSet::new();
            for target in targets {
                let unit = match *target {
                    RebaseTarget::Commit(id) => turn_of_commit(repo, id, *from).await?,
                    RebaseTarget::Message { slot, head } => {
                        turn_of_message(repo, slot, head).await?
                    }
                };
                picked.extend(unit.into_iter().filter(|id| seen.insert(*id)));
            }
            if picked.is_empty() {
                return Err(Refusal::NoTargets.into());
            }
            let steps = picked.into_iter().map(RebaseStep::Pick).collect();
            Ok(Steps { start: head, steps })
        }
        Rebase::Drop { commits } => {
            if commits.is_empty() {
                return Err(Refusal::NoTargets.into());
            }
            let targets: HashSet<CommitId> = commits.iter().copied().collect();
            let range = back_to(repo, head, &targets, true).await?;
            let start = range.first().and_then(|commit| commit.parent());
            let gone = dropped(repo, &range, targets).await?;
            let steps = range.iter().map(Commit::id).map(|id| match gone.contains(&id) {
                true => RebaseStep::Drop(id),
                false => RebaseStep::Pick(id),
            });
            Ok(Steps { start, steps: steps.collect() })
        }
        Rebase::Insert { after, draft } => {
            let after = match *after {
                RebaseTarget::Commit(commit) => commit,
                RebaseTarget::Message { slot, head } => place_after(txn, head, slot).await?,
            };
            let range = back_to(repo, head, &HashSet::from([after]), false).await?;
            let picked = range.iter().skip(1).map(|commit| RebaseStep::Pick(commit.id()));
            let steps = [RebaseStep::Insert(draft.clone())].into_iter().chain(picked);
            Ok(Steps { start: Some(after), steps: steps.collect() })
        }
    }
}

/// Returns the commits of a branch that another head lacks, oldest first; `None` if the branch
/// contains that head, unless `inside` is set: then the commits after it are returned.
async fn fork_range(
    txn: &mut Txn<'_>,
    head: Option<CommitId>,
    onto: CommitId,
    inside: bool,
) -> Result<Option<Vec<Commit>>> {
    let Some(head) = head else { return Ok(Some(Vec::new())) };
    let shared = shared_commits(txn, head, onto).await?;
    if shared.contains_head && !inside {
        return Ok(None);
    }
    let mut range = Vec::new();
    let mut history = txn.repo().history(head).pages(PAGE, PAGE);
    while let Some(commit) = history.next_unless(|id| shared.commits.contains(&id)).await? {
        range.push(commit);
    }
    range.reverse();
    Ok(Some(range))
}

/// Number of commits read at once.
const PAGE: usize = 512;

/// Returns the commits of a branch from the oldest target on, oldest first. With `turns` the range
/// starts before the turns of the targets.
async fn back_to(
    repo: &Repo,
    head: Option<CommitId>,
    targets: &HashSet<CommitId>,
    turns: bool,
) -> Result<Vec<Commit>> {
    let mut left = targets.clone();
    let mut calls = HashSet::new();
    let mut range = Vec::new();
    let mut history = head.map(|head| repo.history(head).pages(PAGE, PAGE));
    while let Some(history) = &mut history
        && let Some(commit) = history.next().await?
    {
        let is_reasoning = commit.kind == Some(Kind::Reasoning);
        if left.is_empty() && calls.is_empty() && !(turns && is_reasoning) {
            break;
        }
        let is_target = left.remove(&commit.id());
        if let Op::Append { slot, answers, .. } = &commit.op
            && turns
        {
            calls.remove(&slot.unwrap_or(commit.id()));
            calls.extend(answers.filter(|_| is_target).map(|call| call.slot));
        }
        range.push(commit);
    }
    if let Some(target) = left.into_iter().min() {
        return Err(Refusal::NotInRange { target }.into());
    }
    range.reverse();
    Ok(range)
}

/// Returns the commits of a range that are dropped together with some targets: the other commits of
/// their turns, and changes of dropped messages only.
async fn dropped(
    repo: &Repo,
    range: &[Commit],
    mut gone: HashSet<CommitId>,
) -> Result<HashSet<CommitId>> {
    let slot_of = |commit: &Commit| match &commit.op {
        Op::Append { slot, .. } => Some(slot.unwrap_or(commit.id())),
        Op::Compress { .. } => Some(commit.id()),
        _ => None,
    };
    // Dropping a result also drops its call.
    let mut slots = HashSet::new();
    for commit in range.iter().filter(|commit| gone.contains(&commit.id())) {
        slots.extend(slot_of(commit));
        if let Op::Append { answers: Some(call), .. } = &commit.op {
            slots.insert(call.slot);
        }
    }
    // One pass in order is enough: a change comes after the message that it changes, a result after
    // its call, and a revert after its target. Only reasoning comes before the message that decides
    // about it.
    let mut reasoning: Vec<CommitId> = Vec::new();
    for commit in range {
        let id = commit.id();
        let slot = slot_of(commit);
        let goes = match &commit.op {
            Op::Append { answers: Some(call), .. } => slots.contains(&call.slot),
            Op::Append { .. } => slot.is_some_and(|slot| slots.contains(&slot)),
            Op::Edit { .. } | Op::Annotate { .. } | Op::Compress { .. } => {
                let changes = repo.changes(commit).await?;
                let mut touched =
                    changes.iter().filter(|change| !matches!(change, Change::Add { .. }));
                touched.all(|change| slots.contains(&change.slot().resolve(id)))
            }
            Op::Revert { targets, .. } => targets.iter().all(|target| gone.contains(target)),
            Op::Merge { .. } | Op::Tools | Op::Note | Op::Unknown { .. } => false,
        };
        if goes || gone.contains(&id) {
            gone.insert(id);
            slots.extend(slot);
            if commit.kind == Some(Kind::Assistant) && matches!(commit.op, Op::Append { .. }) {
                gone.extend(reasoning.iter().copied());
            }
        }
        match (&commit.op, &commit.kind) {
            (Op::Append { .. }, Some(Kind::Reasoning)) => reasoning.push(id),
            (Op::Append { .. }, _) => reasoning.clear(),
            _ => {}
        }
    }
    Ok(gone)
}

/// Returns the commits that are picked together with one of them: the reasoning, the message with
/// the calls, and their results.
async fn turn_of_commit(
    repo: &Repo,
    id: CommitId,
    from: Option<CommitId>,
) -> Result<Vec<CommitId>> {
    let commit = repo.require_commit(id).await?;
    let Op::Append { slot, answers, .. } = &commit.op else { return Ok(vec![id]) };
    let call = match answers {
        Some(call) => call.slot,
        None if commit.kind == Some(Kind::Assistant) => slot.unwrap_or(id),
        None => return Ok(vec![id]),
    };
    let mut heads: Vec<CommitId> = from.into_iter().collect();
    if heads.is_empty() {
        heads.push(id);
        if answers.is_some() || repo.content_of(id).await?.calls().next().is_some() {
            heads.extend(repo.branches().await?.into_iter().map(|branch| branch.head));
        }
    }
    let mut turn: Vec<Row> = Vec::new();
    for head in heads {
        let history = repo.fold(Some(head)).await?;
        let Some(row) = history.view().get(call) else { continue };
        let rows = rows_of_turn(repo, history.view(), row).await?;
        let results = |rows: &[Row]| rows.iter().filter(|row| row.answers.is_some()).count();
        // Branches may have answered different calls of the message. The one with the most results
        // is picked.
        if turn.is_empty() || results(&rows) > results(&turn) {
            turn = rows;
        }
        if results(&turn) >= repo.content_of(row.version).await?.calls().count() {
            break;
        }
    }
    let mut picked = Vec::with_capacity(turn.len());
    for row in turn {
        picked.push(added_by(repo, row.slot, row.version).await?);
    }
    if picked.is_empty() {
        picked.push(id);
    }
    Ok(picked)
}

/// Returns the commits that are picked with a message shown at a head: those of its turn, each with
/// the edits that are shown.
async fn turn_of_message(repo: &Repo, slot: CommitId, head: CommitId) -> Result<Vec<CommitId>> {
    let history = repo.fold(Some(head)).await?;
    let view = history.view();
    let Some(row) = view.get(slot) else {
        return Err(Refusal::NotVisible { target: slot, hidden_by: None }.into());
    };
    // A result brings its call, if that is shown.
    let call = row.answers.and_then(|call| view.get(call.slot)).unwrap_or(row);
    let kind = repo.require_commit(call.version).await?.kind.clone();
    let rows = match kind {
        Some(Kind::Assistant) => rows_of_turn(repo, view, call).await?,
        _ => vec![*row],
    };
    let mut picked = Vec::with_capacity(rows.len());
    for row in rows {
        let mut edits = Vec::new();
        let mut version = row.version;
        // An edit names the version that it replaced, back to the one that was added.
        while let Some(from) = replaced_by(repo, row.slot, version).await? {
            edits.push(version);
            version = from;
        }
        picked.push(added_by(repo, row.slot, version).await?);
        picked.extend(edits.into_iter().rev());
    }
    Ok(picked)
}

/// Returns the version of a message that an edit replaced; `None` if the commit does not edit it.
async fn replaced_by(repo: &Repo, slot: CommitId, edit: CommitId) -> Result<Option<CommitId>> {
    let commit = repo.require_commit(edit).await?;
    if !matches!(commit.op, Op::Edit { .. }) {
        return Ok(None);
    }
    let changes = repo.changes(&commit).await?;
    Ok(changes.iter().find_map(|change| match change {
        Change::Version { slot: named, from, .. } if named.resolve(edit) == slot => {
            Some(from.resolve(edit))
        }
        _ => None,
    }))
}

/// Returns the rows of the turn of a message with calls: the reasoning before it, the message, and
/// the results.
async fn rows_of_turn(repo: &Repo, view: &View, call: &Row) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for before in view.rows_before(call.row_key()) {
        if repo.require_commit(before.version).await?.kind != Some(Kind::Reasoning) {
            break;
        }
        rows.push(*before);
    }
    rows.reverse();
    rows.push(*call);
    let of_call = |row: &&Row| row.answers.is_some_and(|answered| answered.slot == call.slot);
    rows.extend(view.rows_after(call.row_key()).filter(of_call));
    Ok(rows)
}

/// Returns the commit that added a message.
async fn added_by(repo: &Repo, slot: CommitId, version: CommitId) -> Result<CommitId> {
    let commit = repo.require_commit(version).await?;
    Ok(match &commit.op {
        Op::Append { slot: Some(named), .. } if *named == slot => version,
        _ => slot,
    })
}
