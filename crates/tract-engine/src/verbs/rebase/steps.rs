//! Translates the verbs into steps: the commits to replay, and the start commit.

use std::collections::HashSet;

use serde::Deserialize;
use tract_compile::{Row, View};
use tract_core::{Change, Commit, CommitId, Kind, Op};

use super::{Rebase, RebaseStep, RebaseTarget, check_plan};
use crate::plan::{MergeConflict, Refusal};
use crate::repo::Repo;
use crate::repo::error::Result;
use crate::write::txn::Txn;

/// A start commit and the steps that follow it.
pub(super) struct Steps {
    pub(super) start: Option<CommitId>,
    pub(super) steps: Vec<RebaseStep>,
}

/// A resolution in the metadata of a merge commit.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct NotedResolution {
    kind: String,
    slot: Option<CommitId>,
    pub(super) resolution: String,
}

impl NotedResolution {
    pub(super) fn is_of(&self, conflict: &MergeConflict) -> bool {
        self.kind == conflict.kind.as_str() && self.slot == conflict.slot
    }
}

/// Returns the resolutions that a merge commit records.
pub(super) fn resolutions(merge: &Commit) -> Vec<NotedResolution> {
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default)]
        resolutions: Vec<NotedResolution>,
    }
    let metadata = merge.metadata.as_ref();
    let metadata = metadata.and_then(|json| serde_json::from_str::<Metadata>(json.as_str()).ok());
    metadata.map(|metadata| metadata.resolutions).unwrap_or_default()
}

impl Txn<'_> {
    pub(super) async fn steps(&mut self, head: Option<CommitId>, rebase: &Rebase) -> Result<Steps> {
        let repo = self.repo();
        match rebase {
            Rebase::Onto { onto, plan } => {
                repo.require_uncollected(&[*onto]).await?;
                let Some(range) = self.fork_range(head, *onto, plan.is_some()).await? else {
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
                    RebaseTarget::Message { slot, head } => self.place_after(head, slot).await?,
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
        &mut self,
        head: Option<CommitId>,
        onto: CommitId,
        inside: bool,
    ) -> Result<Option<Vec<Commit>>> {
        let Some(head) = head else { return Ok(Some(Vec::new())) };
        let shared = self.shared(head, onto).await?;
        if shared.contains_head && !inside {
            return Ok(None);
        }
        let mut range = Vec::new();
        let mut history = self.repo().history(head).pages(PAGE, PAGE);
        while let Some(commit) = history.next_unless(|id| shared.commits.contains(&id)).await? {
            range.push(commit);
        }
        range.reverse();
        Ok(Some(range))
    }
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
