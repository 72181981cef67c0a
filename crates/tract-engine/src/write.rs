//! The write path: from a request on a branch to one batch in the store.
//!
//! Transactions, what writers of one branch share, retries after lost races, and the leases and
//! overlays of long writes. The verbs are built on it.

pub(crate) mod chosen;
pub(crate) mod documents;
pub(crate) mod erasures;
pub(crate) mod fetch;
pub(crate) mod hooks;
pub(crate) mod lease;
pub(crate) mod overlay;
pub(crate) mod pending;
pub(crate) mod races;
pub(crate) mod requests;
pub(crate) mod spare;
pub(crate) mod txn;
