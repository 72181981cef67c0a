//! Which tools a commit was given, as opposed to those in force at it.

use tract_core::{ActiveTool, CommitId, Op};

use crate::repo::Repo;
use crate::repo::error::Result;

impl Repo {
    /// Reads the tools that a commit reports as its own: those that it was given, by itself or by
    /// [`set_tools`](Self::set_tools) before it. What is compiled at a commit are the tools in
    /// force, [`tools_of`](Self::tools_of), which may be those of an earlier commit.
    ///
    /// # Behavior
    /// - Once tools were set on a history, each commit reports the set in force, which may be empty.
    /// - Where none were ever set, a commit reports tools only when it was given others than its
    ///   first parent had in force: nothing tells a commit that was given the very same set, byte
    ///   for byte, from one that was given none.
    /// - A revert and a merge are given none: what they bring into force they do not report, unless
    ///   tools were set. Tools that a merge brings in count as set from there on.
    /// - It reads the commit and its parent, and folds the history from its last snapshot where
    ///   these do not tell.
    ///
    /// # Errors
    /// As [`tools_of`](Self::tools_of).
    pub async fn get_commit_tools(&self, commit: CommitId) -> Result<Vec<ActiveTool>> {
        if self.has_own_tools(commit).await? { self.tools_of(commit).await } else { Ok(Vec::new()) }
    }

    async fn has_own_tools(&self, id: CommitId) -> Result<bool> {
        let commit = self.require_commit(id).await?;
        // `active` names tools that were set, so where it is there were some.
        if matches!(commit.op, Op::Tools) || commit.active.is_some() {
            return Ok(true);
        }
        if commit.toolset.is_none() {
            return Ok(false);
        }
        // Whether it was given other tools than its first parent has in force.
        let changes = match (&commit.op, commit.parent()) {
            (Op::Revert { .. } | Op::Merge { .. }, _) => false,
            (_, Some(parent)) => commit.toolset != self.require_commit(parent).await?.toolset,
            (_, None) => true,
        };
        Ok(changes || self.line(Some(id)).await?.tools_set())
    }
}
