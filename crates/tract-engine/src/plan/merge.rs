//! Plans a merge: a three-way comparison of views by content.

mod compared;
mod resolve;

use std::collections::{BTreeSet, HashMap, HashSet};

use tract_compile::{Row, View};
use tract_core::{
    Change, CommitId, CommitRef, JsonText, Op, Priority, ToolSchema, Toolset, ToolsetId,
};

pub(crate) use self::compared::ComparedHeads;
use self::resolve::Resolving;
pub use self::resolve::{
    KeptConflict, Resolution, ResolvableConflict, ResolveFn, ResolvedConflict, Resolver,
};
use super::records::MergeFacts;
use super::revert::brings;
use super::work::{
    ChangeIndex, SummaryCover, WorkingView, covered, ensure_covered, set_mark, set_version,
};
use super::{
    ConflictKind, Details, History, MergeConflict, Plan, PlannedCommit, Records, ResolutionKind,
    Stop,
};

/// The heads of a merge, and their best common ancestors.
#[derive(Clone, Copy, Debug)]
pub struct MergeSides<'a> {
    /// The history that the merge continues.
    pub ours: &'a History,
    /// The history that is merged in.
    pub theirs: &'a History,
    /// The histories of the best common ancestors; if empty, the base is the empty view.
    pub bases: &'a [History],
    /// The messages in which ours and theirs differ, from [`differing`]. Planning looks at no
    /// others.
    pub differing: &'a [CommitId],
}

/// Returns the messages in which two views differ: theirs in their order, then those that only our
/// side has. Looks at those of `among` only, or at all messages if it is `None`.
pub fn differing(ours: &View, theirs: &View, among: Option<Vec<CommitId>>) -> Vec<CommitId> {
    // The key is left out: it is the position in one history, and a picked message has another one
    // without having been changed.
    let facts = |row: &Row| (row.version, row.mark, row.answers);
    let differ = |row: &&Row| ours.get(row.slot).map(facts) != Some(facts(row));
    let gone = |row: &&Row| !theirs.contains(row.slot);
    let Some(among) = among else {
        super::records::visit(ours.len() + theirs.len());
        let changed = theirs.rows().filter(differ);
        return changed.chain(ours.rows().filter(gone)).map(|row| row.slot).collect();
    };
    super::records::visit(among.len());
    let changed = in_order(theirs, &among).into_iter().filter(differ);
    changed.chain(in_order(ours, &among).into_iter().filter(gone)).map(|row| row.slot).collect()
}

/// Returns the rows of some messages, in the order of the view.
fn in_order<'a>(view: &'a View, slots: &[CommitId]) -> Vec<&'a Row> {
    let mut rows: Vec<&Row> = slots.iter().filter_map(|slot| view.get(*slot)).collect();
    rows.sort_unstable_by_key(|row| row.row_key());
    rows.dedup_by_key(|row| row.slot);
    rows
}

/// A planned merge.
#[derive(Clone, Debug)]
pub struct PlannedMerge {
    /// The merge commit.
    pub commit: PlannedCommit,
    /// Messages that get a new text by an edit that follows the merge commit.
    pub texts: Vec<(CommitId, String)>,
    /// The resolutions, in the order of the conflicts.
    pub resolved: Vec<ResolvedConflict>,
}

