//! Row facts: the properties of a row, taken from the records of its version and its mark.

use std::sync::Arc;

use tract_core::store::LocationHint;
use tract_core::{BlobId, Commit, CommitId, JsonText, Kind, Message, Op, Priority, Role};

use crate::cache::Charge;
use crate::view::Row;

/// The properties of a row that its records contain: everything but the content itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFact {
    /// The content blob of its version.
    pub content: Option<BlobId>,
    /// The kind of that content.
    pub kind: Option<Kind>,
    /// The role that the message is sent with.
    pub role: Role,
    /// Provider format and revision of the original.
    pub form: Option<Arc<str>>,
    /// The slot whose provider message it continues, according to its record.
    pub joins: Option<CommitId>,
    /// Whether that slot's row directly precedes it in the view.
    pub joined: bool,
    /// The provider's original bytes.
    pub verbatim: Option<BlobId>,
    /// Model and parameters that produced its version.
    pub generation_config: Option<JsonText>,
    /// The priority set by its mark, else its kind's default.
    pub priority: Priority,
    /// The priority set by its mark.
    pub(crate) marked: Option<Priority>,
    pub(crate) hint: Option<LocationHint>,
}

impl RowFact {
    /// Returns whether the row is compiled, that is, its priority is above `Skip`.
    pub fn is_shown(&self) -> bool {
        self.priority > Priority::Skip
    }

    /// Returns false for a placeholder, which a skipped row has if its records were not needed.
    pub(crate) fn is_known(&self) -> bool {
        self.kind.is_some() || self.is_shown()
    }

    /// Returns the facts of a version. The priority is the kind's default until a mark is applied.
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

    /// Applies the priority of a mark.
    pub(crate) fn mark(&mut self, marked: Option<Priority>) {
        self.marked = marked;
        self.priority = marked.unwrap_or_else(|| default_priority(self.kind.as_ref()));
    }

    /// Returns the facts of a row whose version cannot be read: skipped and without content.
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

    /// Returns the facts of a message.
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

/// Returns `Skip` for a row without a kind: it has no content to show.
fn default_priority(kind: Option<&Kind>) -> Priority {
    kind.map_or(Priority::Skip, Kind::default_priority)
}

/// Returns the priority that a commit sets; `None` if its operation sets none.
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

/// A row of the context: a shown one, or a skipped one whose call or answer is shown.
#[derive(Clone, Debug)]
pub(crate) struct ContextEntry {
    pub(crate) row: Arc<Row>,
    pub(crate) fact: Arc<RowFact>,
    /// Its message, once loaded; always `None` for a skipped row.
    pub(crate) message: Option<Arc<LoadedMessage>>,
}

/// A message and the memory it takes.
#[derive(Debug)]
pub(crate) struct LoadedMessage {
    pub(crate) message: Message,
    pub(crate) charge: Option<Charge>,
}
