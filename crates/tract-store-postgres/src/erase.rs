//! Erasure: blobs are deleted in the same write as the erasure ref, which also blocks their return.
//!
//! The server's functions delete and reject them (`functions.sql`). Deleted rows remain in the
//! files of their tables until [`wipe`](crate::wipe::wipe) rewrites them.

use tract_core::{Batch, BlobId, RefName, StoreErrorKind, StoreResult};

use crate::args::Args;
use crate::check::{Check, OP};
use crate::error::{Failed, Retry};
use crate::functions;
use crate::link::{Connector, column};

/// Returns whether a batch makes an erasure, or names one.
pub(crate) fn erases(batch: &Batch) -> bool {
    batch.erasures().next().is_some()
}

/// Fails if the store's functions would create the ref of an erasure without deleting the blob.
pub(crate) fn check_functions(link: &Connector, op: &'static str) -> StoreResult<()> {
    functions::check(link, op, "which cannot erase")
}

/// Makes a failed lock of an erasing batch retryable. It only waits briefly for other writers,
/// because others wait behind it, and then tries again.
pub(crate) fn waits_again(failed: Failed) -> Failed {
    match (failed.retry, &failed.error.kind) {
        (Retry::Never, StoreErrorKind::Busy) => Failed { retry: Retry::Again, ..failed },
        _ => failed,
    }
}

impl Check<'_> {
    /// Reads the erased blobs. Damaged refs are reported by the check of the refs.
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

    /// Returns whether a blob is stored or erased; commits may name an erased one.
    pub(crate) fn has_blob(&self, blob: BlobId) -> bool {
        self.blobs.contains(&blob) || self.erased.contains(&blob)
    }
}
