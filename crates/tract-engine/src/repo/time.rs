//! Time travel: what a branch contained, and where, at a time.

use tract_compile::Compiled;
use tract_core::CommitId;

use crate::repo::Repo;
use crate::repo::error::Result;

impl Repo {
    /// Finds the commit of a line that was its head at a time: the one nearest to `head`, over
    /// first parents, that was made at or before `at_us` (microseconds since 1970, UTC). A commit
    /// without a time counts as its parent's, and 0 at a root. `None` when all were made later.
    ///
    /// # Errors
    /// When the head is not stored, or the store fails.
    pub async fn head_at_time(&self, head: CommitId, at_us: i64) -> Result<Option<CommitId>> {
        Ok(self.compiler().view_at_time(Some(head), at_us).await?)
    }

    /// Compiles a line as it was at a time: messages, priorities and tools; empty before its
    /// first commit.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub async fn compile_at_time(&self, head: CommitId, at_us: i64) -> Result<Compiled> {
        let head = self.head_at_time(head, at_us).await?;
        self.compile(head).await
    }
}
