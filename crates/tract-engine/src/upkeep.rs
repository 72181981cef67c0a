//! Maintenance of a repository: deleting, checking, repairing and rewriting stored objects.
//!
//! Garbage collection, pruning, erasure and redaction, verification, the replacement of damaged
//! objects, and repacking.

pub(crate) mod erase;
pub(crate) mod gc;
pub(crate) mod prune;
pub(crate) mod redact;
pub(crate) mod repack;
pub(crate) mod restore;
pub(crate) mod verify;
