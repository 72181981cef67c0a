//! Repacking: rewrites stored blobs so that they take less space.

use tract_core::store::RepackStep;

use crate::repo::error::Result;
use crate::repo::{Callback, Repo};

/// The current phase of a repack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepackProgress {
    /// A dictionary is trained on a sample of the blobs.
    Training,
    /// Blobs are being rewritten.
    Writing {
        /// Number of blobs processed.
        done: u64,
        /// Number of blobs in the repository.
        of: u64,
    },
    /// The store's files are rewritten without free space.
    Shrinking,
}

/// Receives the progress of a repack.
pub type OnRepack = Callback<RepackProgress>;

/// The result of [`repack`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepackReport {
    /// Number of blobs in the repository.
    pub blobs: u64,
    /// Number of blobs that were rewritten.
    pub written: u64,
    /// Size of the blobs before, in bytes.
    pub before: u64,
    /// Size of the blobs after, in bytes.
    pub after: u64,
    /// Number of blobs that could not be read; `verify` lists them.
    pub unreadable: u64,
    /// Size of the whole store on disk before, in bytes.
    pub disk_before: u64,
    /// Size of the whole store on disk after, in bytes.
    pub disk_after: u64,
    /// A message of the store for the user.
    pub note: Option<String>,
}

/// Rewrites the blobs of a repository so that they take less space: compressed with a dictionary
/// that is trained on them.
///
/// # Behavior
/// - No object, ref or ref log entry changes, so there is nothing to undo.
/// - Others can write during the repack, except at the end, when the store's files are rewritten.
/// - If it is interrupted, the store is consistent, and the next repack starts over.
///
/// # Errors
/// `Unsupported` when the store does not compress blobs.
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
            progress.call(now);
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
