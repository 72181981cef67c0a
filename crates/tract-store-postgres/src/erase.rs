//! Erasing: blobs that are deleted with the write that says so, and kept out from then on.
//!
//! The functions delete and refuse them (`functions.sql`). Deleted rows stay in the files of their
//! tables until [`wipe`](crate::wipe::wipe) has them written again.

use std::collections::BTreeSet;
use std::sync::{MutexGuard, PoisonError};

use tract_core::{Batch, BlobId, RefName, StoreErrorKind, StoreResult};

use crate::args::Args;
use crate::check::{Check, OP};
use crate::error::{Failed, Retry};
use crate::functions;
use crate::link::{Connector, column};

/// Where a handle has erased since it last wiped: the partitions, `None` for one that is not known.
pub(crate) type ErasedCuts = BTreeSet<Option<u16>>;

pub(crate) fn erased_cuts(link: &Connector) -> MutexGuard<'_, ErasedCuts> {
    link.erased.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a batch makes an erasure, or names one.
pub(crate) fn erases(batch: &Batch) -> bool {
    batch.erasures().next().is_some()
}

/// Refuses where the functions of the store would make the ref of an erasure and delete nothing.
pub(crate) fn check_functions(link: &Connector, op: &'static str) -> StoreResult<()> {
    functions::check(link, op, "which cannot erase")
}

/// What a failed try of a batch that erases means for the next one. It waits for other writers for a
/// short time only, because others wait behind it, and then tries again.
pub(crate) fn waits_again(failed: Failed) -> Failed {
    match (failed.retry, &failed.error.kind) {
        (Retry::Never, StoreErrorKind::Busy) => Failed { retry: Retry::Again, ..failed },
        _ => failed,
    }
}

impl Check<'_> {
    /// Reads which blobs are erased; refs that are damaged are reported with the others.
    pub(crate) async fn read_erased(&mut self) -> StoreResult<()> {
        let sql = "SELECT name FROM {s}.refs \
                   WHERE repo = $1 AND name >= 'erasures/' AND name < 'erasures0'";
        let rows = self.snapshot.read(sql, Args::new().int(self.number)).await?;
        for row in &rows {
            let name = RefName::new(column::<&str>(OP, row, 0)?).ok();
            self.erased.extend(name.and_then(|name| name.erased_blob()));
        }
        Ok(())
    }

    /// Whether a blob is stored, or was erased, so that commits still name it.
    pub(crate) fn has_blob(&self, blob: BlobId) -> bool {
        self.blobs.contains(&blob) || self.erased.contains(&blob)
    }
}
