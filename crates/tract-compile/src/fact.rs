//! What a row shows, taken from the records of its version and its mark.

use std::sync::Arc;

use tract_core::store::LocationHint;
use tract_core::{BlobId, Commit, CommitId, JsonText, Kind, Message, Op, Priority, Role};

use crate::cache::Charge;
use crate::view::Row;

/// What a row shows, as far as records tell: everything but the content itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFact {
    /// The content of its version.
    pub content: Option<BlobId>,
    /// The kind of that content.
    pub kind: Option<Kind>,
    /// Who says it.
    pub role: Role,
    /// Dialect and revision that it came in.
    pub form: Option<Arc<str>>,
    /// The slot whose provider message it continues, as its record says.
    pub joins: Option<CommitId>,
    /// Whether that slot's row is right before it in the view.
    pub joined: bool,
    /// The provider's own bytes.
    pub verbatim: Option<BlobId>,
    /// Model and parameters of its version.
    pub generation_config: Option<JsonText>,
    /// How much it matters: what its mark says, else its kind's default.
    pub priority: Priority,
    /// What its mark says.
    pub(crate) marked: Option<Priority>,
    pub(crate) hint: Option<LocationHint>,
}

impl RowFact {
    /// Returns whether the row is compiled, that is, its priority is above `Skip`.
    pub fn is_shown(&self) -> bool {
        self.priority > Priority::Skip
    }

    /// Whether this was looked up; else it is a placeholder for the fact of a skipped row, which
    /// was not needed.
    pub(crate) fn is_known(&self) -> bool {
        self.kind.is_some() || self.is_shown()
    }

    /// Returns what a version says; its priority is the kind's default until a mark is read.
    pub(crate) fn of_version(version: &Commit, hint: Option<LocationHint>) -> Self {
        let kind = version.kind.clone();
        Self {
            content: version.content,
            role: version.effective_role().unwrap_or(Role::User),
            form: version.form.as_deref().map(Arc::from),
            joins: version.joins,
            verbatim: version.verbatim,
            generation_config: version.generation_config.clone(),
            priority: default_priority(kind.as_ref()),
            kind,
            hint,
            ..Self::nothing()
        }
    }

    /// Sets what the mark says.
    pub(crate) fn mark(&mut self, marked: Option<Priority>) {
        self.marked = marked;
        self.priority = marked.unwrap_or_else(|| default_priority(self.kind.as_ref()));
    }

    /// Returns what a row shows whose version cannot be read: nothing.
    pub(crate) fn nothing() -> Self {
        Self {
            content: None,
            kind: None,
            role: Role::User,
            form: None,
            joins: None,
            joined: false,
            verbatim: None,
            generation_config: None,
            priority: Priority::Skip,
            marked: None,
            hint: None,
        }
    }

    /// Returns what a message says of itself.
    pub(crate) fn of_message(message: &Message) -> Self {
        Self {
            kind: Some(message.content.kind()),
            role: message.role.clone(),
            form: message.form.as_deref().map(Arc::from),
            joins: message.joins,
            joined: message.joins.is_some(),
            verbatim: message.verbatim.as_ref().map(|blob| blob.id()),
            generation_config: message.generation_config.clone(),
            priority: message.priority,
            marked: Some(message.priority),
            ..Self::nothing()
        }
    }
}

/// A row that nothing can be shown of is skipped unless a mark insists.
fn default_priority(kind: Option<&Kind>) -> Priority {
    kind.map_or(Priority::Skip, Kind::default_priority)
}

/// Returns the priority that a commit states; `None` when its operation states none.
pub fn stated_priority(mark: &Commit) -> Option<Priority> {
    match &mark.op {
        Op::Append { priority, .. } => *priority,
        Op::Annotate { priority, .. } => Some(*priority),
        Op::Edit { .. }
        | Op::Compress { .. }
        | Op::Revert { .. }
        | Op::Merge { .. }
        | Op::Tools
        | Op::Note
        | Op::Unknown { .. } => None,
    }
}

/// A row that counts for what is compiled: one that is shown, or a skipped one on the other side
/// of a call from one that is.
#[derive(Clone, Debug)]
pub(crate) struct ContextEntry {
    pub(crate) row: Arc<Row>,
    pub(crate) fact: Arc<RowFact>,
    /// Its message, once it was loaded; never for a skipped row.
    pub(crate) message: Option<Arc<LoadedMessage>>,
}

/// A message and the memory it takes.
#[derive(Debug)]
pub(crate) struct LoadedMessage {
    pub(crate) message: Message,
    pub(crate) charge: Option<Charge>,
}
