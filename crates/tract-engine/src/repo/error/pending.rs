//! Operations that a handler rejected or deferred.

use tract_core::Content;

/// A handler refused an operation, and nothing was committed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rejected {
    /// The decision's name: [`Repo::decision`](crate::Repo::decision) reads it, with what was rejected.
    pub decision: String,
    /// The event.
    pub event: String,
    /// The handler.
    pub handler: String,
    /// Why.
    pub reason: String,
    /// What would have been said, where something would.
    pub content: Option<Content>,
}

/// A handler deferred an operation; nothing was committed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeferredOperation {
    /// The operation's name.
    pub id: String,
    /// The event.
    pub event: String,
    /// The handler.
    pub handler: String,
    /// Why.
    pub reason: String,
}
