//! Taking back what commits changed, by the exact inverse.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tract_compile::{Row, appended, inverse, resolved};
use tract_core::{CallRef, Change, Commit, CommitId, Op, RowFields, This, ToolsetId};

use super::work::{Covers, Field, LastKeys, Work, last_touch};
use super::{Details, Line, Plan, Planned, Records, Refusal, Stop};

/// Plans to take commits back, newest first in effect. A target that later commits stand on is
/// refused, naming them; with `cascade` they are taken back as well.
pub(super) fn revert(
    line: &Line,
    records: &Records,
    targets: &[CommitId],
    cascade: bool,
    details: &Details,
) -> Plan<Planned> {
    if let [target] = targets
        && let Some(planned) = super::edit::restore(line, records, *target, details)?
    {
        return Ok(planned);
    }
    let mut known = HashSet::new();
    let mut wanted: Vec<CommitId> =
        targets.iter().copied().filter(|target| known.insert(*target)).collect();
    if wanted.is_empty() {
        return Err(Refusal::NoTargets.into());
    }
    records.ensure(wanted.iter().copied())?;
    loop {
        match undone(line, records, &wanted) {
            Ok(undone) => {
                let op = Op::Revert { targets: undone.order, cascade };
                let mut planned = Planned::on(line, op, details);
                if details.tools.is_none() {
                    planned.set_tools(undone.toolset, undone.active);
                }
                planned.requires = undone.changes.iter().flat_map(brings).collect();
                planned.change(undone.changes);
                return Ok(planned);
            }
            Err(Stop::Refused(Refusal::Superseded { target, by })) if cascade => {
                let more: Vec<CommitId> =
                    by.iter().filter(|id| !wanted.contains(id)).copied().collect();
                if more.is_empty() {
                    return Err(Refusal::Superseded { target, by }.into());
                }
                records.ensure(more.iter().copied())?;
                wanted.extend(more);
            }
            Err(stop) => return Err(stop),
        }
    }
}

/// Returns the commits that a change brings back into the view.
pub(super) fn brings(change: &Change) -> Vec<CommitId> {
    let id = |this: &This| match this {
        This::Id(id) => Some(*id),
        This::This => None,
    };
    match change {
        Change::Add { row, .. } => {
            [id(&row.version), row.mark.as_ref().and_then(id)].into_iter().flatten().collect()
        }
        Change::Remove { .. } => Vec::new(),
        Change::Version { to, .. } => id(to).into_iter().collect(),
        Change::Mark { to, .. } => to.as_ref().and_then(id).into_iter().collect(),
    }
}

/// Targets taken back, and what that changes.
struct Undone {
    order: Vec<CommitId>,
    changes: Vec<Change>,
    toolset: Option<ToolsetId>,
    active: Option<ToolsetId>,
}

fn undone(line: &Line, records: &Records, wanted: &[CommitId]) -> Plan<Undone> {
    let mut work = Work::new(line.view());
    let mut keys = LastKeys::default();
    let mut undone = Undone {
        order: Vec::new(),
        changes: Vec::new(),
        toolset: line.toolset(),
        active: line.active(),
    };
    let mut left: BTreeMap<usize, CommitId> = wanted.iter().copied().enumerate().collect();
    let mut ready: BTreeSet<usize> = left.keys().copied().collect();
    // What is blocked by a message stays so until that message changes.
    let mut waiting: HashMap<CommitId, Vec<usize>> = HashMap::new();
    while !left.is_empty() {
        // Whichever target no other one depends on any more is the newest in effect.
        let Some(n) = ready.pop_first() else {
            let mut blocked = Vec::new();
            for target in left.values() {
                if let Err(block) = take_back(records, &mut work, &mut keys, *target)? {
                    blocked.push((*target, block));
                }
            }
            return Err(superseded(records, &blocked, &undone.order)?.into());
        };
        let Some(target) = left.get(&n).copied() else { continue };
        let changes = match take_back(records, &mut work, &mut keys, target)? {
            Ok(changes) => changes,
            Err(block) => {
                waiting.entry(block.slot).or_default().push(n);
                continue;
            }
        };
        left.remove(&n);
        for change in &changes {
            ready.extend(waiting.remove(&change.slot().resolve(target)).into_iter().flatten());
        }
        give_tools_back(records, target, &mut undone)?;
        undone.order.push(target);
        undone.changes.extend(changes);
    }
    check_tools(records, wanted, line, &undone)?;
    if let Some((call, answers)) = work.orphaned() {
        let target = remover(records, wanted, call)?;
        let by = answers.iter().map(|row| row.slot).collect();
        return Err(Refusal::Superseded { target, by }.into());
    }
    let added = work.added();
    if !added.is_empty() {
        check_answers(records, wanted, &work, &added)?;
        Covers::of(records, work.rows())?.check()?;
    }
    Ok(undone)
}

