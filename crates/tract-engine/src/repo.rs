//! The repository handle and what every other module builds on.
//!
//! [`Repo`] with its options and reads, [`Error`](crate::Error) with its payloads, operations, the
//! known tips of branches, the record of an erasure, the encoding of derived rows, and the
//! application of one batch to a store. Requests and transactions are in `write`.

pub(crate) mod batch;
pub(crate) mod callback;
pub(crate) mod erasure;
pub(crate) mod erasure_mark;
pub(crate) mod error;
pub(crate) mod handle;
pub(crate) mod heads;
pub(crate) mod history;
pub(crate) mod operation;
pub(crate) mod stats;
pub(crate) mod wire;

pub use self::callback::Callback;
pub use self::handle::{Branch, FIRST_BRANCH, Repo, RepoOptions};
