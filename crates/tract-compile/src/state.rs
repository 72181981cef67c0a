//! The state of a history at its head, and the fold of further commits onto it.
//!
//! All parts are persistent maps: a clone shares everything, and one more commit costs O(log n).
//!
//! A fold has two halves. [`State::fold`] applies the changes to the view and collects the touched
//! rows. `settle` then needs the records of new versions and marks, so the caller reads them from
//! the store in between.
//!
//! A state read from a snapshot lacks the rows that were skipped long ago. It is *partial*. Any
//! change that touches a missing row, or might, must not be folded onto it: absent and missing rows
//! look the same, and the result would differ from a fold from the root. Such a fold returns
//! `None`, and the caller repeats it on a whole state.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet, Vector};
use tract_core::store::LocationHint;
use tract_core::{CallRef, Change, Commit, CommitId, Op, Priority};

use crate::cache::Charge;
use crate::fact::{ContextEntry, LoadedMessage, RowFact};
use crate::fold::{InvalidChange, fold_onto};
use crate::ids::{IdSet, SharedIdMap};
use crate::places::Places;
use crate::view::{Row, RowKey, View};

/// The state of a history at its head; see the module documentation for partial states.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) head: Option<CommitId>,
    /// The head commit; absent in a state read from a snapshot until it is needed.
    pub(crate) record: Option<Commit>,
    pub(crate) view: View,
    pub(crate) commit_count: u64,
    pub(crate) tools_set: bool,
    /// Set if the state is partial: all rows from this place on are known.
    pub(crate) known_from: Option<RowKey>,
    /// The rows of the context: shown ones, and skipped ones whose call or answer is shown.
    pub(crate) context: Places<ContextEntry>,
    pub(crate) shown_count: usize,
    /// The facts of the other rows, as far as known.
    pub(crate) skipped: OrdMap<RowKey, Arc<RowFact>>,
    /// For each slot, the rows that answer its calls, sorted.
    pub(crate) answers_to: SharedIdMap<CommitId, Vector<CommitId>>,
    /// Rows whose message may not be loaded yet. May contain duplicates.
    pub(crate) unloaded: Vector<RowKey>,
    /// Number of tokens of the loaded messages.
    pub(crate) tokens: u64,
    pub(crate) since: SnapshotDelta,
    /// The charged memory of the rows. Successor states share it, so it lasts as long as any of
    /// them.
    pub(crate) charge: Option<Arc<Charge>>,
}

/// The result of a fold. For a history that starts at its root, the shown rows may be in `shown`
/// instead of the context, in order, so that their messages are filled in before the map is built
/// and need no lookup.
#[derive(Debug)]
pub(crate) struct FoldedState {
    pub(crate) state: State,
    pub(crate) shown: Vec<(RowKey, ContextEntry)>,
}

impl From<State> for FoldedState {
    fn from(state: State) -> Self {
        Self { state, shown: Vec::new() }
    }
}

impl FoldedState {
    /// Returns the state without loading messages.
    pub(crate) fn waiting(mut self) -> State {
        self.state.wait(self.shown);
        self.state
    }

    /// Returns the state with the messages of `shown`, in order.
    pub(crate) fn with_messages(mut self, messages: Vec<Arc<LoadedMessage>>) -> State {
        for ((_, entry), loaded) in self.shown.iter_mut().zip(messages) {
            self.state.tokens += loaded.message.token_count;
            entry.message = Some(loaded);
        }
        self.state.context.extend(self.shown);
        self.state
    }
}

/// The data about the previous snapshot that the next one needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct SnapshotDelta {
    /// The commit of the previous snapshot.
    pub(crate) snapshot: Option<CommitId>,
    /// Number of commits since that snapshot, or since the root.
    pub(crate) commits: u64,
    /// Number of separate rows in that snapshot and its predecessors.
    pub(crate) apart: u64,
    /// Rows that left the context since that snapshot: skipped or removed.
    pub(crate) gone: OrdSet<CommitId>,
}

/// The next commit of a history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextCommit<'a> {
    pub(crate) commit: &'a Commit,
    pub(crate) changes: &'a [Change],
    pub(crate) hint: Option<LocationHint>,
}

impl NextCommit<'_> {
    /// Returns the call that the commit answers and the priority that it sets, if all it does is to
    /// append a row in a new slot.
    fn new_row(&self) -> Option<(Option<CallRef>, Option<Priority>)> {
        match &self.commit.op {
            Op::Append { slot: None, answers, priority, .. } if self.changes.is_empty() => {
                Some((*answers, *priority))
            }
            _ => None,
        }
    }
}

/// A folded history whose changed rows still need their facts.
#[derive(Debug)]
pub(crate) struct Folded<'a> {
    pub(crate) base: &'a State,
    pub(crate) nexts: &'a [NextCommit<'a>],
    pub(crate) view: View,
    pub(crate) touched: Vec<CommitId>,
}

impl State {
    pub(crate) fn is_partial(&self) -> bool {
        self.known_from.is_some()
    }