/// Plans a merge. A change of one side only is taken. When both sides changed the same thing
/// differently, `resolver` decides.
///
/// # Errors
/// [`Refusal::Conflicts`](super::Refusal) with the unresolved conflicts;
/// [`Refusal::IllegalResolution`](super::Refusal) for a resolution that does not fit its conflict;
/// [`Refusal::Hidden`](super::Refusal) when a message would be shown next to its summary.
pub fn merge(
    sides: MergeSides<'_>,
    records: &Records,
    details: &Details,
    resolver: &mut Resolver<'_>,
) -> Plan<PlannedMerge> {
    let MergeSides { ours, theirs, bases, .. } = sides;
    let empty = [History::empty()];
    let bases = if bases.is_empty() { &empty[..] } else { bases };
    let base_views: Vec<&View> = bases.iter().map(History::view).collect();
    let mut resolving = Resolving::new(sides, records);
    resolver.restart();
    // Every round resolves at least one conflict, since `resolve` fails if one is left open, and a
    // conflict that returns after its resolution counts as open. So the loop ends.
    let (changes, tools) = loop {
        let among = resolving.compared(sides);
        let three = ThreeWayMerge {
            ours: &resolving.ours,
            theirs: &resolving.theirs,
            bases: base_views.clone(),
            among: &among,
            records,
        };
        let mut merged = three.compare()?;
        let tools = tools(sides, bases, records, &mut merged.conflicts)?;
        merged.conflicts.retain(|conflict| !resolving.has_tools(conflict.kind));
        if merged.conflicts.is_empty() {
            break (three.changes(ours.view(), &merged)?, tools);
        }
        let mut conflicts = merged.conflicts;
        conflicts.sort();
        conflicts.dedup();
        resolving.resolve(conflicts, &base_views, resolver)?;
    };

    let op = Op::Merge { sources: theirs.head().into_iter().collect() };
    let mut details = details.clone();
    if !resolving.resolved.is_empty() {
        details.metadata = Some(resolve::noted(details.metadata.as_ref(), &resolving.resolved)?);
    }
    let states_tools = details.tools.is_some();
    let mut tools = tools;
    match resolving.tools {
        Some(ResolutionKind::Theirs) => tools = theirs.active(),
        Some(ResolutionKind::Both) if !states_tools => {
            details.tools = Some(union(records, ours.active(), theirs.active())?);
        }
        _ => {}
    }
    let mut planned = PlannedCommit::on(ours, op, &details);
    planned.record.parents.extend(theirs.head());
    match planned.given.as_ref().map(|(toolset, _)| toolset.id()) {
        Some(given) if !states_tools => planned.set_tools(Some(given), None),
        Some(_) => {}
        None => planned.set_tools(tools, None),
    }
    planned.requires = changes.iter().flat_map(brings).chain(theirs.head()).collect();
    planned.change(changes);
    Ok(PlannedMerge { commit: planned, texts: resolving.texts, resolved: resolving.resolved })
}

/// The changes to take from their side, and the conflicts.
#[derive(Default)]
struct Merged {
    add: Vec<Row>,
    remove: HashSet<CommitId>,
    version: HashMap<CommitId, CommitId>,
    mark: HashMap<CommitId, Option<CommitId>>,
    conflicts: Vec<MergeConflict>,
}

impl Merged {
    /// Adds a conflict of a message.
    fn conflict(
        &mut self,
        kind: ConflictKind,
        slot: CommitId,
        ours: Option<CommitId>,
        theirs: Option<CommitId>,
    ) {
        self.conflicts.push(MergeConflict { kind, slot: Some(slot), ours, theirs });
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MergeChoice {
    Ours,
    Theirs,
    Neither,
}

/// Chooses the side that changed a value. Different bases count as a change on both sides.
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
    /// The messages in which the sides differed before or after the resolutions so far. Both sides
    /// have all others alike, so each rule about two messages holds for them as on each side.
    among: &'a [CommitId],
    records: &'a Records,
}

impl ThreeWayMerge<'_> {
    /// Compares the sides. Returns the changes to take from theirs, and the conflicts.
    fn compare(&self) -> Plan<Merged> {
        // The order matters. Summaries come first: `settle` skips those that were found to be the
        // same. `whole_summaries` looks at the rows that `settle` has added and removed, and
        // `answers` at the rows that are left after both.
        let candidates = differing(self.ours, self.theirs, Some(self.among.to_vec()));
        self.read(&candidates)?;
        let mut merged = Merged::default();
        let twins = self.summaries(&candidates, &mut merged)?;
        for slot in &candidates {
            if !twins.contains(slot) {
                self.settle(*slot, &mut merged)?;
            }
        }
        self.whole_summaries(&mut merged)?;
        self.answers(&candidates, &mut merged)?;
        Ok(merged)
    }

    /// Requests all records that comparing these messages needs.
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

