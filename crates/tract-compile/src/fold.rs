//! The fold: applies the changes of a commit to a view. It knows four changes and one operation
//! (`Append`, whose change is its message), so that better planners never alter the meaning of old
//! commits.

use tract_core::{Change, Commit, CommitId, CommitRef, Op, RowFields};

use crate::view::{Row, View};

/// A change that does not fit the view it applies to: the commit is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("commit {commit}: change {index} of message {slot}: {what}")]
pub struct InvalidChange {
    /// The commit.
    pub commit: CommitId,
    /// The index of the change in the commit's list, from 0.
    pub index: usize,
    /// The message that the change applies to.
    pub slot: CommitId,
    /// The reason.
    pub what: &'static str,
}

/// Applies the changes of a commit to a view. `changes` is the commit's list, whether the record
/// contains it or links to it.
///
/// An `Append` has no changes in its record: it adds a row at the view's next key.
///
/// # Errors
/// [`InvalidChange`] if a change expects something that the view does not contain. The given view
/// is never modified: views are values.
pub fn fold(view: &View, commit: &Commit, changes: &[Change]) -> Result<View, InvalidChange> {
    let mut folded = view.clone();
    fold_onto(&mut folded, commit, changes)?;
    Ok(folded)
}

/// Folds in place, which saves the copies that a shared view needs. After an error the view is
/// partly changed and must be dropped.
pub(crate) fn fold_onto(
    view: &mut View,
    commit: &Commit,
    changes: &[Change],
) -> Result<(), InvalidChange> {
    fold_rows(view, commit, changes)?;
    view.set_tools(commit.toolset);
    Ok(())
}

/// The rows of a view in any representation: the interface that the fold works on.
pub trait FoldRows {
    /// Returns the row of a message if there is one.
    fn row(&self, slot: CommitId) -> Option<Row>;

    /// Returns the key of the next appended row.
    fn next_key(&self) -> u64;

    /// Adds a row, or replaces the row of the same message, which has the same key. Afterwards the
    /// next key is greater than the row's key.
    fn put_row(&mut self, row: Row);

    /// Removes the row of a message, which must exist.
    fn remove_row(&mut self, slot: CommitId);
}

impl FoldRows for View {
    fn row(&self, slot: CommitId) -> Option<Row> {
        self.get(slot).copied()
    }

    fn next_key(&self) -> u64 {
        self.next()
    }

    fn put_row(&mut self, row: Row) {
        self.insert(row);
    }

    fn remove_row(&mut self, slot: CommitId) {
        self.remove_row(slot);
    }
}

/// Folds a commit onto rows, ignoring its tools. After an error the rows are partly changed and
/// must be dropped.
///
/// # Errors
/// As [`fold`].
pub fn fold_rows(
    rows: &mut impl FoldRows,
    commit: &Commit,
    changes: &[Change],
) -> Result<(), InvalidChange> {
    if let Some(change) = append_change(rows.next_key(), &commit.op) {
        fold_change(rows, commit.id(), 0, &change)?;
    }
    for (index, change) in changes.iter().enumerate() {
        fold_change(rows, commit.id(), index, change)?;
    }
    Ok(())
}

/// Returns the change that an `Append` makes to this view; `None` for other operations.
pub fn appended(view: &View, commit: &Commit) -> Option<Change> {
    append_change(view.next(), &commit.op)
}

fn append_change(next: u64, op: &Op) -> Option<Change> {
    let Op::Append { slot, answers, priority, .. } = op else { return None };
    Some(Change::Add {
        slot: slot.map_or(CommitRef::This, CommitRef::Id),
        row: RowFields {
            key: next,
            version: CommitRef::This,
            mark: priority.map(|_| CommitRef::This),
            answers: *answers,
        },
    })
}

/// Returns the change that reverts another one.
///
/// ```
/// use tract_compile::inverse;
/// use tract_core::{Change, CommitId, CommitRef};
/// let slot = CommitRef::Id(CommitId::from_bytes([1; 32]));
/// let edit = Change::Version { slot, from: slot, to: CommitRef::This };
/// assert_eq!(inverse(&edit), Change::Version { slot, from: CommitRef::This, to: slot });
/// ```
pub fn inverse(change: &Change) -> Change {
    match *change {
        Change::Add { slot, row } => Change::Remove { slot, row },
        Change::Remove { slot, row } => Change::Add { slot, row },
        Change::Version { slot, from, to } => Change::Version { slot, from: to, to: from },
        Change::Mark { slot, from, to } => Change::Mark { slot, from: to, to: from },
    }
}

/// Returns a change with every `.` replaced by the id of the commit that contains it.
pub fn resolved(change: &Change, commit: CommitId) -> Change {
    let id = |this: CommitRef| CommitRef::Id(this.resolve(commit));
    let fields =
        |row: RowFields| RowFields { version: id(row.version), mark: row.mark.map(id), ..row };
    match *change {
        Change::Add { slot, row } => Change::Add { slot: id(slot), row: fields(row) },
        Change::Remove { slot, row } => Change::Remove { slot: id(slot), row: fields(row) },
        Change::Version { slot, from, to } => {
            Change::Version { slot: id(slot), from: id(from), to: id(to) }
        }
        Change::Mark { slot, from, to } => {
            Change::Mark { slot: id(slot), from: from.map(id), to: to.map(id) }
        }
    }
}

/// Applies one change of a commit, the `index`th of its list.
///
/// # Errors
/// [`InvalidChange`] if it expects something that the rows do not contain.
pub fn fold_change(
    rows: &mut impl FoldRows,
    commit: CommitId,
    index: usize,
    change: &Change,
) -> Result<(), InvalidChange> {
    crate::visit(1);
    // Every change states exactly what it expects. Do not relax a check to accept a commit that
    // does not fit: another reader would guess differently, and one head would have two contexts.
    let slot = change.slot().resolve(commit);
    let invalid = |what| InvalidChange { commit, index, slot, what };
    let row = |fields: &RowFields| Row {
        slot,
        key: fields.key,
        version: fields.version.resolve(commit),
        mark: fields.mark.map(|mark| mark.resolve(commit)),
        answers: fields.answers,
    };
    let present = rows.row(slot);
    match change {
        Change::Add { row: fields, .. } => {
            if present.is_some() {
                return Err(invalid("it adds a row that is there already"));
            }
            // A key may be an old one, when a revert restores a row to its old position. It must
            // not skip ahead: the next key is one above the highest key and must not overflow.
            if fields.key > rows.next_key() || fields.key == u64::MAX {
                return Err(invalid("its key lies beyond the next one"));
            }
            rows.put_row(row(fields));
        }
        Change::Remove { row: fields, .. } => match present {
            Some(present) if present == row(fields) => rows.remove_row(slot),
            Some(_) => return Err(invalid("the row that it removes is a different one")),
            None => return Err(invalid("the row that it removes is not there")),
        },
        Change::Version { from, to, .. } => match present {
            Some(present) if present.version == from.resolve(commit) => {
                rows.put_row(Row { version: to.resolve(commit), ..present });
            }
            Some(_) => return Err(invalid("the version that it replaces is a different one")),
            None => return Err(invalid("the row whose version it replaces is not there")),
        },
        Change::Mark { from, to, .. } => match present {
            Some(present) if present.mark == from.map(|mark| mark.resolve(commit)) => {
                rows.put_row(Row { mark: to.map(|mark| mark.resolve(commit)), ..present });
            }
            Some(_) => return Err(invalid("the mark that it replaces is a different one")),
            None => return Err(invalid("the row whose mark it replaces is not there")),
        },
    }
    Ok(())
}
