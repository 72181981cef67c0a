//! Plans to revert commits by the exact inverse of their changes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tract_compile::{Row, appended, inverse, resolved};
use tract_core::{CallRef, Change, Commit, CommitId, CommitRef, Op, RowFields, ToolsetId};

use super::work::{ChangeIndex, Field, SummaryCover, WorkingView, touched};
use super::{Details, History, Plan, PlannedCommit, Records, Refusal};

/// Plans to revert commits, newest first. A target that later commits depend on is refused with
/// their ids; with `cascade` they are reverted as well.
pub(super) fn revert(
    history: &History,
    records: &Records,
    targets: &[CommitId],
    cascade: bool,
    details: &Details,
) -> Plan<PlannedCommit> {
    if let [target] = targets
        && let Some(planned) = super::edit::restore(history, records, *target, details)?
    {
        return Ok(planned);
    }
    if targets.is_empty() {
        return Err(Refusal::NoTargets.into());
    }
    records.ensure(targets.iter().copied())?;
    let mut undoing = Undoing::new(history, records);
    for target in targets {
        undoing.want(*target);
    }
    let undone = undoing.run(cascade)?;
    if undone.changes.is_empty() && !undone.changes_tools() && undone.only_tools()? {
        return Err(Refusal::NothingToRevert { targets: targets.to_vec() }.into());
    }
    let op = Op::Revert { targets: undone.order, cascade };
    let mut planned = PlannedCommit::on(history, op, details);
    if details.tools.is_none() {
        planned.set_tools(undone.toolset, undone.active);
    }
    planned.requires = undone.changes.iter().flat_map(brings).collect();
    planned.change(undone.changes);
    Ok(planned)
}

/// Returns the commits that a change brings back into the view.
pub(super) fn brings(change: &Change) -> impl Iterator<Item = CommitId> {
    let (version, mark) = match change {
        Change::Add { row, .. } => (Some(row.version), row.mark),
        Change::Version { to, .. } => (Some(*to), None),
        Change::Mark { to, .. } => (None, *to),
        Change::Remove { .. } => (None, None),
    };
    version.into_iter().chain(mark).filter_map(|this| match this {
        CommitRef::Id(id) => Some(id),
        CommitRef::This => None,
    })
}

/// A target, or a message that a target added or removed, and the commits that have to be reverted
/// before it.
type Dependents = (CommitId, Vec<CommitId>);

/// The obstacle to a revert: this field of a message has changed since.
type RevertBlocker = (CommitId, Field);

/// The state of a revert plan. With `cascade`, targets are added as it progresses, without
/// repeating the work done so far.
struct Undoing<'a> {
    history: &'a History,
    records: &'a Records,
    work: WorkingView<'a>,
    /// The commits that changed each message, without those already reverted.
    later: ChangeIndex,
    all: ChangeIndex,
    wanted: Vec<CommitId>,
    known: HashSet<CommitId>,
    /// Positions of targets that are not reverted yet and have no known obstacle.
    ready: BTreeSet<usize>,
    /// Targets by the message that blocks them. They are retried when that message changes.
    waiting: HashMap<CommitId, Vec<usize>>,
    /// Blocked targets whose blocking commit is not known yet.
    unexplained: BTreeMap<usize, RevertBlocker>,
    done: HashSet<CommitId>,
    /// The reverted targets in order, and the changes that revert them.
    order: Vec<CommitId>,
    changes: Vec<Change>,
    toolset: Option<ToolsetId>,
    active: Option<ToolsetId>,
}

impl<'a> Undoing<'a> {
    fn new(history: &'a History, records: &'a Records) -> Self {
        Self {
            history,
            records,
            work: WorkingView::new(history.view()),
            later: ChangeIndex::default(),
            all: ChangeIndex::default(),
            wanted: Vec::new(),
            known: HashSet::new(),
            ready: BTreeSet::new(),
            waiting: HashMap::new(),
            unexplained: BTreeMap::new(),
            done: HashSet::new(),
            order: Vec::new(),
            changes: Vec::new(),
            toolset: history.active(),
            active: history.active(),
        }
    }

    /// Returns the tools in force before any of them is reverted. Tools of a single commit end with
    /// it, unless that commit is itself reverted.
    fn tools_before(&self) -> (Option<ToolsetId>, Option<ToolsetId>) {
        let of_head = self.history.head().is_some_and(|head| self.known.contains(&head));
        let toolset = if of_head { self.history.toolset() } else { self.history.active() };
        (toolset, self.history.active())
    }

