//! The tool turns of a handle's branch.

use tract_engine::{DroppedTurns, FoundCall, FoundResult, Pages, ToolQuery, ToolTurn};

use crate::error::Result;
use crate::handle::Tract;
use crate::revision::Revision;

impl Tract {
    /// Finds the tool turns of this handle's branch, oldest first: each message with calls, with
    /// the results that answer it.
    ///
    /// ```
    /// # tract::block_on(async {
    /// use tract::engine::ToolQuery;
    /// use tract::prelude::*;
    /// let tract = tract::open("memory:").await?;
    /// tract.commit(Draft::assistant("").call("c1", "grep", "{}").call("c2", "ls", "{}")).await?;
    /// tract.tool_result("c2", "a.rs").await?;
    /// let found = tract.tool_result("c1", "a.rs:7: fn main()").await?;
    /// tract.edit(&found, "a.rs").await?;
    /// let turns: Vec<_> = tract.find_tool_turns(&ToolQuery::new().name("grep")).await?.collect();
    /// assert_eq!(turns[0].tool_names, ["grep", "ls"]);
    /// assert_eq!(turns[0].results.len(), 2);
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `not_on_line` when [`ToolQuery::after`] is not among the commits of the branch.
    pub async fn find_tool_turns(&self, query: &ToolQuery) -> Result<Pages<ToolTurn>> {
        Ok(self.repo().find_tool_turns(self.head().await?, query).await?)
    }

    /// Finds the tool turns at a revision, oldest first.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve) and [`find_tool_turns`](Self::find_tool_turns).
    pub async fn find_tool_turns_at(
        &self,
        revision: impl Into<Revision>,
        query: &ToolQuery,
    ) -> Result<Pages<ToolTurn>> {
        let head = self.resolve(revision).await?;
        Ok(self.repo().find_tool_turns(Some(head), query).await?)
    }

    /// Finds the tool results of this handle's branch, oldest first. Edits of a result are no
    /// further results.
    ///
    /// # Errors
    /// As [`find_tool_turns`](Self::find_tool_turns).
    pub async fn find_tool_results(&self, query: &ToolQuery) -> Result<Pages<FoundResult>> {
        Ok(self.repo().find_tool_results(self.head().await?, query).await?)
    }

    /// Finds the tool results at a revision, oldest first.
    ///
    /// # Errors
    /// As [`find_tool_turns_at`](Self::find_tool_turns_at).
    pub async fn find_tool_results_at(
        &self,
        revision: impl Into<Revision>,
        query: &ToolQuery,
    ) -> Result<Pages<FoundResult>> {
        let head = self.resolve(revision).await?;
        Ok(self.repo().find_tool_results(Some(head), query).await?)
    }

    /// Finds the messages with tool calls of this handle's branch, oldest first.
    ///
    /// # Errors
    /// As [`find_tool_turns`](Self::find_tool_turns).
    pub async fn find_tool_calls(&self, query: &ToolQuery) -> Result<Pages<FoundCall>> {
        Ok(self.repo().find_tool_calls(self.head().await?, query).await?)
    }

    /// Finds the messages with tool calls at a revision, oldest first.
    ///
    /// # Errors
    /// As [`find_tool_turns_at`](Self::find_tool_turns_at).
    pub async fn find_tool_calls_at(
        &self,
        revision: impl Into<Revision>,
        query: &ToolQuery,
    ) -> Result<Pages<FoundCall>> {
        let head = self.resolve(revision).await?;
        Ok(self.repo().find_tool_calls(Some(head), query).await?)
    }

    /// Skips the turns in which a tool failed, with one commit. A second call finds nothing more.
    ///
    /// # Errors
    /// As [`find_tool_turns`](Self::find_tool_turns), and what the store says.
    pub async fn drop_failed_tool_turns(&self, query: &ToolQuery) -> Result<DroppedTurns> {
        Ok(self.repo().drop_failed_tool_turns(self.branch_ref(), query).await?)
    }
}
