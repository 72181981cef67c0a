//! Operations on branches that a caller names.
//!
//! Branches, tags, remotes and revisions, merge, rebase, undo, summaries, decisions on pending
//! approvals, and a request to a model. Each is built on the write path.

pub(crate) mod approvals;
pub(crate) mod chat;
pub(crate) mod merge;
pub(crate) mod rebase;
pub(crate) mod refs;
pub(crate) mod reply;
pub(crate) mod revision;
pub(crate) mod sessions;
pub(crate) mod shorten;
pub(crate) mod undo;