    /// Returns whether a row has the same content and mark in every base.
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
        let bases: Vec<Option<&Row>> = self.bases.iter().map(|base| base.get(slot)).collect();
        let present: Vec<bool> = bases.iter().map(Option::is_some).collect();
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => {
                let before = bases.iter().map(|base| self.facts_of(*base));
                let before = before.collect::<Plan<Vec<_>>>()?;
                match pick(&before, &self.facts_of(Some(ours))?, &self.facts_of(Some(theirs))?) {
                    MergeChoice::Ours => {}
                    MergeChoice::Theirs => _ = merged.version.insert(slot, theirs.version),
                    MergeChoice::Neither => {
                        let (ours, theirs) = (Some(ours.version), Some(theirs.version));
                        merged.conflict(ConflictKind::Version, slot, ours, theirs);
                    }
                }
                let before = bases.iter().map(|base| self.marked(*base));
                let before = before.collect::<Plan<Vec<_>>>()?;
                match pick(&before, &self.marked(Some(ours))?, &self.marked(Some(theirs))?) {
                    MergeChoice::Ours => {}
                    MergeChoice::Theirs => _ = merged.mark.insert(slot, theirs.mark),
                    MergeChoice::Neither => {
                        merged.conflict(ConflictKind::Mark, slot, ours.mark, theirs.mark);
                    }
                }
            }
            (Some(row), None) => match pick(&present, &true, &false) {
                MergeChoice::Ours => {}
                MergeChoice::Theirs if self.unchanged(row)? => _ = merged.remove.insert(slot),
                MergeChoice::Theirs | MergeChoice::Neither => {
                    merged.conflict(ConflictKind::Presence, slot, Some(row.version), None);
                }
            },
            (None, Some(row)) => match pick(&present, &false, &true) {
                MergeChoice::Theirs => merged.add.push(*row),
                MergeChoice::Ours if self.unchanged(row)? => {}
                MergeChoice::Ours | MergeChoice::Neither => {
                    merged.conflict(ConflictKind::Presence, slot, None, Some(row.version));
                }
            },
            (None, None) => {}
        }
        Ok(())
    }

    /// Returns the summaries that one side has and the other lacks, each with the messages it
    /// covers.
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

    /// Compares the new summaries of both sides. Two that cover the same messages with the same
    /// content become one; two that overlap in any other way conflict. Returns the settled ones of
    /// theirs.
    fn summaries(&self, candidates: &[CommitId], merged: &mut Merged) -> Plan<HashSet<CommitId>> {
        let ours = self.new_summaries(candidates, self.ours, self.theirs)?;
        let theirs = self.new_summaries(candidates, self.theirs, self.ours)?;
        // The positions of our summaries, by covered message.
        // Comparing each of them with each summary of theirs would be quadratic.
        let mut covering: HashMap<CommitId, Vec<usize>> = HashMap::new();
        for (place, (_, covers)) in ours.iter().enumerate() {
            for slot in covers {
                covering.entry(*slot).or_default().push(place);
            }
        }
        let mut settled = HashSet::new();
        for (their, under) in &theirs {
            super::records::visit(under.len());
            let overlapping: BTreeSet<usize> =
                under.iter().filter_map(|slot| covering.get(slot)).flatten().copied().collect();
            for (our, covers) in overlapping.iter().filter_map(|place| ours.get(*place)) {
                super::records::visit(1);
                let our_says = self.facts_of(self.ours.get(*our))?;
                let alike =
                    covers == under && our_says == self.facts_of(self.theirs.get(*their))?;
                if alike {
                    self.twin_mark(merged, *our, self.ours.get(*our), self.theirs.get(*their))?;
                } else {
                    merged.conflict(ConflictKind::Summary, *their, Some(*our), Some(*their));
                }
                settled.insert(*their);
            }
        }
        Ok(settled)
    }

    /// Merges the priorities of two identical messages that become one: ours, unless only theirs
    /// was set.
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
            MergeChoice::Theirs => _ = merged.mark.insert(slot, theirs.mark),
            MergeChoice::Neither => {
                merged.conflict(ConflictKind::Mark, slot, ours.mark, theirs.mark);
            }
        }
        Ok(())
    }

    /// Takes a summary together with all its removals: every message under it must be gone.
    fn whole_summaries(&self, merged: &mut Merged) -> Plan<()> {
        ensure_covered(self.records, merged.add.iter().map(|row| row.slot))?;
        let mut shown = Vec::new();
        for summary in &merged.add {
            for slot in covered(self.records, summary.slot)? {
                // A summary is taken with all of its removals or not at all. A message that our
                // side still shows would otherwise be next to its own summary.
                let stays = self.ours.get(slot).filter(|_| !merged.remove.contains(&slot));
                if let Some(row) = stays {
                    shown.push((slot, row.version, summary.slot));
                }
            }
        }
        // Do not report a message twice.
        let reported: HashSet<_> = shown.iter().map(|(slot, ..)| Some(*slot)).collect();
        merged.conflicts.retain(|conflict| {
            super::records::visit(1);
            conflict.kind != ConflictKind::Presence || !reported.contains(&conflict.slot)
        });
        for (slot, ours, theirs) in shown {
            merged.conflict(ConflictKind::Summary, slot, Some(ours), Some(theirs));
        }
        Ok(())
    }

    /// Ensures that each call has one answer, and that no answer is left without its call.
    fn answers(&self, candidates: &[CommitId], merged: &mut Merged) -> Plan<()> {
        let added: HashSet<CommitId> = merged.add.iter().map(|row| row.slot).collect();
        let shown = |slot: &CommitId| {
            added.contains(slot) || self.ours.contains(*slot) && !merged.remove.contains(slot)
        };
        // A provider rejects a request in which a call has two results, or a result has no call, so
        // both are conflicts even if no message was changed on both sides. A result that both sides
        // have is neither: on their side it has its call, and is the only result of it.
        let mine = in_order(self.ours, candidates).into_iter();
        let kept = mine.filter(|row| !merged.remove.contains(&row.slot));
        let mut answered = HashMap::new();
        let mut conflicts = Vec::new();
        let mut twins = HashSet::new();
        for row in kept {
            let Some(call) = row.answers else { continue };
            answered.insert(call, *row);
            if merged.remove.contains(&call.slot) {
                conflicts.push((call.slot, Some(row.version), None));
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
                conflicts.push((call.slot, other.map(|row| row.version), Some(row.version)));
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
        for (call, ours, theirs) in conflicts {
            merged.conflict(ConflictKind::Answer, call, ours, theirs);
        }
        Ok(())
    }

    /// Writes the choices as changes of our view: first fields, then removals, then rows that
    /// return to their position, then new rows of theirs, in their order, after ours.
    fn changes(&self, view: &View, merged: &Merged) -> Plan<Vec<Change>> {
        // The order of the changes is part of the record, and so of the commit id. It follows the
        // rows and never a hash map.
        let mut changes = Vec::new();
        let mut work = WorkingView::new(view);
        let chosen = |slot: CommitId| {
            let row = self.ours.get(slot).filter(|_| !merged.remove.contains(&slot))?;
            let version = merged.version.get(&slot).copied().unwrap_or(row.version);
            let mark = merged.mark.get(&slot).copied().unwrap_or(row.mark);
            Some(Row { version, mark, ..*row })
        };
        let mut touched: Vec<CommitId> = self.ours.changed_slots(view).collect();
        touched.extend(merged.version.keys().chain(merged.mark.keys()).chain(&merged.remove));
        super::records::visit(touched.len());
        let before = in_order(view, &touched);
        for row in before.iter().copied() {
            let Some(now) = chosen(row.slot) else { continue };
            if now.version != row.version {
                changes.push(set_version(row, now.version.into()));
            }
            if now.mark != row.mark {
                changes.push(set_mark(row, now.mark.map(CommitRef::Id)));
            }
            if now != *row {
                work.put(now);
            }
        }
        let mut changed = ChangeIndex::default();
        let mut returning = HashSet::new();
        let removed: Vec<Row> =
            before.into_iter().filter(|row| chosen(row.slot).is_none()).copied().collect();
        ensure_covered(self.records, removed.iter().map(|row| row.slot))?;
        for row in removed {
            changes.push(Change::Remove { slot: row.slot.into(), row: row.fields() });
            returning.extend(covered(self.records, row.slot)?);
            work.take(row.slot);
        }
        let mut add = |work: &mut WorkingView<'_>, row: Row| {
            changes.push(Change::Add { slot: row.slot.into(), row: row.fields() });
            work.put(row);
        };
        for row in in_order(self.ours, &touched).into_iter().filter(|row| !view.contains(row.slot))
        {
            if let Some(row) = chosen(row.slot) {
                // The fold refuses a row whose key is above `next`.
                add(&mut work, Row { key: row.key.min(view.next()), ..row });
            }
        }
        for row in &merged.add {
            let under = covered(self.records, row.slot)?;
            let first = under.iter().filter_map(|slot| work.last_keys.get(slot)).min().copied();
            // Messages under a summary that is reverted return to their old position.
            let back = if returning.contains(&row.slot) {
                changed.last_key(self.records, row.slot)?
            } else {
                None
            };
            let key = first.or(back).unwrap_or(work.next).min(work.next);
            add(&mut work, Row { key, ..*row });
        }
        // Only an added row can end up next to a summary of it, and only next to one that the sides
        // do not share.
        let added = work.added();
        if !added.is_empty() {
            let slots = self.among.iter().chain(&touched).filter_map(|slot| work.get(*slot));
            let apart = SummaryCover::of(self.records, slots.chain(added))?;
            apart.check(|slot| work.get(slot).is_some())?;
        }
        Ok(changes)
    }
}

