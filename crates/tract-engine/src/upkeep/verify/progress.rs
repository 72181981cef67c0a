//! Progress and estimated time of a verification.

use std::time::{Duration, Instant};

use tract_core::store::StoreResult;

use super::{VerifyOptions, VerifyProgress};
use crate::repo::Repo;

/// Counts the commits that were hashed, then the commits that were folded.
pub(super) struct Progress<'a> {
    options: &'a VerifyOptions,
    started: Instant,
    hashed: usize,
    folded: usize,
    commits: usize,
}

impl<'a> Progress<'a> {
    /// Starts the clock. Counts the commits if progress is reported.
    pub(super) async fn start(repo: &Repo, options: &'a VerifyOptions) -> StoreResult<Self> {
        let commits = match &options.progress {
            // A damaged store may be unable to count; check it anyway.
            Some(_) => repo.store().stats(repo.name()).await.map_or(0, |stats| stats.commits),
            None => 0,
        };
        let commits = usize::try_from(commits).unwrap_or(usize::MAX);
        Ok(Self { options, started: Instant::now(), hashed: 0, folded: 0, commits })
    }

    pub(super) fn hashed(&self) -> usize {
        self.hashed
    }

    pub(super) fn add_hashed(&mut self, commits: usize) {
        self.hashed += commits;
        self.commits = self.commits.max(self.hashed);
        self.tell();
    }

    /// Starts the second phase, which folds the commits.
    pub(super) fn fold(&mut self, commits: usize) {
        (self.hashed, self.commits) = (commits, commits);
    }

    pub(super) fn folded(&mut self, commits: usize) {
        self.folded = commits;
        self.tell();
    }

    fn tell(&self) {
        let Some(progress) = &self.options.progress else { return };
        let (done, all) = (self.hashed + self.folded, self.commits.saturating_mul(2));
        let seconds = self.started.elapsed().as_secs_f64();
        let left = seconds * all.saturating_sub(done) as f64 / done as f64;
        let time_left = Duration::try_from_secs_f64(left).ok();
        progress.call(VerifyProgress { commits_done: done / 2, commits: self.commits, time_left });
    }
}