    /// Returns whether all targets only set tools.
    fn only_tools(&self) -> Plan<bool> {
        for target in &self.wanted {
            if !sets_tools(self.records, self.records.commit(*target)?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn changes_tools(&self) -> bool {
        (self.toolset, self.active) != self.tools_before()
    }

    /// Adds a target. Returns whether it is new.
    fn want(&mut self, target: CommitId) -> bool {
        let is_new = self.known.insert(target);
        if is_new {
            let place = self.wanted.len();
            self.wanted.push(target);
            self.ready.insert(place);
        }
        is_new
    }

    fn run(mut self, cascade: bool) -> Plan<Self> {
        loop {
            self.revert_ready()?;
            // Nothing is ready, so the remaining targets are blocked: by a commit that is not a
            // target, which `cascade` adds, or by each other.
            if self.done.len() < self.wanted.len() {
                match if cascade { self.dependent()? } else { None } {
                    Some(by) => _ = self.want(by),
                    None => return Err(self.superseded()?.into()),
                }
                continue;
            }
            let dependents = self.dependents()?;
            let Some((of, first)) = dependents.first() else {
                if !self.work.added().is_empty() {
                    SummaryCover::of(self.records, self.work.rows())?
                        .check(|slot| self.work.get(slot).is_some())?;
                }
                return Ok(self);
            };
            let mut more = false;
            if cascade {
                let by = || dependents.iter().flat_map(|(_, by)| by.iter().copied());
                self.records.ensure(by())?;
                for by in by() {
                    more |= self.want(by);
                }
            }
            if !more {
                let target = remover(self.records, &self.wanted, *of)?;
                return Err(Refusal::Superseded { target, by: first.clone() }.into());
            }
        }
    }

    /// Reverts the targets that are not blocked. A target that no other one depends on is the
    /// newest in effect.
    fn revert_ready(&mut self) -> Plan<()> {
        while let Some(place) = self.ready.pop_first() {
            let Some(target) = self.wanted.get(place).copied() else { continue };
            let changes = match revert_target(self.records, &mut self.work, &mut self.all, target)?
            {
                Ok(changes) => changes,
                Err(block) => {
                    // Retried only when the message that blocks it changes. Trying all remaining
                    // targets after each revert would be quadratic.
                    self.waiting.entry(block.0).or_default().push(place);
                    self.unexplained.insert(place, block);
                    continue;
                }
            };
            self.unexplained.remove(&place);
            self.done.insert(target);
            for change in &changes {
                let freed = self.waiting.remove(&change.slot().resolve(target));
                self.ready.extend(freed.into_iter().flatten());
            }
            self.order.push(target);
            self.changes.extend(changes);
        }
        Ok(())
    }

    /// Restores the tools from before the targets, newest target first.
    fn revert_tools(&mut self) -> Plan<()> {
        (self.toolset, self.active) = self.tools_before();
        let mut setting = Vec::new();
        let parents = |target: &CommitId| self.records.commit(*target).ok()?.parent();
        self.records.ensure(self.wanted.iter().filter_map(parents))?;
        for target in &self.wanted {
            let commit = self.records.commit(*target)?;
            if before(self.records, commit)? != (commit.toolset, commit.active_toolset()) {
                setting.push(*target);
            }
        }
        // Tools are restored by value: each target gives back what was in force before it. That is
        // only right from the newest to the oldest, and the order of the request may be another
        // one.
        if setting.len() > 1 {
            let mut left: HashSet<CommitId> = setting.iter().copied().collect();
            let mut ordered = Vec::with_capacity(setting.len());
            for n in 0.. {
                let Some(commit) = self.records.chain(n)?.filter(|_| !left.is_empty()) else {
                    break;
                };
                if left.remove(&commit.id()) {
                    ordered.push(commit.id());
                }
            }
            // Targets from another history, which a merge brought in, come last.
            ordered.extend(setting.into_iter().filter(|target| left.contains(target)));
            setting = ordered;
        }
        for target in setting {
            self.give_tools_back(target)?;
        }
        Ok(())
    }

    /// Restores the tools from before a target, if its own tools are still in force.
    fn give_tools_back(&mut self, target: CommitId) -> Plan<()> {
        let commit = self.records.commit(target)?;
        let before = before(self.records, commit)?;
        let now = (commit.toolset, commit.active_toolset());
        if now.0 != before.0 && self.toolset == now.0 {
            self.toolset = before.0;
        }
        if now.1 != before.1 && self.active == now.1 {
            self.active = before.1;
        }
        Ok(())
    }

    /// Returns a commit that has to be reverted first; `None` if the remaining targets only wait
    /// for each other.
    fn dependent(&mut self) -> Plan<Option<CommitId>> {
        while let Some((place, (slot, field))) = self.unexplained.pop_first() {
            let touch =
                self.later.newest(self.records, slot, field, |id| self.done.contains(&id))?;
            match touch {
                // Reverting that commit changes the message, and this target is tried again.
                Some(by) if self.known.contains(&by) => {}
                Some(by) => return Ok(Some(by)),
                None => {
                    let target = self.wanted.get(place).copied().unwrap_or(slot);
                    return Err(Refusal::NotVisible { target, hidden_by: None }.into());
                }
            }
        }
        Ok(None)
    }

    /// Returns the refusal with the commit that blocks a target. Targets that wait for each other
    /// are not reported.
    fn superseded(&mut self) -> Plan<Refusal> {
        let mut refusal = Refusal::NoTargets;
        for &target in self.wanted.iter().filter(|target| !self.done.contains(*target)) {
            let taken = revert_target(self.records, &mut self.work, &mut self.all, target)?;
            let Err((slot, field)) = taken else { continue };
            let touch =
                self.later.newest(self.records, slot, field, |id| self.done.contains(&id))?;
            refusal = match touch {
                Some(by) => Refusal::Superseded { target, by: vec![by] },
                // No commit of this history ever touched the message: the target is from another
                // history.
                None => Refusal::NotVisible { target, hidden_by: None },
            };
            if touch.is_none_or(|by| !self.known.contains(&by)) {
                break;
            }
        }
        Ok(refusal)
    }

    /// Returns the commits that have to be reverted as well, once every target is reverted.
    fn dependents(&mut self) -> Plan<Vec<Dependents>> {
        self.revert_tools()?;
        if let Some(tools) = self.later_tools()? {
            return Ok(vec![tools]);
        }
        if let Some((call, answers)) = self.work.orphaned() {
            let by = answers.iter().map(|row| row.slot).collect();
            return Ok(vec![(call, by)]);
        }
        self.unfit_answers()
    }

    /// Returns the obstacles to answers that would return: their call is gone, or has another
    /// answer.
    fn unfit_answers(&mut self) -> Plan<Vec<Dependents>> {
        let added = self.work.added();
        let mut dependents = Vec::new();
        if added.iter().all(|row| row.answers.is_none()) {
            return Ok(dependents);
        }
        let mut answering: HashMap<CallRef, Vec<CommitId>> = HashMap::new();
        for row in self.work.rows() {
            if let Some(call) = row.answers {
                answering.entry(call).or_default().push(row.slot);
            }
        }
        for row in added {
            let Some(call) = row.answers else { continue };
            if self.work.get(call.slot).is_none() {
                let gone = self.all.newest(self.records, call.slot, Field::Presence, |_| false)?;
                match gone {
                    Some(by) => dependents.push((row.slot, vec![by])),
                    None if dependents.is_empty() => {
                        return Err(
                            Refusal::NotVisible { target: call.slot, hidden_by: None }.into()
                        );
                    }
                    None => return Ok(dependents),
                }
                continue;
            }
            let others = answering.get(&call).into_iter().flatten();
            if let Some(other) = others.filter(|slot| **slot != row.slot).min() {
                dependents.push((row.slot, vec![*other]));
            }
        }
        Ok(dependents)
    }

    /// Returns the commits that set other tools after a target that only set tools.
    fn later_tools(&self) -> Plan<Option<Dependents>> {
        for target in &self.wanted {
            let commit = self.records.commit(*target)?;
            if !sets_tools(self.records, commit)?
                || commit.active_toolset() == before(self.records, commit)?.1
            {
                continue;
            }
            for n in 0.. {
                // A target from another history was brought in by a merge, and is compared by
                // value.
                let Some(later) = self.records.chain(n)? else { break };
                if later.id() == *target {
                    break;
                }
                if !self.known.contains(&later.id())
                    && later.active_toolset() != before(self.records, later)?.1
                {
                    return Ok(Some((*target, vec![later.id()])));
                }
            }
        }
        Ok(None)
    }
}

/// Returns whether a commit only sets tools.
fn sets_tools(records: &Records, commit: &Commit) -> Plan<bool> {
    Ok(match &commit.op {
        Op::Tools => true,
        Op::Revert { .. } => records.changes(commit)?.is_empty(),
        _ => false,
    })
}

/// Returns the target that added or removed a message; `slot` itself if there is none.
fn remover(records: &Records, wanted: &[CommitId], slot: CommitId) -> Plan<CommitId> {
    for target in wanted {
        let commit = records.commit(*target)?;
        let mut touched = touched(commit, records.changes(commit)?);
        if touched.any(|(one, fields)| one == slot && fields.contains(&Field::Presence)) {
            return Ok(*target);
        }
    }
    Ok(slot)
}

/// Reverts all changes of one target, last first. If something is in the way, returns it and leaves
/// the view unchanged.
fn revert_target(
    records: &Records,
    work: &mut WorkingView<'_>,
    changed: &mut ChangeIndex,
    target: CommitId,
) -> Plan<Result<Vec<Change>, RevertBlocker>> {
    let commit = records.commit(target)?;
    let own = appended(&tract_compile::View::empty(), commit);
    let all: Vec<Change> =
        own.into_iter().chain(records.changes(commit)?.iter().copied()).collect();
    let mut changes = Vec::with_capacity(all.len());
    let mut saved = Vec::with_capacity(all.len());
    for change in all.iter().rev() {
        let undo = inverse(&resolved(change, target));
        saved.push(work.save(undo.slot().resolve(target)));
        match apply(records, work, changed, target, &undo)? {
            Ok(change) => changes.push(change),
            Err(block) => {
                saved.into_iter().rev().for_each(|saved| work.restore(saved));
                return Ok(Err(block));
            }
        }
    }
    Ok(Ok(changes))
}

/// Applies an inverse change. A row returns at its last key in this history.
fn apply(
    records: &Records,
    work: &mut WorkingView<'_>,
    changed: &mut ChangeIndex,
    target: CommitId,
    undo: &Change,
) -> Plan<Result<Change, RevertBlocker>> {
    let slot = undo.slot().resolve(target);
    let present = work.get(slot);
    let block = |field| Ok(Err((slot, field)));
    match *undo {
        Change::Remove { slot: this, row } => {
            let Some(present) = present else { return block(Field::Presence) };
            let fields = present.fields();
            if fields.version != row.version {
                return block(Field::Version);
            }
            if fields.mark != row.mark {
                return block(Field::Mark);
            }
            if fields.answers != row.answers {
                return block(Field::Presence);
            }
            work.take(slot);
            Ok(Ok(Change::Remove { slot: this, row: fields }))
        }
        Change::Add { slot: this, row } => {
            if present.is_some() {
                return block(Field::Presence);
            }
            let key = match work.last_keys.get(&slot) {
                Some(key) => *key,
                None => changed.last_key(records, slot)?.unwrap_or(row.key),
            };
            let row = RowFields { key: key.min(work.next), ..row };
            work.put(Row {
                slot,
                key: row.key,
                version: row.version.resolve(target),
                mark: row.mark.map(|mark| mark.resolve(target)),
                answers: row.answers,
            });
            Ok(Ok(Change::Add { slot: this, row }))
        }
        Change::Version { from, to, .. } => {
            let Some(present) = present else { return block(Field::Presence) };
            if present.version != from.resolve(target) {
                return block(Field::Version);
            }
            work.put(Row { version: to.resolve(target), ..present });
            Ok(Ok(*undo))
        }
        Change::Mark { from, to, .. } => {
            let Some(present) = present else { return block(Field::Presence) };
            if present.mark != from.map(|mark| mark.resolve(target)) {
                return block(Field::Mark);
            }
            work.put(Row { mark: to.map(|mark| mark.resolve(target)), ..present });
            Ok(Ok(*undo))
        }
    }
}

/// Returns the tools before a commit: those in force, and those set to stay.
fn before(records: &Records, commit: &Commit) -> Plan<(Option<ToolsetId>, Option<ToolsetId>)> {
    match commit.parent() {
        Some(parent) => {
            let parent = records.commit(parent)?;
            Ok((parent.toolset, parent.active_toolset()))
        }
        None => Ok((None, None)),
    }
}

#[cfg(test)]
mod tests;
