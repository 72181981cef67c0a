//! Taking back what commits changed, by the exact inverse.

use tract_compile::{Row, appended, inverse, resolved};
use tract_core::{Change, Commit, CommitId, Op, RowFields, This, ToolsetId};

use super::work::{Covers, Field, Work, last_key, last_touch};
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
    let mut wanted: Vec<CommitId> = Vec::new();
    for target in targets {
        if !wanted.contains(target) {
            wanted.push(*target);
        }
    }
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
    let mut undone = Undone {
        order: Vec::new(),
        changes: Vec::new(),
        toolset: line.toolset(),
        active: line.active(),
    };
    let mut left: Vec<CommitId> = wanted.to_vec();
    while !left.is_empty() {
        // Whichever target nothing stands on any more is the newest in effect.
        let mut blocked = Vec::new();
        let mut free = None;
        for (n, target) in left.iter().enumerate() {
            match take_back(records, &work, *target)? {
                Ok(step) => {
                    free = Some((n, step));
                    break;
                }
                Err(block) => blocked.push((*target, block)),
            }
        }
        let Some((n, (after, changes))) = free else {
            return Err(superseded(records, &blocked, &undone.order, &left)?.into());
        };
        let target = left.remove(n);
        give_tools_back(records, target, &mut undone)?;
        work = after;
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

/// Refuses to bring an answer back whose call is gone by now, or has another answer.
fn check_answers(
    records: &Records,
    wanted: &[CommitId],
    work: &Work<'_>,
    added: &[Row],
) -> Plan<()> {
    for row in added {
        let Some(call) = row.answers else { continue };
        let target = remover(records, wanted, row.slot)?;
        if work.get(call.slot).is_none() {
            let gone = last_touch(records, call.slot, Field::Presence, &|_| false)?;
            return Err(match gone.map(Commit::id) {
                Some(by) => Refusal::Superseded { target, by: vec![by] },
                None => Refusal::NotVisible { target: call.slot, hidden_by: None },
            }
            .into());
        }
        let other =
            work.rows().find(|other| other.answers == row.answers && other.slot != row.slot);
        if let Some(other) = other {
            return Err(Refusal::Superseded { target, by: vec![other.slot] }.into());
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

type Step<'a> = (Work<'a>, Vec<Change>);

/// Takes back all changes of one target, last first; says what is in the way.
fn take_back<'a>(
    records: &Records,
    work: &Work<'a>,
    target: CommitId,
) -> Plan<Result<Step<'a>, Block>> {
    let commit = records.commit(target)?;
    let mut work = work.clone();
    let mut changes = Vec::new();
    let own = appended(&tract_compile::View::empty(), commit);
    let all: Vec<Change> =
        own.into_iter().chain(records.changes(commit)?.iter().copied()).collect();
    for change in all.iter().rev() {
        let undo = inverse(&resolved(change, target));
        match apply(records, &mut work, target, &undo)? {
            Ok(change) => changes.push(change),
            Err(block) => return Ok(Err(block)),
        }
    }
    Ok(Ok((work, changes)))
}

/// Applies an inverse; a row returns at the key that it last had on this line.
fn apply(
    records: &Records,
    work: &mut Work<'_>,
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
                None => last_key(records, slot)?.unwrap_or(row.key),
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
    left: &[CommitId],
) -> Plan<Refusal> {
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
