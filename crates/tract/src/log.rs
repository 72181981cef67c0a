//! The log: commits of a line, and one line of text for each.

use tract_core::{Commit, CommitId};
use tract_engine::{LogLine, LogPages};

use crate::error::Result;
use crate::handle::Tract;
use crate::revision::Revision;

impl Tract {
    /// Reads the commits of a line, newest first.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), and what the store says.
    pub async fn log(&self, head: impl Into<Revision>, limit: usize) -> Result<Vec<Commit>> {
        let head = self.resolve(head).await?;
        Ok(tract_engine::log(self.repo(), head, limit).await?.commits)
    }

    /// Reads what several heads lead to, over all parents: no commit before one of its children,
    /// each line as far as it goes.
    ///
    /// # Errors
    /// What the store says.
    pub async fn log_all(&self, heads: &[CommitId], limit: usize) -> Result<Vec<Commit>> {
        Ok(tract_engine::log_all(self.repo(), heads, limit).await?)
    }

    /// Begins a log that is read page by page: of one line, first parents only, or over all parents
    /// of several heads.
    ///
    /// # Errors
    /// What the store says.
    pub async fn log_pages(
        &self,
        heads: &[CommitId],
        all_parents: bool,
        limit: usize,
    ) -> Result<LogPages> {
        Ok(match (heads, all_parents) {
            ([head], false) => LogPages::line(self.repo(), *head, limit),
            _ => LogPages::all(self.repo(), heads, limit).await?,
        })
    }

    /// Makes the lines that a log shows for commits, in order.
    ///
    /// # Errors
    /// What the store says.
    pub async fn describe(&self, commits: &[Commit]) -> Result<Vec<LogLine>> {
        Ok(tract_engine::describe(self.repo(), commits).await?)
    }
}
