//! Space that a handle has to release: of swept rows, and of erased ones.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::oneshot::Sender;
use tokio_postgres::Row;
use tract_core::{RepoName, StoreResult};

use crate::args::Args;

/// The partitions that a handle has erased from since its last wipe; `None` for an unknown one.
pub(crate) type ErasedCuts = BTreeSet<Option<u16>>;

/// Space that a handle has swept but not released.
#[derive(Debug, Default)]
pub(crate) struct SweptSpace {
    /// Whether writes that functions of an earlier edition began have ended.
    pub(crate) is_settled: bool,
    /// Approximate number of bytes in deleted rows.
    pub(crate) bytes: u64,
    /// The swept partitions; `None` for an unknown one.
    pub(crate) cuts: BTreeSet<Option<u16>>,
    /// Whether others are writing, so that the next sweep keeps the lock if it finds writes.
    pub(crate) is_contended: bool,
    /// The sweep that keeps the lock.
    pub(crate) held: Option<HeldSweep>,
}

pub(crate) type Answer = Sender<StoreResult<Vec<Row>>>;

/// A sweep that keeps the lock of a repository and waits for the next one.
#[derive(Debug)]
pub(crate) struct HeldSweep {
    pub(crate) repo: RepoName,
    pub(crate) next: Sender<(Arc<Args>, Answer)>,
}
