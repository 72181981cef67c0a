//! The view: which messages a commit has, in which order, in which version.

use std::sync::Arc;

use tract_core::{CallRef, CommitId, CommitRef, RowFields, ToolsetId};

use crate::ids::SharedIdMap;
use crate::places::{Places, Put};

/// Where a row is: rows are ordered by key, then by slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// The key that it was added with.
    pub key: u64,
    /// The message's lasting name.
    pub slot: CommitId,
}

/// One message of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The message's lasting name: the id of the commit that first added it.
    pub slot: CommitId,
    /// Its position.
    pub key: u64,
    /// The commit whose content, kind, role, form and config show.
    pub version: CommitId,
    /// The commit whose priority holds; none means the kind's default.
    pub mark: Option<CommitId>,
    /// The call that it answers.
    pub answers: Option<CallRef>,
}

impl Row {
    /// Returns the row's position.
    pub fn row_key(&self) -> RowKey {
        RowKey { key: self.key, slot: self.slot }
    }

    /// Returns the fields as a record writes them, none of them `.`.
    pub fn fields(&self) -> RowFields {
        RowFields {
            key: self.key,
            version: self.version.into(),
            mark: self.mark.map(CommitRef::Id),
            answers: self.answers,
        }
    }
}

/// The messages and tools at a commit. Persistent: a clone shares all structure, a change costs
/// O(log n).
#[derive(Clone, Debug, Default)]
pub struct View {
    rows: Places<Arc<Row>>,
    /// The rows by slot, except the few that came last.
    by_slot: SharedIdMap<CommitId, Arc<Row>>,
    tools: Option<ToolsetId>,
    next: u64,
}

impl View {
    /// Returns the view before the first commit.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Rebuilds a view from its parts, as a snapshot keeps them.
    pub fn from_parts(
        rows: impl IntoIterator<Item = Row>,
        tools: Option<ToolsetId>,
        next: u64,
    ) -> Self {
        let view = Self::of_rows(rows.into_iter().map(Arc::new).collect());
        Self { tools, next: view.next.max(next), ..view }
    }

    /// Makes a view of many rows at once; their keys are below the next one.
    pub(crate) fn of_rows(rows: Vec<Arc<Row>>) -> Self {
        let next = rows.iter().map(|row| row.key.saturating_add(1)).max().unwrap_or_default();
        Self {
            by_slot: rows.iter().map(|row| (row.slot, row.clone())).collect(),
            rows: rows.into_iter().map(|row| (row.row_key(), row)).collect(),
            tools: None,
            next,
        }
    }

    /// Returns the row of a message, where it has one.
    pub fn get(&self, slot: CommitId) -> Option<&Row> {
        self.shared(slot).map(Arc::as_ref)
    }

    pub(crate) fn shared(&self, slot: CommitId) -> Option<&Arc<Row>> {
        let recent = self.rows.recent().find(|(place, _)| place.slot == slot);
        recent.map(|(_, row)| row).or_else(|| self.by_slot.get(&slot))
    }

    /// Returns whether the message has a row.
    pub fn contains(&self, slot: CommitId) -> bool {
        self.shared(slot).is_some()
    }

    /// Walks the rows in order; from the end with `.rev()`.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = &Row> {
        self.rows.iter().inspect(|_| crate::visit(1)).map(|(_, row)| row.as_ref())
    }

    /// Walks the rows before a place, nearest first.
    pub fn rows_before(&self, place: RowKey) -> impl Iterator<Item = &Row> {
        self.rows.before(place).rev().inspect(|_| crate::visit(1)).map(Arc::as_ref)
    }

    /// Walks the rows after a place, nearest first.
    pub fn rows_after(&self, place: RowKey) -> impl Iterator<Item = &Row> {
        self.rows.after(place).inspect(|_| crate::visit(1)).map(Arc::as_ref)
    }

    /// Returns how many rows there are, skipped ones included.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    /// Returns the tools in force; `None` when none were ever set.
    pub fn tools(&self) -> Option<ToolsetId> {
        self.tools
    }

    /// Returns the key that the next appended row gets. It never falls.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns the slots whose row differs from the one in an earlier view, perhaps some others
    /// too. What both views share is not visited.
    pub(crate) fn slots_changed_since(&self, before: &Self) -> Vec<CommitId> {
        self.rows
            .changed_since(&before.rows)
            .inspect(|_| crate::visit(1))
            .map(|place| place.slot)
            .collect()
    }

    /// Adds a row, or replaces the row of the same message.
    pub fn set_row(&mut self, row: Row) {
        self.remove_row(row.slot);
        self.insert(row);
    }

    /// Removes the row of a message, where there is one.
    pub fn remove_row(&mut self, slot: CommitId) {
        if let Some(place) = self.get(slot).map(Row::row_key) {
            self.by_slot.remove(&slot);
            self.rows.remove(&place);
        }
    }

    pub(crate) fn set_tools(&mut self, tools: Option<ToolsetId>) {
        self.tools = tools;
    }

    pub(crate) fn insert(&mut self, row: Row) {
        self.next = self.next.max(row.key.saturating_add(1));
        self.replace(row)
    }

    pub(crate) fn replace(&mut self, row: Row) {
        let row = Arc::new(row);
        match self.rows.insert(row.row_key(), row.clone()) {
            Put::Recent => {}
            Put::Tree => drop(self.by_slot.insert(row.slot, row.clone())),
            Put::Moved(rows) => {
                self.by_slot.extend(rows.into_iter().map(|(place, row)| (place.slot, row)));
            }
        }
    }
}

/// Two views are equal when they have the same rows, tools and next key.
impl PartialEq for View {
    fn eq(&self, other: &Self) -> bool {
        self.tools == other.tools
            && self.next == other.next
            && self.rows.len() == other.rows.len()
            && self.rows().eq(other.rows())
    }
}

impl Eq for View {}
