//! The tools that a commit was given, as opposed to those in force at it.

use tract_core::{ActiveTool, CommitId, Op};

use crate::repo::Repo;
use crate::repo::error::Result;

impl Repo {
    /// Reads the tools that a commit reports as its own: those that were given to it, or set by
    /// [`set_tools`](Self::set_tools) before it. A compiled context contains the tools in force,
    /// [`tools_of`](Self::tools_of), which may be those of an earlier commit.
    ///
    /// # Behavior
    /// - Once tools were set on a history, each commit reports the set in force, which may be empty.
    /// - If no set was ever active, a commit reports tools only if it was given others than its
    ///   first parent had in force: a commit that was given the same set, byte for byte, cannot be
    ///   distinguished from one without tools.
    /// - A revert or a merge has no tools of its own: it does not report the tools it brings into
    ///   force, unless tools were set. Tools that a merge brings in count as set from there on.
    /// - It reads the commit and its parent, and folds the history from its last snapshot if that
    ///   is not enough.
    ///
    /// # Errors
    /// As [`tools_of`](Self::tools_of).
    pub async fn get_commit_tools(&self, commit: CommitId) -> Result<Vec<ActiveTool>> {
        if self.has_own_tools(commit).await? { self.tools_of(commit).await } else { Ok(Vec::new()) }
    }

    async fn has_own_tools(&self, id: CommitId) -> Result<bool> {
        let commit = self.require_commit(id).await?;
        // `active` names tools that were set, so its presence is sufficient.
        if matches!(commit.op, Op::Tools) || commit.active.is_some() {
            return Ok(true);
        }
        if commit.toolset.is_none() {
            return Ok(false);
        }
        // Compare with the tools that its first parent has in force.
        let changes = match (&commit.op, commit.parent()) {
            (Op::Revert { .. } | Op::Merge { .. }, _) => false,
            (_, Some(parent)) => commit.toolset != self.require_commit(parent).await?.toolset,
            (_, None) => true,
        };
        Ok(changes || self.line(Some(id)).await?.tools_set())
    }
}
