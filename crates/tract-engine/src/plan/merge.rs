//! Bringing in what another head has: a three-way comparison of views by what they say.

use std::collections::{BTreeSet, HashMap, HashSet};

use tract_compile::{Row, View};
use tract_core::{Change, CommitId, CommitRef, JsonText, Op, Priority, RowFields, ToolsetId};

use super::records::MergeFacts;
use super::revert::brings;
use super::work::{LastKeys, SummaryCover, WorkingView, covered, ensure_covered};
use super::{ConflictKind, Details, Line, MergeConflict, Plan, PlannedCommit, Records, Refusal};

/// The heads of a merge, and the best common ancestors that it is judged by.
#[derive(Clone, Copy, Debug)]
pub struct MergeSides<'a> {
    /// The line that the merge continues.
    pub ours: &'a Line,
    /// The line that is brought in.
    pub theirs: &'a Line,
    /// The lines of the best common ancestors; none means the empty view.
    pub bases: &'a [Line],
}

/// Plans a merge. Everything that only one side changed is taken; where both changed the same
/// differently, nothing is.
///
/// # Errors
/// [`Refusal::Conflicts`] naming all of them; [`Refusal::Hidden`] when a message would be shown
/// next to its summary.
pub fn merge(sides: MergeSides<'_>, records: &Records, details: &Details) -> Plan<PlannedCommit> {
    let MergeSides { ours, theirs, bases } = sides;
    let empty = [Line::empty()];
    let bases = if bases.is_empty() { &empty[..] } else { bases };
    let three = ThreeWayMerge {
        ours: ours.view(),
        theirs: theirs.view(),
        bases: bases.iter().map(Line::view).collect(),
        records,
    };
    let candidates = three.candidates();
    three.read(&candidates)?;

    let mut merged = Merged::default();
    let twins = three.summaries(&candidates, &mut merged)?;
    for slot in &candidates {
        if !twins.contains(slot) {
            three.settle(*slot, &mut merged)?;
        }
    }
    three.whole_summaries(&mut merged)?;
    three.answers(&mut merged)?;
    let (toolset, active) = tools(sides, bases, records, &mut merged.conflicts)?;
    if !merged.conflicts.is_empty() {
        let mut conflicts = merged.conflicts;
        conflicts.sort();
        conflicts.dedup();
        return Err(Refusal::Conflicts(conflicts).into());
    }

    let changes = three.changes(&merged)?;
    let op = Op::Merge { sources: theirs.head().into_iter().collect() };
    let mut planned = PlannedCommit::on(ours, op, details);
    planned.record.parents.extend(theirs.head());
    if details.tools.is_none() {
        planned.set_tools(toolset, active);
    }
    planned.requires = changes.iter().flat_map(brings).chain(theirs.head()).collect();
    planned.change(changes);
    Ok(planned)
}

/// What is taken from their side, and what the sides cannot agree on.
#[derive(Default)]
struct Merged {
    add: Vec<Row>,
    remove: HashSet<CommitId>,
    version: HashMap<CommitId, (CommitId, CommitId)>,
    mark: HashMap<CommitId, (Option<CommitId>, Option<CommitId>)>,
    conflicts: Vec<MergeConflict>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MergeChoice {
    Ours,
    Theirs,
    Neither,
}

/// Takes what only one side changed. Bases that differ count as changed on both sides.
fn pick<T: PartialEq>(bases: &[T], ours: &T, theirs: &T) -> MergeChoice {
    let agreed = bases.first().filter(|first| bases.iter().all(|base| base == *first));
    if ours == theirs {
        MergeChoice::Ours
    } else if agreed == Some(ours) {
        MergeChoice::Theirs
    } else if agreed == Some(theirs) {
        MergeChoice::Ours
    } else {
        MergeChoice::Neither
    }
}

struct ThreeWayMerge<'a> {
    ours: &'a View,
    theirs: &'a View,
    bases: Vec<&'a View>,
    records: &'a Records,
}

