//! What is known of a line at its head, and how it continues with the commits that follow.
//!
//! All parts are persistent maps: a clone shares everything, one more commit costs O(log n).

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

/// A line at its head.
///
/// When it began at a snapshot, rows that were skipped long before are not in its view: it is
/// partial then, and a change that touches one of those rows, or might, asks for the whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) head: Option<CommitId>,
    /// The record of the head; absent at a snapshot until it is asked for.
    pub(crate) record: Option<Commit>,
    pub(crate) view: View,
    pub(crate) commit_count: u64,
    pub(crate) tools_set: bool,
    /// Set when partial: from this place on all rows are known.
    pub(crate) known_from: Option<RowKey>,
    /// The rows that count for what is compiled.
    pub(crate) context: Places<ContextEntry>,
    pub(crate) shown_count: usize,
    /// What the other rows would show, as far as known.
    pub(crate) skipped: OrdMap<RowKey, Arc<RowFact>>,
    /// The rows that answer a row's calls, sorted.
    pub(crate) answers_to: SharedIdMap<CommitId, Vector<CommitId>>,
    /// Places whose message may not have been loaded yet; each may be here more than once.
    pub(crate) unloaded: Vector<RowKey>,
    /// Tokens of the loaded messages.
    pub(crate) tokens: u64,
    pub(crate) since: SnapshotDelta,
    /// The memory of the rows; shared with the states before, so that it lasts as they do.
    pub(crate) charge: Option<Arc<Charge>>,
}

/// A line that was folded. When it was just begun, what it shows may be outside of its context, in
/// order, so that messages are added before the map is made and not looked for in it.
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
    /// Returns the line with its messages yet to be loaded.
    pub(crate) fn waiting(mut self) -> State {
        self.state.wait(self.shown);
        self.state
    }

    /// Returns the line with the messages of what is outside of its context, in order.
    pub(crate) fn with_messages(mut self, messages: Vec<Arc<LoadedMessage>>) -> State {
        for ((_, entry), loaded) in self.shown.iter_mut().zip(messages) {
            self.state.tokens += loaded.message.token_count;
            entry.message = Some(loaded);
        }
        self.state.context.extend(self.shown);
        self.state
    }
}

/// What the next snapshot has to know of the one before.
#[derive(Clone, Debug, Default)]
pub(crate) struct SnapshotDelta {
    /// The commit of the snapshot before.
    pub(crate) snapshot: Option<CommitId>,
    /// Commits that follow it, or the root.
    pub(crate) commits: u64,
    /// Skipped rows that it and its predecessors hold apart.
    pub(crate) apart: u64,
    /// Rows that went out of what is compiled since then: skipped now, or no rows any more.
    pub(crate) gone: OrdSet<CommitId>,
}

/// The next commit of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextCommit<'a> {
    pub(crate) commit: &'a Commit,
    pub(crate) changes: &'a [Change],
    pub(crate) hint: Option<LocationHint>,
}

impl NextCommit<'_> {
    /// Returns the call that it answers and the priority that it states, when it does nothing but
    /// to append a row under its own name.
    fn new_row(&self) -> Option<(Option<CallRef>, Option<Priority>)> {
        match &self.commit.op {
            Op::Append { slot: None, answers, priority, .. } if self.changes.is_empty() => {
                Some((*answers, *priority))
            }
            _ => None,
        }
    }
}

/// A line that has folded some commits and has yet to learn what the touched rows show.
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

    /// Returns what a row shows, as far as known.
    pub(crate) fn fact(&self, row: &Row) -> Option<&Arc<RowFact>> {
        let place = row.row_key();
        let fact = self.context.get(&place).map(|entry| &entry.fact);
        fact.or_else(|| self.skipped.get(&place)).filter(|fact| fact.is_known())
    }

    /// Takes the rows of a snapshot, each with what it shows.
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

    /// Takes rows that snapshots hold apart; then the state is whole.
    pub(crate) fn complete(&mut self, rows: impl IntoIterator<Item = Row>) {
        for row in rows {
            self.relate(&row);
            self.view.insert(row);
        }
        self.known_from = None;
    }

    /// Folds the appends that a line begins with, and gives the rest back: what they do to an
    /// empty view needs no look at it. `None` when it begins with something else.
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
            // Which of them count for what is compiled depends on those that are shown.
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

    /// Puts shown rows into the context, where they wait for their messages.
    fn wait(&mut self, rows: Vec<(RowKey, ContextEntry)>) {
        self.unloaded.extend(rows.iter().map(|(place, _)| *place));
        self.context.extend(rows);
    }

    /// Folds commits, oldest first; each must continue the one before. `None` when a row that the
    /// partial view lacks is, or may be, concerned.
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
                // What a partial view calls absent may be a row that it lacks.
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

/// Whether a commit may concern a row that a partial view lacks. A row under a name of old may be
/// there already, or be answered by rows that are lacking; so may the call of an answer.
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
    /// Removes what is known of a row.
    pub(crate) fn take(&mut self, row: &Row) -> PriorRow {
        let place = row.row_key();
        if let Some(call) = row.answers
            && let Some(answers) = self.answers_to.get_mut(&call.slot)
        {
            // Sorted: a message may have thousands of answers, and all may go at once.
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
        // A placeholder for a fact that was never looked up says nothing.
        PriorRow { fact: fact.filter(|fact| fact.is_known()), message }
    }

    /// Adds what is known of a row; a skipped one waits for [`classify`](Self::classify).
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

    /// Notes which call a row answers.
    fn relate(&mut self, row: &Row) {
        if let Some(call) = row.answers {
            let answers = self.answers_to.entry(call.slot).or_default();
            if let Err(at) = answers.binary_search(&row.slot) {
                answers.insert(at, row.slot);
            }
        }
    }

    /// Decides whether a skipped row counts for what is compiled.
    pub(crate) fn classify(&mut self, slot: CommitId, is_touched: bool, gone: &mut Vec<CommitId>) {
        let Some(row) = self.view.shared(slot).cloned() else {
            // Only where earlier snapshots hold rows apart could one of them be this one.
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

/// What was known of a row before it was touched.
#[derive(Debug, Default)]
pub(crate) struct PriorRow {
    pub(crate) fact: Option<Arc<RowFact>>,
    pub(crate) message: Option<Arc<LoadedMessage>>,
}
