//! Computes which messages of the index each head shows.
//!
//! A plain message is shown unless a later commit changes it. Only commits that change other
//! messages (the events of a segment) are visited, from the heads back, so that the time does not
//! depend on the length of the histories.
//!
//! The history of a head is a path of runs. The runs of all heads form a forest: a child is a run,
//! or a head, that continues a run after one of its positions. Heads are numbered in depth-first
//! order, and the children of a run from the highest fork position to the lowest. The heads that
//! lead to a position are then always one range of numbers, and a row stores one range instead of a
//! list of heads.

use std::collections::HashMap;
use std::ops::Range;

use tract_compile::{IdMap, IdSet};
use tract_core::{CommitId, ObjectId};

use super::index::Index;
use super::segment::{Effect, Ref, SegmentPlace};
use crate::history::reach::BitSet;
use crate::repo::error::{Error, Result};
use crate::search::grep::{BackwardFold, RowChange};

/// The next hop from a reachable run: another run, or a head.
#[derive(Clone, Copy, Debug)]
enum Next {
    Run(usize),
    Head(usize),
}

/// A run that at least one head leads to.
#[derive(Debug)]
struct ReachedRun {
    segment: u32,
    start: u32,
    /// The continuations and the positions after which they start; sorted by position, the highest
    /// first, once the heads are numbered.
    next: Vec<(u32, Next)>,
    /// The number of its first head, and for each entry of `next` the number of heads up to it.
    first: u32,
    counts: Vec<u32>,
}

impl ReachedRun {
    /// Returns the numbers of the heads that lead to a position of this run.
    fn heads(&self, position: u32) -> Range<u32> {
        let leading = self.next.partition_point(|(at, _)| *at >= position);
        let count = leading.checked_sub(1).and_then(|at| self.counts.get(at));
        self.first..self.first + count.copied().unwrap_or_default()
    }

    /// Returns the exclusive end of the reachable range.
    fn end(&self) -> u32 {
        self.next.first().map_or(self.start, |(at, _)| at + 1)
    }
}

/// The messages that some heads show, by place in the index.
pub(super) struct Reach {
    runs: Vec<ReachedRun>,
    by_run: HashMap<(u32, usize), usize>,
    /// The parents of the first commits of runs, by segment and start of the run.
    bases: HashMap<(u32, u32), SegmentPlace>,
    /// For each head number, the index of the head in the caller's list.
    numbered: Vec<usize>,
    /// Rows changed by a commit other than the one that added them, with the heads that show them.
    spoken: IdMap<SegmentPlace, Vec<Range<u32>>>,
    /// Per segment, the shown messages.
    pub(super) shown: Vec<BitSet>,
    /// Per segment, the messages to search.
    pub(super) searched: Vec<BitSet>,
}

/// The result of [`Reach::read`].
pub(super) enum Reached {
    Known(Box<Reach>),
    /// These commits have to be indexed first.
    Lacks(Vec<CommitId>),
}

impl Reach {
    /// Computes the messages that the heads show. With `hidden`, all messages that the heads lead
    /// to are searched.
    pub(super) async fn read(
        index: &mut Index<'_>,
        heads: &[CommitId],
        hidden: bool,
    ) -> Result<Reached> {
        let mut reach = Self {
            runs: Vec::new(),
            by_run: HashMap::new(),
            bases: HashMap::new(),
            numbered: Vec::new(),
            spoken: IdMap::default(),
            shown: Vec::new(),
            searched: Vec::new(),
        };
        for (number, head) in heads.iter().enumerate() {
            let Some(place) = index.place(*head).await? else {
                return Err(Error::Missing(ObjectId::Commit(*head)));
            };
            if let Err(lacks) = reach.add(index, place, Some(number)).await? {
                return Ok(Reached::Lacks(vec![lacks]));
            }
        }
        let order = reach.number_heads();
        make_room(&mut reach.shown, index);
        let lacks = reach.find_shown(index, &order).await?;
        if !lacks.is_empty() {
            return Ok(Reached::Lacks(lacks));
        }
        reach.searched.clone_from(&reach.shown);
        if hidden && let Some(lacks) = reach.add_hidden(index).await? {
            return Ok(Reached::Lacks(vec![lacks]));
        }
        reach.find_bases(index).await?;
        Ok(Reached::Known(Box::new(reach)))
    }