impl ThreeWayMerge<'_> {
    /// Returns the messages in which the sides differ: theirs in their order, then those that
    /// only we have.
    fn candidates(&self) -> Vec<CommitId> {
        let facts = |row: &Row| (row.version, row.mark, row.answers);
        let differ = |row: &&Row| self.ours.get(row.slot).map(facts) != Some(facts(row));
        let theirs = self.theirs.rows().filter(differ).map(|row| row.slot);
        let gone = self.ours.rows().filter(|row| !self.theirs.contains(row.slot));
        theirs.chain(gone.map(|row| row.slot)).collect()
    }

    /// Asks for all that comparing these messages reads.
    fn read(&self, candidates: &[CommitId]) -> Plan<()> {
        let views = || [self.ours, self.theirs].into_iter().chain(self.bases.iter().copied());
        let rows = candidates.iter().flat_map(|slot| views().filter_map(|view| view.get(*slot)));
        let ids = rows.flat_map(|row| [Some(row.slot), Some(row.version), row.mark]).flatten();
        self.records.ensure(ids)
    }

    fn facts_of(&self, row: Option<&Row>) -> Plan<Option<MergeFacts>> {
        row.map(|row| self.records.merge_facts(row.version)).transpose()
    }

    fn marked(&self, row: Option<&Row>) -> Plan<Option<(Priority, Option<JsonText>)>> {
        row.map(|row| self.records.marked(row)).transpose()
    }

    /// Returns whether a row says the same as in every base.
    fn unchanged(&self, row: &Row) -> Plan<bool> {
        let (says, marked) = (self.facts_of(Some(row))?, self.marked(Some(row))?);
        for base in &self.bases {
            let base = base.get(row.slot);
            if self.facts_of(base)? != says || self.marked(base)? != marked {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn settle(&self, slot: CommitId, merged: &mut Merged) -> Plan<()> {
        let (ours, theirs) = (self.ours.get(slot), self.theirs.get(slot));
        let mut conflict = |kind, ours: Option<CommitId>, theirs: Option<CommitId>| {
            merged.conflicts.push(MergeConflict { kind, slot: Some(slot), ours, theirs });
        };
        let bases: Vec<Option<&Row>> = self.bases.iter().map(|base| base.get(slot)).collect();
        let present: Vec<bool> = bases.iter().map(Option::is_some).collect();
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => {
                let mut before = Vec::new();
                for base in &bases {
                    before.push(self.facts_of(*base)?);
                }
                match pick(&before, &self.facts_of(Some(ours))?, &self.facts_of(Some(theirs))?) {
                    MergeChoice::Ours => {}
                    MergeChoice::Theirs => {
                        merged.version.insert(slot, (ours.version, theirs.version));
                    }
                    MergeChoice::Neither => {
                        conflict(ConflictKind::Version, Some(ours.version), Some(theirs.version));
                    }
                }
                let mut before = Vec::new();
                for base in &bases {
                    before.push(self.marked(*base)?);
                }
                match pick(&before, &self.marked(Some(ours))?, &self.marked(Some(theirs))?) {
                    MergeChoice::Ours => {}
                    MergeChoice::Theirs => {
                        merged.mark.insert(slot, (ours.mark, theirs.mark));
                    }
                    MergeChoice::Neither => conflict(ConflictKind::Mark, ours.mark, theirs.mark),
                }
            }
            (Some(row), None) => match pick(&present, &true, &false) {
                MergeChoice::Ours => {}
                MergeChoice::Theirs if self.unchanged(row)? => {
                    merged.remove.insert(slot);
                }
                MergeChoice::Theirs | MergeChoice::Neither => {
                    conflict(ConflictKind::Presence, Some(row.version), None);
                }
            },
            (None, Some(row)) => match pick(&present, &false, &true) {
                MergeChoice::Theirs => merged.add.push(*row),
                MergeChoice::Ours if self.unchanged(row)? => {}
                MergeChoice::Ours | MergeChoice::Neither => {
                    conflict(ConflictKind::Presence, None, Some(row.version));
                }
            },
            (None, None) => {}
        }
        Ok(())
    }

    /// Returns the summaries that one side has and the other has not, with what lies under them.
    fn new_summaries(
        &self,
        candidates: &[CommitId],
        of: &View,
        other: &View,
    ) -> Plan<Vec<(CommitId, HashSet<CommitId>)>> {
        let is_new = |slot: &&CommitId| {
            of.contains(**slot)
                && !other.contains(**slot)
                && self.bases.iter().all(|base| !base.contains(**slot))
        };
        let new: Vec<CommitId> = candidates.iter().filter(is_new).copied().collect();
        ensure_covered(self.records, new.iter().copied())?;
        let mut out = Vec::new();
        for slot in new {
            let under = covered(self.records, slot)?;
            if !under.is_empty() {
                out.push((slot, under.into_iter().collect()));
            }
        }
        Ok(out)
    }

    /// Compares the new summaries of both sides: two that cover the same and say the same are
    /// one, two that overlap otherwise are a conflict. Returns those of theirs that are settled.
    fn summaries(&self, candidates: &[CommitId], merged: &mut Merged) -> Plan<HashSet<CommitId>> {
        let ours = self.new_summaries(candidates, self.ours, self.theirs)?;
        let theirs = self.new_summaries(candidates, self.theirs, self.ours)?;
        // The places of our summaries, by what they cover.
        let mut covering: HashMap<CommitId, Vec<usize>> = HashMap::new();
        for (place, (_, covers)) in ours.iter().enumerate() {
            for slot in covers {
                covering.entry(*slot).or_default().push(place);
            }
        }
        let mut settled = HashSet::new();
        for (their, under) in &theirs {
            super::visit(under.len());
            let overlapping: BTreeSet<usize> =
                under.iter().filter_map(|slot| covering.get(slot)).flatten().copied().collect();
            for (our, covers) in overlapping.iter().filter_map(|place| ours.get(*place)) {
                super::visit(1);
                let our_says = self.facts_of(self.ours.get(*our))?;
                let alike =
                    covers == under && our_says == self.facts_of(self.theirs.get(*their))?;
                if !alike {
                    merged.conflicts.push(MergeConflict {
                        kind: ConflictKind::Summary,
                        slot: Some(*their),
                        ours: Some(*our),
                        theirs: Some(*their),
                    });
                }
                if alike {
                    self.twin_mark(merged, *our, self.ours.get(*our), self.theirs.get(*their))?;
                }
                settled.insert(*their);
            }
        }
        Ok(settled)
    }

    /// Merges the priorities of two messages that say the same and become one: ours, unless only
    /// theirs was given one.
    fn twin_mark(
        &self,
        merged: &mut Merged,
        slot: CommitId,
        ours: Option<&Row>,
        theirs: Option<&Row>,
    ) -> Plan<()> {
        let (Some(ours), Some(theirs)) = (ours, theirs) else { return Ok(()) };
        let own = (self.records.kind(ours.version)?.default_priority(), None);
        match pick(&[own], &self.records.marked(ours)?, &self.records.marked(theirs)?) {
            MergeChoice::Ours => {}
            MergeChoice::Theirs => {
                merged.mark.insert(slot, (ours.mark, theirs.mark));
            }
            MergeChoice::Neither => merged.conflicts.push(MergeConflict {
                kind: ConflictKind::Mark,
                slot: Some(slot),
                ours: ours.mark,
                theirs: theirs.mark,
            }),
        }
        Ok(())
    }

    /// A summary with all its removals is one choice: what lies under one that is taken must be
    /// gone.
    fn whole_summaries(&self, merged: &mut Merged) -> Plan<()> {
        ensure_covered(self.records, merged.add.iter().map(|row| row.slot))?;
        let mut conflicts = Vec::new();
        for summary in &merged.add {
            for slot in covered(self.records, summary.slot)? {
                let stays = self.ours.get(slot).filter(|_| !merged.remove.contains(&slot));
                if let Some(row) = stays {
                    conflicts.push(MergeConflict {
                        kind: ConflictKind::Summary,
                        slot: Some(slot),
                        ours: Some(row.version),
                        theirs: Some(summary.slot),
                    });
                }
            }
        }
        // The same message is not reported twice.
        let reported: HashSet<Option<CommitId>> = conflicts.iter().map(|one| one.slot).collect();
        merged.conflicts.retain(|conflict| {
            super::visit(1);
            conflict.kind != ConflictKind::Presence || !reported.contains(&conflict.slot)
        });
        merged.conflicts.extend(conflicts);
        Ok(())
    }

    /// One call has one answer, and no answer remains without its call.
    fn answers(&self, merged: &mut Merged) -> Plan<()> {
        let added: HashSet<CommitId> = merged.add.iter().map(|row| row.slot).collect();
        let shown = |slot: &CommitId| {
            added.contains(slot) || self.ours.contains(*slot) && !merged.remove.contains(slot)
        };
        let kept = self.ours.rows().filter(|row| !merged.remove.contains(&row.slot));
        let mut answered = HashMap::new();
        let mut conflicts = Vec::new();
        let mut twins = HashSet::new();
        for row in kept {
            let Some(call) = row.answers else { continue };
            answered.insert(call, *row);
            if merged.remove.contains(&call.slot) {
                conflicts.push(MergeConflict {
                    kind: ConflictKind::Answer,
                    slot: Some(call.slot),
                    ours: Some(row.version),
                    theirs: None,
                });
            }
        }
        for row in &merged.add {
            let Some(call) = row.answers else { continue };
            let other = answered.get(&call);
            let says = self.records.merge_facts(row.version)?;
            match other {
                Some(other) if self.records.merge_facts(other.version)? == says => {
                    twins.insert(row.slot);
                }
                Some(_) => {}
                None if shown(&call.slot) => continue,
                None => {}
            }
            if !twins.contains(&row.slot) {
                conflicts.push(MergeConflict {
                    kind: ConflictKind::Answer,
                    slot: Some(call.slot),
                    ours: other.map(|row| row.version),
                    theirs: Some(row.version),
                });
            }
        }
        let theirs: Vec<Row> =
            merged.add.iter().filter(|row| twins.contains(&row.slot)).copied().collect();
        for row in theirs {
            let other = row.answers.and_then(|call| answered.get(&call));
            if let Some(other) = other {
                self.twin_mark(merged, other.slot, Some(other), Some(&row))?;
            }
        }
        merged.add.retain(|row| !twins.contains(&row.slot));
        merged.conflicts.extend(conflicts);
        Ok(())
    }

    /// Writes what was chosen as changes of our view: fields, removals, then their rows in their
    /// order behind ours.
    fn changes(&self, merged: &Merged) -> Plan<Vec<Change>> {
        let mut changes = Vec::new();
        let mut work = WorkingView::new(self.ours);
        for row in self.ours.rows() {
            let mut now = *row;
            if let Some((from, to)) = merged.version.get(&row.slot) {
                changes.push(Change::Version {
                    slot: row.slot.into(),
                    from: (*from).into(),
                    to: (*to).into(),
                });
                now.version = *to;
            }
            if let Some((from, to)) = merged.mark.get(&row.slot) {
                changes.push(Change::Mark {
                    slot: row.slot.into(),
                    from: from.map(CommitRef::Id),
                    to: to.map(CommitRef::Id),
                });
                now.mark = *to;
            }
            if now != *row {
                work.put(now);
            }
        }
        let mut keys = LastKeys::default();
        let mut returning = HashSet::new();
        ensure_covered(self.records, merged.remove.iter().copied())?;
        for row in self.ours.rows().filter(|row| merged.remove.contains(&row.slot)) {
            changes.push(Change::Remove { slot: row.slot.into(), row: row.fields() });
            returning.extend(covered(self.records, row.slot)?);
            work.take(row.slot);
        }
        for row in &merged.add {
            let under = covered(self.records, row.slot)?;
            let first = under.iter().filter_map(|slot| work.last_keys.get(slot)).min().copied();
            // What lay under a summary that is reverted returns to its place.
            let back =
                if returning.contains(&row.slot) { keys.of(self.records, row.slot)? } else { None };
            let key = first.or(back).unwrap_or(work.next).min(work.next);
            let row = Row { key, ..*row };
            changes.push(Change::Add {
                slot: row.slot.into(),
                row: RowFields { key, ..row.fields() },
            });
            work.put(row);
        }
        if !work.added().is_empty() {
            SummaryCover::of(self.records, work.rows())?.check()?;
        }
        Ok(changes)
    }
}

/// The tools in force, and those last set to stay.
type Tools = (Option<ToolsetId>, Option<ToolsetId>);

fn tools(
    sides: MergeSides<'_>,
    bases: &[Line],
    records: &Records,
    conflicts: &mut Vec<MergeConflict>,
) -> Plan<Tools> {
    let MergeSides { ours, theirs, .. } = sides;
    let mut choose = |of: fn(&Line) -> Option<ToolsetId>| -> Plan<Option<ToolsetId>> {
        let before: Vec<_> = bases.iter().map(of).collect();
        Ok(match pick(&before, &of(ours), &of(theirs)) {
            MergeChoice::Ours => of(ours),
            MergeChoice::Theirs => of(theirs),
            MergeChoice::Neither => {
                if !alike(records, of(ours), of(theirs))? {
                    conflicts.push(MergeConflict {
                        kind: ConflictKind::Tools,
                        slot: None,
                        ours: ours.head(),
                        theirs: theirs.head(),
                    });
                }
                of(ours)
            }
        })
    };
    let toolset = choose(Line::toolset)?;
    let active = choose(Line::active)?;
    Ok((toolset, active))
}

/// Returns whether two sets hold the same definitions, regardless of the bytes they were given in.
fn alike(records: &Records, ours: Option<ToolsetId>, theirs: Option<ToolsetId>) -> Plan<bool> {
    let (Some(ours), Some(theirs)) = (ours, theirs) else { return Ok(ours == theirs) };
    let ours = records.toolset(ours)?.entries().iter().map(|entry| entry.tool);
    Ok(ours.eq(records.toolset(theirs)?.entries().iter().map(|entry| entry.tool)))
}

#[cfg(test)]
mod tests;