/// Merges the tools that were set to stay. Tools of a single commit are not merged.
fn tools(
    sides: MergeSides<'_>,
    bases: &[History],
    records: &Records,
    conflicts: &mut Vec<MergeConflict>,
) -> Plan<Option<ToolsetId>> {
    let MergeSides { ours, theirs, .. } = sides;
    // Tools that were never set and an empty set both compile to no tools.
    let none = Toolset::seal(Vec::new()).id();
    let of = |history: &History| history.active().filter(|toolset| *toolset != none);
    let before: Vec<_> = bases.iter().map(of).collect();
    Ok(match pick(&before, &of(ours), &of(theirs)) {
        MergeChoice::Ours => ours.active(),
        MergeChoice::Theirs => theirs.active(),
        MergeChoice::Neither => {
            if !alike(records, of(ours), of(theirs))? {
                let (ours, theirs) = (ours.head(), theirs.head());
                let kind = ConflictKind::Tools;
                conflicts.push(MergeConflict { kind, slot: None, ours, theirs });
            }
            ours.active()
        }
    })
}

/// Returns whether two sets contain the same definitions, even if their schemas differ in bytes.
fn alike(records: &Records, ours: Option<ToolsetId>, theirs: Option<ToolsetId>) -> Plan<bool> {
    let (Some(ours), Some(theirs)) = (ours, theirs) else { return Ok(ours == theirs) };
    let ours = records.toolset(ours)?.entries().iter().map(|entry| entry.tool);
    Ok(ours.eq(records.toolset(theirs)?.entries().iter().map(|entry| entry.tool)))
}

/// Returns our definitions, then those of theirs with other names.
fn union(
    records: &Records,
    ours: Option<ToolsetId>,
    theirs: Option<ToolsetId>,
) -> Plan<Vec<ToolSchema>> {
    let mut tools: Vec<ToolSchema> = Vec::new();
    for (is_ours, set) in [(true, ours), (false, theirs)] {
        let Some(set) = set else { continue };
        let set = records.toolset(set)?;
        records.ensure_blobs(set.entries().iter().map(|entry| entry.schema))?;
        let mine: HashSet<String> = tools.iter().map(|tool| tool.name().to_owned()).collect();
        for entry in set.entries() {
            let blob = records.blob(entry.schema)?;
            let schema = blob.text().and_then(|text| ToolSchema::parse(text).ok());
            let missing = || Stop::Missing(tract_core::ObjectId::Blob(entry.schema));
            let schema = schema.ok_or_else(missing)?;
            if is_ours || !mine.contains(schema.name()) {
                tools.push(schema);
            }
        }
    }
    Ok(tools)
}

#[cfg(test)]
mod tests;
