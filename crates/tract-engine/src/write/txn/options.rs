//! What a write expects, and what the ref log says of it.

use tract_core::CommitId;

use crate::repo::operation::Operation;

/// How a write goes about it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Where the branch must be: `Some(None)` means that it has no commit yet. When absent, the
    /// write takes the branch as it finds it and plans again when it loses a race.
    pub expect: Option<Option<CommitId>>,
    /// The verb that the ref log tells; the first request's own when absent.
    pub what: Option<String>,
    /// Why, for the ref log.
    pub why: Option<String>,
    /// Shared with other writes of one command, so that one `undo` reverts all of them.
    pub operation: Option<Operation>,
    /// Whether an edit is refused when its target is no longer what its message says.
    pub(crate) current_versions: bool,
}

impl WriteOptions {
    /// Starts from the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says where the branch must be; `None` means that it has no commit yet.
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

    /// Refuses edits whose target is no longer what its message says, instead of replacing what
    /// was written since. Checked again after a lost race.
    #[must_use]
    pub(crate) fn edits_of_current_versions(mut self) -> Self {
        self.current_versions = true;
        self
    }

    /// Sets the operation that it belongs to.
    #[must_use]
    pub fn operation(mut self, operation: impl Into<Operation>) -> Self {
        self.operation = Some(operation.into());
        self
    }
}
