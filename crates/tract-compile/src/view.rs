//! The view: the messages of a commit, their order and their versions.

use std::sync::Arc;

use tract_core::{CallRef, CommitId, CommitRef, RowFields, ToolsetId};

use crate::ids::SharedIdMap;
use crate::places::{Places, Put};

/// The sort key of a row: first its key, then its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// The key assigned when the row was added.
    pub key: u64,
    /// The message's permanent id.
    pub slot: CommitId,
}

/// One message of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The message's permanent id: the id of the commit that first added it.
    pub slot: CommitId,
    /// Its position.
    pub key: u64,
    /// The commit that provides content, kind, role, form and config.
    pub version: CommitId,
    /// The commit that sets the priority; `None` for the kind's default.
    pub mark: Option<CommitId>,
    /// The call that it answers.
    pub answers: Option<CallRef>,
}

impl Row {
    /// Returns the row's position.
    pub fn row_key(&self) -> RowKey {
        RowKey { key: self.key, slot: self.slot }
    }

    /// Returns the fields in record form, with ids instead of `.`.
    pub fn fields(&self) -> RowFields {
        RowFields {
            key: self.key,
            version: self.version.into(),
            mark: self.mark.map(CommitRef::Id),
            answers: self.answers,
        }
    }
}

/// The messages and tools at a commit. Persistent: a clone shares all structure, and a change costs
/// O(log n).
#[derive(Clone, Debug, Default)]
pub struct View {
    rows: Places<Arc<Row>>,
    /// The rows of the tree by slot. The few rows of the tail are searched in order.
    by_slot: SharedIdMap<CommitId, Arc<Row>>,
    tools: Option<ToolsetId>,
    next: u64,
}

impl View {
    /// Returns the view before the first commit.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Rebuilds a view from its parts, such as those of a snapshot.
    pub fn from_parts(
        rows: impl IntoIterator<Item = Row>,
        tools: Option<ToolsetId>,
        next: u64,
    ) -> Self {
        let view = Self::of_rows(rows.into_iter().map(Arc::new).collect());
        Self { tools, next: view.next.max(next), ..view }
    }

    /// Builds a view from many rows at once. Its next key is one above their highest.
    pub(crate) fn of_rows(rows: Vec<Arc<Row>>) -> Self {
        let next = rows.iter().map(|row| row.key.saturating_add(1)).max().unwrap_or_default();
        Self {
            by_slot: rows.iter().map(|row| (row.slot, row.clone())).collect(),
            rows: rows.into_iter().map(|row| (row.row_key(), row)).collect(),
            tools: None,
            next,
        }
    }

    /// Returns the row of a message if it has one.
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

    /// Returns an iterator over the rows, in order.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = &Row> {
        self.rows.iter().inspect(|_| crate::visit(1)).map(|(_, row)| row.as_ref())
    }

    /// Returns an iterator over the rows before a place, nearest first.
    pub fn rows_before(&self, place: RowKey) -> impl Iterator<Item = &Row> {
        self.rows.before(place).rev().inspect(|_| crate::visit(1)).map(Arc::as_ref)
    }

    /// Returns an iterator over the rows after a place, nearest first.
    pub fn rows_after(&self, place: RowKey) -> impl Iterator<Item = &Row> {
        self.rows.after(place).inspect(|_| crate::visit(1)).map(Arc::as_ref)
    }

    /// Returns the number of rows, including skipped ones.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    /// Returns the tools in force; `None` if none were ever set.
    pub fn tools(&self) -> Option<ToolsetId> {
        self.tools
    }

    /// Returns the key of the next appended row. It never decreases.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns the slots whose row differs from that in another view, and possibly some others, or
    /// one twice. Does not visit parts that both views share.
    pub fn changed_slots<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = CommitId> + 'a {
        self.rows.changed_since(&other.rows).inspect(|_| crate::visit(1)).map(|place| place.slot)
    }

    /// Adds a row, or replaces the row of the same message.
    pub fn set_row(&mut self, row: Row) {
        // The key may differ from that of the present row. Inserting alone would leave the row at
        // its old place as well.
        self.remove_row(row.slot);
        self.insert(row);
    }

    /// Removes the row of a message if there is one.
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
            // Rows of the tail are not in `by_slot`. They are added when the tail moves into the
            // tree.
            Put::Recent => {}
            Put::Tree => drop(self.by_slot.insert(row.slot, row.clone())),
            Put::Moved(rows) => {
                self.by_slot.extend(rows.into_iter().map(|(place, row)| (place.slot, row)));
            }
        }
    }
}

/// Two views are equal if they have the same rows, tools and next key.
impl PartialEq for View {
    fn eq(&self, other: &Self) -> bool {
        self.tools == other.tools
            && self.next == other.next
            && self.rows.len() == other.rows.len()
            && self.rows().eq(other.rows())
    }
}

impl Eq for View {}
