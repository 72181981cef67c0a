//! Commits and refs from one repository to another.

use std::collections::HashMap;

use tract_core::{Blob, BlobId, CommitId, RefTarget};

use super::{PlannedRef, TransferStatus, TransferredRef, lacking_commits, move_refs};
use crate::carry::{ObjectCopier, collected};
use crate::copy::OnCopy;
use crate::erase::CarriedErasures;
use crate::error::Result;
use crate::repo::Repo;

/// What is brought from one repository to another.
pub(super) struct Transfer<'a> {
    pub(super) from: &'a Repo,
    pub(super) to: &'a Repo,
    /// The one of the two that has the histories of both, as far as they are related.
    pub(super) judge: &'a Repo,
    /// The verb in the ref log.
    pub(super) what: &'static str,
    /// All that these lead to.
    pub(super) heads: Vec<CommitId>,
    /// The refs to move after that.
    pub(super) planned: Vec<PlannedRef>,
    /// The blobs that refs point to.
    pub(super) documents: HashMap<BlobId, Blob>,
}

/// What was brought.
pub(super) struct Transferred {
    /// How many commits were lacking.
    pub(super) commits: usize,
    /// What became of the refs.
    pub(super) refs: Vec<TransferredRef>,
    /// What was erased there, and now is here.
    pub(super) erased: CarriedErasures,
}

impl Transfer<'_> {
    /// Brings what is lacking, and moves the refs.
    pub(super) async fn run(self, progress: Option<&OnCopy>) -> Result<Transferred> {
        let Self { from, to, judge, heads, planned, documents, .. } = self;
        let mut carrier = ObjectCopier::new(from, to, self.what)?;
        carrier.erasures().await?;
        let mut races = to.races();
        let (commits, refs) = loop {
            // What a ref of the receiver leads to, it has.
            let there = to.store().list_refs(to.name(), "").await?;
            let has = there.iter().filter_map(|(_, target)| target.commit());
            let lacking = lacking_commits(from, Some(to), &heads, has).await?;
            let moved = match carrier.carry_all(&lacking.order, false, progress).await {
                Ok(_) => move_refs(&carrier, judge, &planned, &documents).await,
                Err(error) => Err(error),
            };
            match moved {
                Ok(refs) => break (lacking.order.len(), refs),
                // What the receiver was found to have was collected there as garbage.
                Err(error) if collected(&error) => {
                    races.lose().await?;
                    carrier.erasures().await?;
                }
                Err(error) => return Err(error),
            }
        };
        index_moved(to, &refs, commits).await;
        Ok(Transferred { commits, refs, erased: carrier.carried })
    }
}

/// Writes the rows of the turn index that branches and tags call for where many commits came.
pub(crate) async fn index_moved(repo: &Repo, refs: &[TransferredRef], commits: usize) {
    if (commits as u64) < repo.turn_rows_every() {
        return;
    }
    for at in refs.iter().filter(|at| at.name.remote_branch_name().is_none()) {
        if let (
            Some(RefTarget::Commit(head)),
            TransferStatus::Created | TransferStatus::Forwarded,
        ) = (&at.to, &at.status)
        {
            crate::turns::catch_up(repo, *head).await;
        }
    }
}