    /// Returns the facts of a row, as far as known.
    pub(crate) fn fact(&self, row: &Row) -> Option<&Arc<RowFact>> {
        let place = row.row_key();
        let fact = self.context.get(&place).map(|entry| &entry.fact);
        fact.or_else(|| self.skipped.get(&place)).filter(|fact| fact.is_known())
    }

    /// Adds the rows of a snapshot with their facts.
    pub(crate) fn restore(&mut self, rows: Vec<(Row, Option<RowFact>)>) {
        let mut skipped = Vec::new();
        for (row, fact) in rows {
            if fact.as_ref().is_none_or(|fact| !fact.is_shown()) {
                skipped.push(row.slot);
            }
            let Some(row) = self.view.shared(row.slot).cloned() else { continue };
            self.put(row, Arc::new(fact.unwrap_or_else(RowFact::nothing)), None);
        }
        for slot in skipped {
            self.classify(slot, false, &mut Vec::new());
        }
    }

    /// Adds the separate rows of snapshots. The state is whole afterwards.
    pub(crate) fn complete(&mut self, rows: impl IntoIterator<Item = Row>) {
        for row in rows {
            self.relate(&row);
            self.view.insert(row);
        }
        self.known_from = None;
    }

    /// Folds the leading plain appends of a history and returns the remaining commits. On an empty
    /// view these appends cannot fail, so they need no lookups. Returns `None` if the history
    /// starts with another operation.
    pub(crate) fn begin<'a>(
        nexts: &'a [NextCommit<'a>],
    ) -> (Option<FoldedState>, &'a [NextCommit<'a>]) {
        let run = nexts.iter().take_while(|next| next.new_row().is_some()).count();
        let (run, rest) = nexts.split_at(run);
        let Some(last) = run.last() else { return (None, rest) };
        let mut state = Self::default();
        let mut rows = Vec::with_capacity(run.len());
        let mut shown = Vec::with_capacity(run.len());
        let (mut skipped, mut before) = (Vec::new(), None);
        for (key, next) in (0..).zip(run) {
            let Some((answers, priority)) = next.new_row() else { continue };
            let id = next.commit.id();
            let mut fact = RowFact::of_version(next.commit, next.hint);
            fact.mark(priority);
            fact.joined = fact.joins.is_some() && fact.joins == before;
            let mark = priority.map(|_| id);
            let row = Arc::new(Row { slot: id, key, version: id, mark, answers });
            rows.push(row.clone());
            let (place, fact) = (row.row_key(), Arc::new(fact));
            if fact.is_shown() {
                state.relate(&row);
                state.shown_count += 1;
                shown.push((place, ContextEntry { row, fact, message: None }));
            } else {
                skipped.push(id);
                state.put(row, fact, None);
            }
            state.tools_set |= next.commit.active.is_some();
            before = Some(id);
        }
        state.view = View::of_rows(rows);
        if !skipped.is_empty() {
            // A skipped row belongs to the context only if its call or answer is shown, so the
            // shown rows have to be in place first.
            state.wait(std::mem::take(&mut shown));
            let mut gone = Vec::new();
            skipped.into_iter().for_each(|slot| state.classify(slot, true, &mut gone));
            state.since.gone.extend(gone);
        }
        state.view.set_tools(last.commit.toolset);
        state.commit_count = run.len() as u64;
        state.since.commits = run.len() as u64;
        state.head = Some(last.commit.id());
        state.record = Some(last.commit.clone());
        (Some(FoldedState { state, shown }), rest)
    }

    /// Adds shown rows to the context, without their messages.
    fn wait(&mut self, rows: Vec<(RowKey, ContextEntry)>) {
        self.unloaded.extend(rows.iter().map(|(place, _)| *place));
        self.context.extend(rows);
    }

    /// Folds commits, oldest first; each must continue the one before. Returns `None` if they
    /// touch, or may touch, a row that a partial view lacks.
    pub(crate) fn fold<'a>(
        &'a self,
        nexts: &'a [NextCommit<'a>],
    ) -> Result<Option<Folded<'a>>, InvalidChange> {
        let mut view = self.view.clone();
        let mut touched = Vec::with_capacity(nexts.len());
        let mut seen = IdSet::with_capacity_and_hasher(nexts.len(), Default::default());
        for next in nexts {
            if self.is_partial() && may_touch_unknown(&view, next) {
                return Ok(None);
            }
            match fold_onto(&mut view, next.commit, next.changes) {
                // The row may exist but be missing from this partial view.
                Err(_) if self.is_partial() => return Ok(None),
                folded => folded?,
            }
            for slot in slots(next) {
                if seen.insert(slot) {
                    touched.push(slot);
                }
            }
        }
        Ok(Some(Folded { base: self, nexts, view, touched }))
    }
}

fn slots<'a>(next: &'a NextCommit<'a>) -> impl Iterator<Item = CommitId> + 'a {
    let id = next.commit.id();
    let appended = match &next.commit.op {
        Op::Append { slot, .. } => Some(slot.unwrap_or(id)),
        _ => None,
    };
    appended.into_iter().chain(next.changes.iter().map(move |change| change.slot().resolve(id)))
}