    /// Adds the runs from a place back to the root. Fails with a commit that is not indexed.
    async fn add(
        &mut self,
        index: &mut Index<'_>,
        place: SegmentPlace,
        head: Option<usize>,
    ) -> Result<std::result::Result<(), CommitId>> {
        let mut next = head.map(Next::Head);
        let mut at = Some(place);
        while let Some(place) = at {
            let segment = index.segment(place.segment);
            let number = segment.and_then(|segment| segment.run_of(place.position));
            let run =
                segment.zip(number).and_then(|(s, number)| Some((number, s.runs.get(number)?)));
            let Some((number, run)) = run else {
                let what = "a segment of the search index has no such position".to_owned();
                return Err(Error::Damaged { object: None, what });
            };
            let (start, base) = (run.start, run.base);
            let known = self.by_run.get(&(place.segment, number)).copied();
            let of_run = known.unwrap_or(self.runs.len());
            if known.is_none() {
                self.by_run.insert((place.segment, number), of_run);
                self.runs.push(ReachedRun {
                    segment: place.segment,
                    start,
                    next: Vec::new(),
                    first: 0,
                    counts: Vec::new(),
                });
            }
            let Some(reached) = self.runs.get_mut(of_run) else { break };
            reached.next.extend(next.map(|next| (place.position, next)));
            // An earlier head has added this run and everything below it. So the cost is one visit
            // for each run, not one for each head and run.
            if known.is_some() {
                break;
            }
            at = match base {
                None => None,
                Some(base) => match index.resolve(place.segment, base).await? {
                    Ok(base) => Some(base),
                    Err(commit) => return Ok(Err(commit)),
                },
            };
            self.bases.extend(at.map(|base| ((place.segment, start), base)));
            next = Some(Next::Run(of_run));
        }
        Ok(Ok(()))
    }

    /// Numbers the heads so that those that lead to a commit form a range. Returns the runs so that
    /// each comes after the runs that continue it.
    fn number_heads(&mut self) -> Vec<usize> {
        let mut is_root = vec![true; self.runs.len()];
        for run in &mut self.runs {
            run.next.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
            for (_, next) in &run.next {
                if let Next::Run(child) = next
                    && let Some(is_root) = is_root.get_mut(*child)
                {
                    *is_root = false;
                }
            }
        }
        let mut order = Vec::with_capacity(self.runs.len());
        for (root, is_root) in is_root.into_iter().enumerate() {
            if !is_root {
                continue;
            }
            // An explicit stack: forks of forks may nest as deep as there are branches.
            let mut stack = vec![(root, 0)];
            while let Some((run, done)) = stack.pop() {
                let numbered = self.numbered.len() as u32;
                let Some(reached) = self.runs.get_mut(run) else { continue };
                match done {
                    0 => reached.first = numbered,
                    _ => reached.counts.push(numbered - reached.first),
                }
                let Some((_, next)) = reached.next.get(done).copied() else {
                    order.push(run);
                    continue;
                };
                // The run is visited again after this child. The number of heads that the child has
                // added is then known, and goes into `counts`.
                stack.push((run, done + 1));
                match next {
                    Next::Head(head) => self.numbered.push(head),
                    Next::Run(child) => stack.push((child, 0)),
                }
            }
        }
        order
    }

