//! The second half of a fold: updates the facts and the context for the touched rows.

use std::sync::Arc;

use tract_core::store::LocationHint;
use tract_core::{Commit, CommitId, Op};

use crate::cache::Charge;
use crate::fact::{LoadedMessage, RowFact, stated_priority};
use crate::ids::{IdMap, IdSet};
use crate::state::{Folded, NextCommit, PriorRow, State};
use crate::view::{Row, View};

/// Records by id: those of the folded commits, and those looked up.
pub(crate) struct Records<'a> {
    nexts: IdMap<CommitId, NextCommit<'a>>,
    others: IdMap<CommitId, Commit>,
}

impl Records<'_> {
    fn get(&self, id: CommitId) -> Option<(&Commit, Option<LocationHint>)> {
        match self.nexts.get(&id) {
            Some(next) => Some((next.commit, next.hint)),
            None => self.others.get(&id).map(|commit| (commit, None)),
        }
    }
}

impl<'a> Folded<'a> {
    /// Returns the commits whose records are needed in addition to the folded ones.
    pub(crate) fn needed_commits(&self) -> Vec<CommitId> {
        let folded: IdSet<CommitId> = self.nexts.iter().map(|next| next.commit.id()).collect();
        let mut wanted: Vec<CommitId> = Vec::new();
        let mut want = |id: CommitId| {
            if !folded.contains(&id) {
                wanted.push(id);
            }
        };
        for slot in &self.touched {
            let Some(row) = self.view.get(*slot) else { continue };
            let before = self.base.view.get(*slot);
            let fact = before.and_then(|before| self.base.fact(before));
            if fact.is_none() || before.is_none_or(|before| before.version != row.version) {
                want(row.version);
            }
            if let Some(mark) = row.mark
                && (fact.is_none() || before.is_none_or(|before| before.mark != row.mark))
            {
                want(mark);
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// Updates the facts of the touched rows and the context. `others` contains the records
    /// returned by `needed_commits`; a row whose record is missing there is treated as having no
    /// content. Returns `None` if a row that a partial view lacks may be concerned.
    pub(crate) fn settle(self, others: IdMap<CommitId, Commit>) -> Option<State> {
        let Self { base, nexts, view, touched } = self;
        let nexts_by_id = nexts.iter().map(|next| (next.commit.id(), *next)).collect();
        let records = Records { nexts: nexts_by_id, others };
        let moved = moved(base, &view, &touched);
        let mut state = State { view, ..base.clone() };
        let mut related: Vec<CommitId> = Vec::new();
        let mut out_of_context: Vec<CommitId> = Vec::new();

        // Remove all old rows before adding new ones: a new row may have the place of a removed
        // one.
        let mut before = IdMap::with_capacity_and_hasher(touched.len(), Default::default());
        for slot in &touched {
            let Some(row) = base.view.get(*slot) else { continue };
            let entry = state.take(row);
            related.extend(row.answers.map(|call| call.slot));
            before.insert(*slot, (*row, entry));
        }
        // Successors that were in the context; `classify` decides below whether they stay there.
        let mut taken: IdSet<CommitId> = IdSet::default();
        for slot in touched.iter().chain(moved.successors.iter()) {
            let Some(row) = state.view.shared(*slot).cloned() else {
                related.push(*slot);
                continue;
            };
            let was = match before.remove(slot) {
                Some(was) => Some(was),
                // A successor: its place is unchanged, but a different row precedes it.
                None => base.view.get(*slot).map(|row| {
                    if state.context.contains(&row.row_key()) {
                        taken.insert(*slot);
                    }
                    (*row, state.take(row))
                }),
            };
            let has_moved = moved.all.as_ref().is_none_or(|all| all.contains(slot));
            let (fact, message) = known(&row, was.as_ref(), &records, &state, has_moved)?;
            // A newly shown row may bring rows that a partial view lacks into the context.
            let was_skipped =
                was.is_some_and(|(_, old)| old.fact.is_none_or(|old| !old.is_shown()));
            if state.is_partial() && was_skipped && fact.is_shown() {
                return None;
            }
            related.extend(row.answers.map(|call| call.slot));
            // Most rows are shown and neither call nor answer; they do not affect other rows.
            if !fact.is_shown() || !state.since.gone.is_empty() {
                related.push(*slot);
            }
            state.put(row, fact, message);
        }
        if !state.answers_to.is_empty() {
            for slot in touched.iter().chain(moved.successors.iter()) {
                related.extend(state.answers_to.get(slot).into_iter().flatten());
            }
        }
        related.sort_unstable();
        related.dedup();
        let is_touched: IdSet<CommitId> = touched.iter().copied().collect();
        for slot in related {
            let may_leave = is_touched.contains(&slot) || taken.contains(&slot);
            state.classify(slot, may_leave, &mut out_of_context);
        }
        for slot in out_of_context {
            state.since.gone.insert(slot);
        }
        let mut active = base.record.as_ref().and_then(|record| record.active_toolset());
        for next in nexts {
            let commit = next.commit;
            state.commit_count += 1;
            state.since.commits += 1;
            // Tools that a merge brings in were set permanently on the other side.
            let brought =
                matches!(commit.op, Op::Merge { .. }) && commit.active_toolset() != active;
            state.tools_set |= matches!(commit.op, Op::Tools) || commit.active.is_some() || brought;
            active = commit.active_toolset();
        }
        if let Some(last) = nexts.last() {
            state.head = Some(last.commit.id());
            state.record = Some(last.commit.clone());
        }
        Some(state)
    }
}

/// Rows that may directly follow a different row now.
struct MovedRows {
    /// Touched and untouched ones; `None` for all rows.
    all: Option<IdSet<CommitId>>,
    /// The untouched ones that join their predecessor.
    successors: Vec<CommitId>,
}

fn moved(base: &State, view: &View, touched: &[CommitId]) -> MovedRows {
    if base.view.is_empty() {
        return MovedRows { all: None, successors: Vec::new() };
    }
    let mut all = IdSet::default();
    let mut successors = Vec::new();
    let is_touched: IdSet<CommitId> = touched.iter().copied().collect();
    for slot in touched {
        let (before, after) = (base.view.get(*slot), view.get(*slot));
        let (before, after) = (before.map(Row::row_key), after.map(Row::row_key));
        if before == after {
            continue;
        }
        all.insert(*slot);
        for place in [before, after].into_iter().flatten() {
            // Everything after an appended row was appended too, so it is already in `touched`.
            if place.key >= base.view.next() {
                continue;
            }
            let Some(next) = view.rows_after(place).next() else { continue };
            let joins = base.view.get(next.slot).and_then(|row| base.fact(row)?.joins);
            if !all.insert(next.slot) || is_touched.contains(&next.slot) {
                continue;
            }
            if joins.is_some() {
                successors.push(next.slot);
            }
        }
    }
    MovedRows { all: Some(all), successors }
}

/// Computes the facts of a row and its message, from the earlier ones and from records. Returns
/// `None` if a partial view lacks the row before it.
fn known(
    row: &Row,
    was: Option<&(Row, PriorRow)>,
    records: &Records<'_>,
    state: &State,
    has_moved: bool,
) -> Option<(Arc<RowFact>, Option<Arc<LoadedMessage>>)> {
    let old = was.and_then(|(row, old)| Some((row, old.fact.as_ref()?, old.message.as_ref())));
    let same_version = old.filter(|(before, ..)| before.version == row.version);
    let mut fact = match same_version {
        Some((_, fact, _)) => RowFact::clone(fact),
        None => match records.get(row.version) {
            Some((version, hint)) => RowFact::of_version(version, hint),
            None => RowFact::nothing(),
        },
    };
    fact.mark(match (row.mark, old) {
        (None, _) => None,
        (Some(_), Some((before, old, _))) if before.mark == row.mark => old.marked,
        (Some(mark), _) => records.get(mark).and_then(|(mark, _)| stated_priority(mark)),
    });
    fact.joined = match (fact.joins, old) {
        (None, _) => false,
        (joins, Some((_, old, _))) if !has_moved && old.joins == joins => old.joined,
        (Some(joins), _) => is_right_before(state, row, joins)?,
    };
    let message = same_version.and_then(|(before, was, message)| {
        let same = before.answers == row.answers
            && was.priority == fact.priority
            && was.joined == fact.joined;
        let loaded = message?;
        if !fact.is_shown() {
            return None;
        }
        if same {
            return Some(Arc::clone(loaded));
        }
        let mut message = loaded.message.clone();
        message.priority = fact.priority;
        message.answers = row.answers;
        message.joins = fact.joins.filter(|_| fact.joined);
        let charge = loaded.charge.as_ref().map(Charge::again);
        Some(Arc::new(LoadedMessage { message, charge }))
    });
    Some(match same_version {
        Some((_, was, _)) if **was == fact => (Arc::clone(was), message),
        _ => (Arc::new(fact), message),
    })
}

/// Returns whether a slot's row directly precedes a row; `None` if a partial view cannot decide it.
fn is_right_before(state: &State, row: &Row, slot: CommitId) -> Option<bool> {
    if let Some(known_from) = state.known_from {
        let place = state.view.get(slot).map(Row::row_key);
        if place.is_none_or(|place| place < known_from) {
            return None;
        }
    }
    let before = state.view.rows_before(row.row_key()).next();
    Some(before.is_some_and(|before| before.slot == slot))
}
