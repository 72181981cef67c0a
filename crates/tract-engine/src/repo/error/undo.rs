//! The conflict of an undo.

use tract_core::time::format_rfc3339;
use tract_core::{LogEntry, RefName};

/// The reason why an operation cannot be undone or redone: a ref that it moved was moved since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoConflict {
    /// `undo` or `redo`.
    pub verb: &'static str,
    /// The verb of the operation that should be undone or redone.
    pub what: String,
    /// The ref.
    pub name: RefName,
    /// The later move, if the ref log still has it.
    pub by: Option<LogEntry>,
}

impl std::fmt::Display for UndoConflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { verb, what, name, by } = self;
        write!(f, "cannot {verb} {what:?}: {} was moved since", name.describe())?;
        let Some(LogEntry { note, .. }) = by else { return Ok(()) };
        write!(f, " by {:?}", note.what)?;
        if !note.who.is_empty() {
            write!(f, " of {:?}", note.who)?;
        }
        if let Some(at) = format_rfc3339(note.at) {
            write!(f, " at {at}")?;
        }
        write!(f, " (operation {})", note.operation)
    }
}
