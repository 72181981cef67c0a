//! Maintenance of a repository: deletes, checks, repairs and rewrites stored objects.
//!
//! Garbage collection, pruning, erasure and redaction, verification and repacking.

pub(crate) mod erase;
pub(crate) mod gc;
pub(crate) mod prune;
pub(crate) mod redact;
pub(crate) mod repack;
pub(crate) mod restore;
pub(crate) mod verify;
