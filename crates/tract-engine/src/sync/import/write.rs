//! Writes a group of conversations.

use tract_core::{Applied, Batch, Expect, RefEdit};

use super::Importer;
use crate::repo::batch::apply_and_tell;
use crate::repo::error::Result;
use crate::write::erasures::KnownErasures;
use crate::write::txn::{Txn, WriteOptions};

impl Importer {
    /// Writes a group. A branch that leads to commits stored earlier may show an erased message; it
    /// gets the edit of the erasure on top.
    pub(super) async fn apply(&self, mut batch: Batch, leads_to_stored: bool) -> Result<Applied> {
        if leads_to_stored {
            let known = KnownErasures::read(&self.repo).await?;
            if !known.is_empty() {
                return self.apply_mended(batch).await;
            }
            known.mark.hold(&mut batch);
        }
        Ok(apply_and_tell(&self.repo, &self.operation, batch).await?)
    }

    async fn apply_mended(&self, mut batch: Batch) -> Result<Applied> {
        let mut txn = Txn::within(&self.repo, Some(&self.operation))?.any_name();
        for RefEdit { name, expect, to } in std::mem::take(&mut batch.refs) {
            let found = match expect {
                Expect::Is(target) => Some(target),
                Expect::Any | Expect::Absent => None,
            };
            txn.move_from(&name, found, to);
        }
        txn.bring(batch);
        txn.apply("import", &WriteOptions::default()).await
    }
}
