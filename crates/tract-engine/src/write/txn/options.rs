//! Write options: the expected head, and the ref log entry.

use tract_core::CommitId;

use crate::repo::operation::Operation;

/// Options of a write.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// The expected head; `Some(None)` for a branch without a commit. When absent, the write uses
    /// the current head and plans again when it loses a race.
    pub expect: Option<Option<CommitId>>,
    /// The verb for the ref log. Default: that of the first request.
    pub what: Option<String>,
    /// The reason for the ref log.
    pub why: Option<String>,
    /// Shared with other writes of one command, so that one `undo` reverts all of them.
    pub operation: Option<Operation>,
    /// Whether an edit is refused when its target is not the current version of its message.
    pub(crate) current_versions: bool,
}

impl WriteOptions {
    /// Starts from the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the expected head; `None` for a branch without a commit.
    #[must_use]
    pub fn expect(mut self, head: Option<CommitId>) -> Self {
        self.expect = Some(head);
        self
    }

    /// Sets the verb for the ref log.
    #[must_use]
    pub fn what(mut self, what: impl Into<String>) -> Self {
        self.what = Some(what.into());
        self
    }

    /// Sets the reason for the ref log.
    #[must_use]
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    /// Refuses edits whose target is not the current version of its message, instead of replacing a
    /// newer version. Checked again after a lost race.
    #[must_use]
    pub(crate) fn edits_of_current_versions(mut self) -> Self {
        self.current_versions = true;
        self
    }

    /// Sets the operation that the write belongs to.
    #[must_use]
    pub fn operation(mut self, operation: impl Into<Operation>) -> Self {
        self.operation = Some(operation.into());
        self
    }
}
