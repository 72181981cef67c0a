//! The write path: from a request on a branch to one batch in the store.
//!
//! Requests, transactions, the hooks that are asked before a write and the documents of what they
//! deferred, the edits that keep erased messages out of a branch, retries after lost races, and the
//! leases and overlays of long writes.

pub(crate) mod chosen;
pub(crate) mod erasures;
pub(crate) mod fetch;
pub(crate) mod hooks;
pub(crate) mod import_document;
pub(crate) mod lease;
pub(crate) mod overlay;
pub(crate) mod pending;
pub(crate) mod races;
pub(crate) mod requests;
pub(crate) mod spare;
pub(crate) mod txn;