/// Returns whether a commit may concern a row that a partial view lacks. A slot of an earlier
/// commit may still have a missing row, or be answered by missing rows; a call that is not in the
/// view may be in a missing row.
fn may_touch_unknown(view: &View, next: &NextCommit<'_>) -> bool {
    let id = next.commit.id();
    let unknown_call =
        |answers: Option<CallRef>| answers.is_some_and(|call| !view.contains(call.slot));
    let appended = match &next.commit.op {
        Op::Append { slot, answers, .. } => {
            slot.is_some_and(|slot| slot != id) || unknown_call(*answers)
        }
        _ => false,
    };
    appended
        || next.changes.iter().any(|change| match change {
            Change::Add { slot, row } => slot.resolve(id) != id || unknown_call(row.answers),
            Change::Remove { .. } | Change::Version { .. } | Change::Mark { .. } => false,
        })
}

impl State {
    /// Removes a row's facts and message, and returns them.
    pub(crate) fn take(&mut self, row: &Row) -> PriorRow {
        let place = row.row_key();
        if let Some(call) = row.answers
            && let Some(answers) = self.answers_to.get_mut(&call.slot)
        {
            // Sorted, because a message may have thousands of answers that are all removed at once.
            let found = answers.binary_search_by(|slot| {
                crate::visit(1);
                slot.cmp(&row.slot)
            });
            if let Ok(at) = found {
                answers.remove(at);
            }
            if answers.is_empty() {
                self.answers_to.remove(&call.slot);
            }
        }
        let (fact, message) = match self.context.remove(&place) {
            Some(entry) => {
                self.shown_count -= usize::from(entry.fact.is_shown());
                (Some(entry.fact), entry.message)
            }
            None => (self.skipped.remove(&place), None),
        };
        self.tokens -= message.as_ref().map_or(0, |loaded| loaded.message.token_count);
        // A placeholder contains no facts.
        PriorRow { fact: fact.filter(|fact| fact.is_known()), message }
    }

    /// Adds a row's facts and message. For a skipped row, call [`classify`](Self::classify)
    /// afterwards.
    pub(crate) fn put(
        &mut self,
        row: Arc<Row>,
        fact: Arc<RowFact>,
        message: Option<Arc<LoadedMessage>>,
    ) {
        let place = row.row_key();
        self.relate(&row);
        if !fact.is_shown() {
            self.skipped.insert(place, fact);
            return;
        }
        self.shown_count += 1;
        match &message {
            Some(loaded) => self.tokens += loaded.message.token_count,
            None => self.unloaded.push_back(place),
        }
        self.context.insert(place, ContextEntry { row, fact, message });
    }

    /// Records the call that a row answers.
    fn relate(&mut self, row: &Row) {
        if let Some(call) = row.answers {
            let answers = self.answers_to.entry(call.slot).or_default();
            if let Err(at) = answers.binary_search(&row.slot) {
                answers.insert(at, row.slot);
            }
        }
    }

    /// Decides whether a skipped row belongs to the context: it does if its call or one of its
    /// answers is shown.
    ///
    /// Rows that leave the context are pushed to `gone`. The next snapshot writes them to its
    /// separate part; a row missing from both parts would be lost to every history read from it.
    pub(crate) fn classify(&mut self, slot: CommitId, is_touched: bool, gone: &mut Vec<CommitId>) {
        let Some(row) = self.view.shared(slot).cloned() else {
            // An earlier snapshot may contain this slot's row in its separate part, so its removal
            // has to be recorded. If no snapshot has separate rows, there is nothing to override.
            match (is_touched, self.since.apart > 0) {
                (true, true) => gone.push(slot),
                (true, false) => drop(self.since.gone.remove(&slot)),
                (false, _) => {}
            }
            return;
        };
        let place = row.row_key();
        if self.is_shown(slot) {
            self.since.gone.remove(&slot);
            return;
        }
        let calls = row.answers.is_some_and(|call| self.is_shown(call.slot));
        let answered = || {
            let answers = self.answers_to.get(&slot).into_iter().flatten();
            answers.inspect(|_| crate::visit(1)).any(|answer| self.is_shown(*answer))
        };
        let was_in_context = self.context.contains(&place);
        if calls || answered() {
            let fact = self.skipped.remove(&place);
            if !was_in_context {
                let fact = fact.unwrap_or_else(|| Arc::new(RowFact::nothing()));
                self.context.insert(place, ContextEntry { row, fact, message: None });
            }
            self.since.gone.remove(&slot);
        } else {
            if let Some(entry) = self.context.remove(&place) {
                self.skipped.insert(place, entry.fact);
            }
            if is_touched || was_in_context {
                gone.push(slot);
            }
        }
    }

    fn is_shown(&self, slot: CommitId) -> bool {
        let entry = self.view.get(slot).and_then(|row| self.context.get(&row.row_key()));
        entry.is_some_and(|entry| entry.fact.is_shown())
    }
}

/// The facts and the message of a row before it was touched.
#[derive(Debug, Default)]
pub(crate) struct PriorRow {
    pub(crate) fact: Option<Arc<RowFact>>,
    pub(crate) message: Option<Arc<LoadedMessage>>,
}
