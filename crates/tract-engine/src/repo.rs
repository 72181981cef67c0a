//! The repository handle, and the basics that all other modules build on.
//!
//! [`Repo`] with its options and reads, [`Error`](crate::Error), the id of an operation, the known
//! tips of branches, and the encoding of derived rows. Nothing here writes history.

pub(crate) mod batch;
pub(crate) mod erasure;
pub(crate) mod erasure_mark;
pub(crate) mod error;
pub(crate) mod handle;
pub(crate) mod heads;
pub(crate) mod operation;
pub(crate) mod stats;
pub(crate) mod time;
pub(crate) mod wire;

pub use self::handle::{Repo, RepoOptions};
