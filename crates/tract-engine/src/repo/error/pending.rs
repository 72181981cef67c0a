//! Operations that a handler rejected or deferred.

use tract_core::Content;

/// The rejection of an operation by a handler. Nothing was committed.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejected {
    /// The decision's name. [`Repo::decision`](crate::Repo::decision) reads it, including the
    /// rejected request.
    pub decision: String,
    /// The event.
    pub event: String,
    /// The handler.
    pub handler: String,
    /// The reason.
    pub reason: String,
    /// The content that would have been written, if any.
    pub content: Option<Content>,
}

/// The deferral of an operation by a handler. Nothing was committed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredOperation {
    /// The operation's name.
    pub id: String,
    /// The event.
    pub event: String,
    /// The handler.
    pub handler: String,
    /// The reason.
    pub reason: String,
}