    /// Computes the shown rows. Returns commits that have to be indexed first.
    async fn find_shown(
        &mut self,
        index: &mut Index<'_>,
        order: &[usize],
    ) -> Result<Vec<CommitId>> {
        for run in &self.runs {
            let Some(segment) = index.segment(run.segment) else { continue };
            let Some(shown) = self.shown.get_mut(run.segment as usize) else { continue };
            // Decided once for each of the 256 classes, because the loop below runs over every
            // message that a head leads to.
            let of_kind: Vec<bool> = (0..=u8::MAX)
                .map(|class| {
                    let class = super::segment::Class(class);
                    class.is_plain() && segment.is_shown(class)
                })
                .collect();
            for position in run.start..run.end() {
                let class = segment.class(position);
                if of_kind.get(usize::from(class.0)).copied().unwrap_or_default() {
                    shown.insert(position);
                }
            }
        }
        let mut fold: BackwardFold<SegmentPlace, bool> = BackwardFold::default();
        let mut rows = Vec::new();
        let mut lacks = Vec::new();
        for run in order.iter().filter_map(|run| self.runs.get(*run)) {
            let Some(segment) = index.segment(run.segment) else { continue };
            let events = segment.events_between(run.start, run.end()).to_vec();
            // Backward, like the order of the runs: the first change of a row that the fold meets
            // is the one in force, and all older changes of that row are ignored.
            for event in events.iter().rev() {
                let place = SegmentPlace { segment: run.segment, position: event.position };
                let heads = run.heads(event.position);
                let (slot, version) = match event.effect {
                    Effect::Add { slot, version, .. } => (slot, Some(version)),
                    Effect::Version { slot, to } => (slot, Some(to)),
                    Effect::Remove { slot } | Effect::Mark { slot, .. } => (slot, None),
                    Effect::Leads { .. } => continue,
                };
                let slot = named(index, run.segment, slot).await?;
                let to = match version {
                    Some(version) => Some(index.resolve(run.segment, version).await?),
                    None => None,
                };
                let change = match (event.effect, to.and_then(Result::ok)) {
                    (Effect::Add { shown, .. }, Some(version)) => {
                        RowChange::Add { version, mark: shown }
                    }
                    (Effect::Version { .. }, Some(to)) => RowChange::Version(to),
                    (Effect::Mark { shown, .. }, _) => RowChange::Mark(shown),
                    (Effect::Remove { .. }, _) => RowChange::Remove,
                    (Effect::Add { .. } | Effect::Version { .. } | Effect::Leads { .. }, _) => {
                        // A version that is not indexed has to be indexed before its row can be
                        // shown. If it is not stored either, no head can show it.
                        if let Some(Err(commit)) = to
                            && !index.is_absent(commit)
                        {
                            lacks.push(commit);
                        }
                        continue;
                    }
                };
                fold.change(place, slot, change, &heads, &mut |row| rows.push(row));
            }
        }
        // Resolving a reference may have loaded more segments.
        make_room(&mut self.shown, index);
        // Plain messages are added without an event. For those that other commits change, fold the
        // row that they add, last: the fold runs backward.
        let touched: Vec<SegmentPlace> = fold.touched().collect();
        for slot in touched {
            let Some(segment) = index.segment(slot.segment) else { continue };
            let class = segment.class(slot.position);
            let heads = self.heads_to(index, slot);
            if class.is_plain() && !heads.is_empty() {
                let add = RowChange::Add { version: slot, mark: class.stated() };
                fold.change(slot, slot, add, &heads, &mut |row| rows.push(row));
            }
            if let Some(shown) = self.shown.get_mut(slot.segment as usize) {
                shown.remove(slot.position);
            }
            self.spoken.entry(slot).or_default();
        }
        for row in rows {
            let Some(segment) = index.segment(row.version.segment) else { continue };
            let class = segment.class(row.version.position);
            let is_shown = class.kind().is_some()
                && row.mark.unwrap_or_else(|| segment.is_shown(class.unstated()));
            if is_shown && !row.heads.is_empty() {
                if let Some(shown) = self.shown.get_mut(row.version.segment as usize) {
                    shown.insert(row.version.position);
                }
                self.spoken.entry(row.version).or_default().push(row.heads);
            }
        }
        Ok(lacks)
    }

