//! Plans to replay commits on another history, for picks and rebases.

use std::collections::{HashMap, HashSet};

use tract_compile::Row;
use tract_core::{
    CallRef, Change, Commit, CommitId, CommitRef, JsonText, Op, Priority, Role, ToolsetId,
};

use super::revert::revert;
use super::work::{SummaryCover, WorkingView, set_mark, set_version, shown, summary_changes};
use super::{Details, History, OpenCall, Plan, PlannedCommit, Records, Refusal, Stop};

/// The commits replayed so far, with their successors.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// Successors of commits, by the commits that they replay.
    commits: HashMap<CommitId, CommitId>,
    /// New slots of messages: a replayed summary is named after its new commit.
    slots: HashMap<CommitId, CommitId>,
    /// Messages that were left out.
    dropped: HashSet<CommitId>,
    /// Commits that were left out.
    dropped_commits: HashSet<CommitId>,
}

impl Replayed {
    /// Records the successor of a commit.
    pub fn insert(&mut self, from: &Commit, to: CommitId) {
        self.commits.insert(from.id(), to);
        if matches!(from.op, Op::Compress { .. }) {
            self.slots.insert(from.id(), to);
        }
    }

    /// Records a message that is left out on purpose.
    pub fn drop_message(&mut self, slot: CommitId) {
        self.dropped.insert(slot);
    }

    /// Records a commit that is left out on purpose.
    pub fn drop_commit(&mut self, commit: CommitId) {
        self.dropped_commits.insert(commit);
    }

    /// Returns the commits that were left out on purpose.
    pub fn dropped_commits(&self) -> &HashSet<CommitId> {
        &self.dropped_commits
    }

    fn commit(&self, id: CommitId) -> CommitId {
        self.commits.get(&id).copied().unwrap_or(id)
    }

    /// Returns the new slot of a message.
    pub fn slot(&self, slot: CommitId) -> CommitId {
        self.slots.get(&slot).copied().unwrap_or(slot)
    }
}

/// Plans to replay a commit on another history; `None` if its effect is already there.
///
/// A message keeps its slot, so it is shown once after a merge. An edit requires the same message
/// with the version it replaced; a mark requires the priority it replaced; a summary requires all
/// messages it hides, with the same content. Model output is replayed in the neutral form: a
/// provider's signature covers the messages before it.
///
/// # Errors
/// [`Refusal::NotVisible`] and [`Refusal::Superseded`] when the history lacks what the commit
/// changed; [`Refusal::NoOpenCall`] and [`Refusal::AlreadyAnswered`] for a result without its call;
/// [`Refusal::CannotReplay`] for merges and unknown operations.
pub fn replay(
    history: &History,
    records: &Records,
    source: CommitId,
    replayed: &Replayed,
) -> Plan<Option<PlannedCommit>> {
    let commit = records.commit(source)?;
    records.ensure(commit.parent())?;
    let replaying = Replaying { history, records, commit, replayed };
    let planned = match &commit.op {
        Op::Append { slot, answers, .. } => replaying.append(*slot, *answers)?,
        Op::Edit { .. } => replaying.edit()?,
        Op::Annotate { priority, retention, .. } => {
            replaying.annotate(&(*priority, retention.clone()))?
        }
        Op::Compress { .. } => replaying.compress()?,
        Op::Revert { targets, .. } => {
            let kept = targets.iter().filter(|target| !replayed.dropped_commits.contains(*target));
            let targets: Vec<CommitId> = kept.map(|target| replayed.commit(*target)).collect();
            match revert(history, records, &targets, false, &replaying.details()) {
                Ok(planned) => Some(planned),
                // There is nothing to revert here.
                Err(Stop::Refused(Refusal::NothingToRevert { .. })) => None,
                Err(Stop::Refused(Refusal::NoTargets)) if targets.is_empty() => None,
                Err(stop) => return Err(stop),
            }
        }
        Op::Tools => {
            let mut planned = PlannedCommit::on(history, Op::Tools, &replaying.details());
            planned.set_tools(commit.toolset, None);
            Some(planned)
        }
        Op::Note => Some(replaying.says(Op::Note)),
        Op::Merge { .. } | Op::Unknown { .. } => {
            let op = commit.op.name().to_owned();
            return Err(Refusal::CannotReplay { target: source, op }.into());
        }
    };
    Ok(planned.map(|mut planned| {
        planned.requires.push(source);
        planned
    }))
}

/// Checks that no message of a history is shown next to a summary of it. A replayed message may
/// have been summarized there.
///
/// # Errors
/// [`Refusal::Hidden`] with the message and the summary.
pub(crate) fn check_hidden(history: &History, records: &Records) -> Plan<()> {
    let view = history.view();
    SummaryCover::of(records, view.rows().copied())?.check(|slot| view.contains(slot))?;
    Ok(())
}

struct Replaying<'a> {
    history: &'a History,
    records: &'a Records,
    commit: &'a Commit,
    replayed: &'a Replayed,
}

