//! Writing what is stored again, so that it takes less room.

use std::sync::Arc;

use tract_core::store::RepackStep;

use crate::repo::Repo;
use crate::repo::error::Result;

/// What a repack is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepackProgress {
    /// A dictionary is trained on a sample of the blobs.
    Training,
    /// Blobs are written again: so many were looked at, of so many.
    Writing {
        /// Blobs that were looked at.
        done: u64,
        /// All blobs of the repository.
        of: u64,
    },
    /// The store's files are written again without the space that became free.
    Shrinking,
}

/// Takes the progress of a repack.
pub type OnRepack = Arc<dyn Fn(RepackProgress) + Send + Sync>;

/// What [`repack`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepackReport {
    /// How many blobs the repository has.
    pub blobs: u64,
    /// How many of them were written again.
    pub written: u64,
    /// The bytes that its blobs took before.
    pub before: u64,
    /// The bytes that they take now.
    pub after: u64,
    /// How many could not be read; `verify` names them.
    pub unreadable: u64,
    /// Bytes of the whole store on disk before.
    pub disk_before: u64,
    /// Bytes of the whole store on disk now.
    pub disk_after: u64,
    /// What the store has to say to a person.
    pub note: Option<String>,
}

/// Writes the blobs of a repository again, so that they take less room: compressed with a dictionary that
/// is trained on them.
///
/// # Behavior
/// - No object, ref or entry of the ref log changes, and nothing has to be undone.
/// - Others can write meanwhile, but for the end, where the store's files are written again.
/// - Cut short at any moment, the store is whole, and the next repack begins again.
///
/// # Errors
/// `Unsupported` when the store does not compress what it keeps.
pub async fn repack(repo: &Repo, progress: Option<&OnRepack>) -> Result<RepackReport> {
    let store = repo.store();
    let stats = store.stats(repo.name()).await?;
    let mut report = RepackReport { disk_before: stats.disk_bytes, ..RepackReport::default() };
    let mut step = RepackStep::Train;
    loop {
        let now = match step {
            RepackStep::Train => RepackProgress::Training,
            RepackStep::Blobs { .. } => {
                RepackProgress::Writing { done: report.blobs, of: stats.blobs.max(report.blobs) }
            }
            RepackStep::Finish { .. } | RepackStep::Shrink => RepackProgress::Shrinking,
        };
        if let Some(progress) = progress {
            progress(now);
        }
        let page = store.repack(repo.name(), step).await?;
        report.blobs += page.blobs;
        report.written += page.written;
        report.before += page.before;
        report.after += page.after;
        report.unreadable += page.unreadable;
        report.note = page.note.or(report.note);
        match page.next {
            Some(next) => step = next,
            None => break,
        }
    }
    report.disk_after = store.stats(repo.name()).await?.disk_bytes;
    Ok(report)
}