    /// Adds all messages that the heads lead to: through all parents, and through reverted commits.
    async fn add_hidden(&mut self, index: &mut Index<'_>) -> Result<Option<CommitId>> {
        let mut done: IdMap<SegmentPlace, u32> = IdMap::default();
        let mut seen: IdSet<SegmentPlace> = IdSet::default();
        let ends = self.runs.iter().map(|run| (run.segment, run.start, run.end()));
        let mut todo: Vec<(u32, u32, u32)> = ends.collect();
        while let Some((segment, start, end)) = todo.pop() {
            let run = SegmentPlace { segment, position: start };
            // Continues where an earlier reference into this run ended, so that many references do
            // not search the same messages again.
            let from = done.get(&run).copied().unwrap_or(start);
            if from >= end {
                continue;
            }
            done.insert(run, end);
            make_room(&mut self.searched, index);
            let Some(known) = index.segment(segment) else { continue };
            if let Some(searched) = self.searched.get_mut(segment as usize) {
                for position in from..end {
                    if known.class(position).kind().is_some() {
                        searched.insert(position);
                    }
                }
            }
            let mut named: Vec<Ref> = Vec::new();
            for event in known.events_between(from, end) {
                if let Effect::Leads { to } = event.effect {
                    named.push(to);
                }
            }
            if let Some(run) = known.run_of(start).and_then(|run| known.runs.get(run)) {
                named.extend(run.base);
            }
            for named in named {
                let place = match index.resolve(segment, named).await? {
                    Ok(place) => place,
                    Err(commit) if index.is_absent(commit) => continue,
                    Err(commit) => return Ok(Some(commit)),
                };
                if !seen.insert(place) {
                    continue;
                }
                let segment = index.segment(place.segment);
                let run = segment.and_then(|s| s.runs.get(s.run_of(place.position)?));
                todo.extend(run.map(|run| (place.segment, run.start, place.position + 1)));
            }
        }
        Ok(None)
    }

    /// Resolves the bases of the other runs that begin with a searched message: a merge also shows
    /// messages of runs that no head leads to along first parents.
    async fn find_bases(&mut self, index: &mut Index<'_>) -> Result<()> {
        let mut unknown: Vec<(u32, u32, Ref)> = Vec::new();
        for ((number, segment), searched) in (0u32..).zip(&index.segments).zip(&self.searched) {
            let runs = segment.runs.iter().filter(|run| {
                searched.contains(run.start) && !self.bases.contains_key(&(number, run.start))
            });
            unknown.extend(runs.filter_map(|run| Some((number, run.start, run.base?))));
        }
        for (segment, start, base) in unknown {
            // A message that is searched is indexed, so a base that is not is no neighbor.
            if let Ok(place) = index.resolve(segment, base).await? {
                self.bases.insert((segment, start), place);
            }
        }
        make_room(&mut self.shown, index);
        make_room(&mut self.searched, index);
        Ok(())
    }

    /// Returns the parent of the first commit of a run, if that is indexed.
    pub(super) fn base(&self, segment: u32, start: u32) -> Option<SegmentPlace> {
        self.bases.get(&(segment, start)).copied()
    }

    fn heads_to(&self, index: &Index<'_>, place: SegmentPlace) -> Range<u32> {
        let run = index.segment(place.segment).and_then(|segment| segment.run_of(place.position));
        let run = run.and_then(|run| self.by_run.get(&(place.segment, run)));
        run.and_then(|run| self.runs.get(*run)).map_or(0..0, |run| run.heads(place.position))
    }

    /// Returns the heads that show a message, in the order in which they were given.
    pub(super) fn heads(&self, index: &Index<'_>, place: SegmentPlace) -> Vec<usize> {
        let ranges = match self.spoken.get(&place) {
            Some(ranges) => ranges.clone(),
            None if self
                .shown
                .get(place.segment as usize)
                .is_some_and(|shown| shown.contains(place.position)) =>
            {
                vec![self.heads_to(index, place)]
            }
            None => Vec::new(),
        };
        let numbers = ranges.into_iter().flatten();
        let mut heads: Vec<usize> =
            numbers.filter_map(|number| self.numbered.get(number as usize)).copied().collect();
        heads.sort_unstable();
        heads.dedup();
        heads
    }
}

/// Adds sets for the segments that were loaded since the last call.
fn make_room(sets: &mut Vec<BitSet>, index: &Index<'_>) {
    for segment in index.segments.get(sets.len()..).unwrap_or_default() {
        sets.push(BitSet::new(segment.len() as usize));
    }
}

/// Returns the place of a message. A message that is not indexed gets a placeholder place derived
/// from its id, so that changes of it still meet in the fold.
async fn named(index: &mut Index<'_>, segment: u32, slot: Ref) -> Result<SegmentPlace> {
    Ok(index.resolve(segment, slot).await?.unwrap_or_else(|commit| {
        let first = commit.as_bytes().first_chunk::<4>();
        let position = first.map_or(0, |id| u32::from_le_bytes(*id));
        SegmentPlace { segment: u32::MAX, position }
    }))
}
