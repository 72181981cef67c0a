//! Operations on branches that a caller names.
//!
//! Branches, tags and revisions, merge, rebase, undo, summaries, decisions on pending approvals, and
//! a request to a model. Each is built on the write path.

pub(crate) mod approvals;
pub(crate) mod branch;
pub(crate) mod chat;
pub(crate) mod conflicts;
pub(crate) mod drop_failed;
pub(crate) mod merge;
pub(crate) mod rebase;
pub(crate) mod reply;
pub(crate) mod revision;
pub(crate) mod sessions;
pub(crate) mod signatures;
pub(crate) mod summarize;
pub(crate) mod undo;