impl Replaying<'_> {
    fn details(&self) -> Details {
        Details::of_replayed(self.commit)
    }

    /// Plans an operation with the content of the replayed commit.
    fn says(&self, op: Op) -> PlannedCommit {
        let mut planned = PlannedCommit::on(self.history, op, &self.details());
        if let Some(own) = self.own_tools() {
            let active = if self.history.tools_set() { self.history.active() } else { None };
            planned.set_tools(Some(own), active);
        }
        let record = &mut planned.record;
        record.content = self.commit.content;
        record.kind = self.commit.kind.clone();
        record.role = self.commit.role.clone();
        record.joins = self.commit.joins.map(|slot| self.replayed.slot(slot));
        record.keeps = self.commit.keeps.clone();
        // A provider signs its reasoning together with the messages before it, and those are others
        // here. In the neutral form no signature is needed.
        if self.commit.effective_role() != Some(Role::Assistant) {
            record.form = self.commit.form.clone();
            record.verbatim = self.commit.verbatim;
        }
        planned
    }

    /// Returns the tools that only this commit was given.
    fn own_tools(&self) -> Option<ToolsetId> {
        let parent = self.commit.parent().and_then(|id| self.records.commit(id).ok());
        let active = parent.and_then(|parent| parent.active_toolset());
        self.commit.toolset.filter(|toolset| Some(*toolset) != active)
    }

    fn append(
        &self,
        slot: Option<CommitId>,
        answers: Option<CallRef>,
    ) -> Plan<Option<PlannedCommit>> {
        let slot = slot.unwrap_or(self.commit.id());
        if self.history.view().contains(slot) {
            return Ok(None);
        }
        if let Some(call) = answers {
            let content = self.records.content(self.commit.id())?;
            let call_id = match content {
                tract_core::Content::ToolResult(answer) => answer.call_id.clone(),
                _ => String::new(),
            };
            let view = self.history.view();
            let Some(row) = view.get(call.slot) else {
                return Err(Refusal::NoOpenCall { call_id, open: Vec::<OpenCall>::new() }.into());
            };
            // An answer always comes after its call, so the rows before the call need not be
            // searched.
            let other = view.rows_after(row.row_key()).find(|row| row.answers == Some(call));
            if let Some(other) = other {
                return Err(Refusal::AlreadyAnswered { call_id, by: other.slot }.into());
            }
        }
        let mut op = self.commit.op.clone();
        if let Op::Append { slot: name, .. } = &mut op {
            *name = Some(slot);
        }
        Ok(Some(self.says(op)))
    }

    /// Returns the row of a message in this history.
    fn row(&self, slot: CommitId) -> Plan<Row> {
        shown(self.history, self.records, slot, slot)
    }

    fn superseded(&self, by: CommitId) -> Stop {
        Refusal::ChangedHere { target: self.commit.id(), by }.into()
    }

    fn edit(&self) -> Plan<Option<PlannedCommit>> {
        let mut planned = None;
        for change in self.records.changes(self.commit)? {
            let Change::Version { slot, from, .. } = change else { continue };
            let slot = self.replayed.slot(slot.resolve(self.commit.id()));
            let row = self.row(slot)?;
            let from = from.resolve(self.commit.id());
            self.records.ensure([row.version, from])?;
            let now = self.records.merge_facts(row.version)?;
            if now == self.records.merge_facts(self.commit.id())? {
                continue;
            }
            if now != self.records.merge_facts(from)? {
                return Err(self.superseded(row.version));
            }
            let mut edit = self.says(Op::Edit { target: row.version });
            edit.change(vec![set_version(&row, CommitRef::This)]);
            planned = Some(edit);
        }
        Ok(planned)
    }

    fn annotate(&self, marked: &(Priority, Option<JsonText>)) -> Plan<Option<PlannedCommit>> {
        let mut changes = Vec::new();
        let mut targets = Vec::new();
        for change in self.records.changes(self.commit)? {
            let Change::Mark { slot, from, .. } = change else { continue };
            let old = slot.resolve(self.commit.id());
            if self.replayed.dropped.contains(&old) {
                continue;
            }
            let slot = self.replayed.slot(old);
            let row = self.row(slot)?;
            let mark = from.map(|from| from.resolve(self.commit.id()));
            self.records.ensure([Some(row.version), row.mark, mark].into_iter().flatten())?;
            let now = self.records.marked(&row)?;
            // A message may have this priority by default. Only a mark makes it permanent, so one
            // is written if there is none.
            if row.mark.is_some() && now == *marked {
                continue;
            }
            if now != self.records.marked(&Row { mark, ..row })? {
                return Err(self.superseded(row.mark.unwrap_or(row.version)));
            }
            changes.push(set_mark(&row, Some(CommitRef::This)));
            targets.push(row.version);
        }
        if changes.is_empty() {
            return Ok(None);
        }
        let mut op = self.commit.op.clone();
        if let Op::Annotate { targets: named, .. } = &mut op {
            *named = targets;
        }
        let mut planned = self.says(op);
        planned.change(changes);
        Ok(Some(planned))
    }

    fn compress(&self) -> Plan<Option<PlannedCommit>> {
        let id = self.commit.id();
        let mut rows = Vec::new();
        let mut before = Vec::new();
        for change in self.records.changes(self.commit)? {
            let Change::Remove { slot, row } = change else { continue };
            rows.push(self.row(self.replayed.slot(slot.resolve(id)))?);
            before.push(row.version.resolve(id));
        }
        let versions = rows.iter().map(|row| row.version).chain(before.iter().copied());
        self.records.ensure(versions)?;
        let mut work = WorkingView::new(self.history.view());
        for (row, before) in rows.iter().zip(before) {
            if self.records.merge_facts(row.version)? != self.records.merge_facts(before)? {
                return Err(self.superseded(row.version));
            }
            work.take(row.slot);
        }
        if let Some((_, answers)) = work.orphaned() {
            let by = answers.first().map_or(id, |row| row.slot);
            return Err(self.superseded(by));
        }
        let Some(key) = rows.iter().map(|row| row.key).min() else { return Ok(None) };
        let targets = rows.iter().map(|row| row.version).collect();
        let mut planned = self.says(Op::Compress { targets });
        planned.change(summary_changes(&rows, key));
        Ok(Some(planned))
    }
}
