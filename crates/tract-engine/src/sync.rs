//! Transfer of objects into and out of a repository.
//!
//! Remotes, copies, bundles, exports, streams of operations, and imported conversations.

pub(crate) mod apply;
pub(crate) mod bundle;
pub(crate) mod carry;
pub(crate) mod copy;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod remote;