/// Refuses to bring an answer back whose call is gone, or has another answer.
fn check_answers(
    records: &Records,
    wanted: &[CommitId],
    work: &Work<'_>,
    added: &[Row],
) -> Plan<()> {
    if added.iter().all(|row| row.answers.is_none()) {
        return Ok(());
    }
    let mut answering: HashMap<CallRef, Vec<CommitId>> = HashMap::new();
    for row in work.rows() {
        if let Some(call) = row.answers {
            answering.entry(call).or_default().push(row.slot);
        }
    }
    for row in added {
        let Some(call) = row.answers else { continue };
        if work.get(call.slot).is_none() {
            let target = remover(records, wanted, row.slot)?;
            let gone = last_touch(records, call.slot, Field::Presence, &|_| false)?;
            return Err(match gone.map(Commit::id) {
                Some(by) => Refusal::Superseded { target, by: vec![by] },
                None => Refusal::NotVisible { target: call.slot, hidden_by: None },
            }
            .into());
        }
        let others = answering.get(&call).into_iter().flatten();
        if let Some(other) = others.filter(|slot| **slot != row.slot).min() {
            let target = remover(records, wanted, row.slot)?;
            return Err(Refusal::Superseded { target, by: vec![*other] }.into());
        }
    }
    Ok(())
}

/// Returns which of the targets brought a message in, or took it out.
fn remover(records: &Records, wanted: &[CommitId], slot: CommitId) -> Plan<CommitId> {
    for target in wanted {
        if super::work::touches(records, records.commit(*target)?, slot, Field::Presence)? {
            return Ok(*target);
        }
    }
    Ok(slot)
}

/// What keeps a target from being taken back: a field that holds something else by now.
struct Block {
    slot: CommitId,
    field: Field,
}

/// Takes back all changes of one target, last first, or says what is in the way and leaves the
/// view as it is.
fn take_back(
    records: &Records,
    work: &mut Work<'_>,
    keys: &mut LastKeys,
    target: CommitId,
) -> Plan<Result<Vec<Change>, Block>> {
    let commit = records.commit(target)?;
    let own = appended(&tract_compile::View::empty(), commit);
    let all: Vec<Change> =
        own.into_iter().chain(records.changes(commit)?.iter().copied()).collect();
    let mut changes = Vec::with_capacity(all.len());
    let mut saved = Vec::with_capacity(all.len());
    for change in all.iter().rev() {
        let undo = inverse(&resolved(change, target));
        saved.push(work.save(undo.slot().resolve(target)));
        match apply(records, work, keys, target, &undo)? {
            Ok(change) => changes.push(change),
            Err(block) => {
                saved.into_iter().rev().for_each(|saved| work.restore(saved));
                return Ok(Err(block));
            }
        }
    }
    Ok(Ok(changes))
}

/// Applies an inverse; a row returns at the key that it last had on this line.
fn apply(
    records: &Records,
    work: &mut Work<'_>,
    keys: &mut LastKeys,
    target: CommitId,
    undo: &Change,
) -> Plan<Result<Change, Block>> {
    let slot = undo.slot().resolve(target);
    let present = work.get(slot);
    let block = |field| Ok(Err(Block { slot, field }));
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
                None => keys.of(records, slot)?.unwrap_or(row.key),
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

/// Names the commit that stands on a target. Targets that wait for one another are not told of.
fn superseded(
    records: &Records,
    blocked: &[(CommitId, Block)],
    done: &[CommitId],
) -> Plan<Refusal> {
    let done: HashSet<CommitId> = done.iter().copied().collect();
    let left: HashSet<CommitId> = blocked.iter().map(|(target, _)| *target).collect();
    let mut refusal = Refusal::NoTargets;
    for (target, Block { slot, field }) in blocked {
        let touch = last_touch(records, *slot, *field, &|id| done.contains(&id))?;
        refusal = match touch.map(Commit::id) {
            Some(by) => Refusal::Superseded { target: *target, by: vec![by] },
            // Nothing on this line ever touched it: the target is of another line.
            None => Refusal::NotVisible { target: *target, hidden_by: None },
        };
        match touch {
            Some(by) if left.contains(&by.id()) => {}
            Some(_) | None => break,
        }
    }
    Ok(refusal)
}

/// Gives back the tools that were in force before a target, where its own are in force still.
fn give_tools_back(records: &Records, target: CommitId, undone: &mut Undone) -> Plan<()> {
    let commit = records.commit(target)?;
    let before = before(records, commit)?;
    let now = (commit.toolset, commit.active_toolset());
    if now.0 != before.0 && undone.toolset == now.0 {
        undone.toolset = before.0;
    }
    if now.1 != before.1 && undone.active == now.1 {
        undone.active = before.1;
    }
    Ok(())
}

/// Returns the tools before a commit: in force, and last set to stay.
fn before(records: &Records, commit: &Commit) -> Plan<(Option<ToolsetId>, Option<ToolsetId>)> {
    match commit.parent() {
        Some(parent) => {
            let parent = records.commit(parent)?;
            Ok((parent.toolset, parent.active_toolset()))
        }
        None => Ok((None, None)),
    }
}

/// Refuses to take back a setting of tools that another one has replaced.
fn check_tools(records: &Records, wanted: &[CommitId], line: &Line, undone: &Undone) -> Plan<()> {
    if undone.toolset != line.toolset() || undone.active != line.active() {
        return Ok(());
    }
    for target in wanted {
        let commit = records.commit(*target)?;
        let before = before(records, commit)?;
        let changed = commit.active_toolset() != before.1;
        if !matches!(commit.op, Op::Tools) || !changed || undone.active == before.1 {
            continue;
        }
        for n in 0.. {
            let Some(later) = records.chain(n)? else { break };
            if wanted.contains(&later.id()) {
                continue;
            }
            if later.active_toolset() != self::before(records, later)?.1 {
                let by = vec![later.id()];
                return Err(Refusal::Superseded { target: *target, by }.into());
            }
        }
    }
    Ok(())
}
