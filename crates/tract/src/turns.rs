//! The tool turns of a handle's branch.

use tract_core::{Commit, Draft};
use tract_engine::plan::{OpenCall, Request};
use tract_engine::{DroppedTurns, FoundCall, FoundResult, Pages, ToolQuery, ToolTurn, TurnAnswer};

use crate::error::Result;
use crate::handle::Tract;
use crate::revision::Revision;

impl Tract {
    /// Returns the tool turns of this handle's branch: each message with calls, with the results
    /// that answer it.
    ///
    /// ```
    /// # tract::block_on(async {
    /// use tract::engine::ToolQuery;
    /// use tract::prelude::*;
    /// let tract = tract::open("memory:").await?;
    /// tract.commit(Draft::assistant("").call("c1", "grep", "{}").call("c2", "ls", "{}")).await?;
    /// tract.tool_result("c2", "a.rs").await?;
    /// let open = tract.turns().open_calls().await?;
    /// assert_eq!((open.len(), open[0].call_id.as_str(), open[0].name.as_str()), (1, "c1", "grep"));
    /// let found = tract.tool_result("c1", "a.rs:7: fn main()").await?;
    /// tract.turns().edit_result(&found, "a.rs").await?;
    /// let turns: Vec<_> = tract.turns().find(&ToolQuery::new().name("grep")).await?.collect();
    /// assert_eq!(turns[0].tool_names, ["grep", "ls"]);
    /// assert_eq!(turns[0].results.len(), 2);
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn turns(&self) -> ToolTurns<'_> {
        ToolTurns { tract: self }
    }
}

/// The tool turns of a branch: what [`Tract::turns`] returns. At another revision,
/// [`Repo::find_tool_turns`](tract_engine::Repo::find_tool_turns) and its siblings find them.
#[derive(Clone, Copy, Debug)]
pub struct ToolTurns<'a> {
    tract: &'a Tract,
}

impl ToolTurns<'_> {
    /// Finds tool turns, oldest first.
    ///
    /// # Errors
    /// `not_on_line` when [`ToolQuery::after`] is not among the commits of the branch.
    pub async fn find(&self, query: &ToolQuery) -> Result<Pages<ToolTurn>> {
        Ok(self.tract.repo().find_tool_turns(self.tract.head().await?, query).await?)
    }

    /// Finds tool results, oldest first. Edits of a result do not count as further results.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub async fn find_results(&self, query: &ToolQuery) -> Result<Pages<FoundResult>> {
        Ok(self.tract.repo().find_tool_results(self.tract.head().await?, query).await?)
    }

    /// Finds messages with tool calls, oldest first.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub async fn find_calls(&self, query: &ToolQuery) -> Result<Pages<FoundCall>> {
        Ok(self.tract.repo().find_tool_calls(self.tract.head().await?, query).await?)
    }

    /// Returns the calls that nothing has answered yet.
    ///
    /// # Errors
    /// As [`Tract::compile`].
    pub async fn open_calls(&self) -> Result<Vec<OpenCall>> {
        Ok(tract_engine::open_calls(&self.tract.compile().await?))
    }

    /// Records the results of a turn: all in one durable write. A result that a handler rejects is
    /// answered by an error with the reason, so that no call stays open; one that it defers waits.
    ///
    /// # Errors
    /// As [`Tract::commit`].
    pub async fn answer(
        &self,
        results: impl IntoIterator<Item = Draft>,
    ) -> Result<Vec<TurnAnswer>> {
        let results = results.into_iter().collect();
        Ok(self.tract.repo().answer_turn(self.tract.branch(), results).await?)
    }

    /// Replaces the text of a tool result that is in the view, named by any of its versions. Which
    /// call it answers, the tool's name and whether it failed stay; the original stays readable
    /// under its own id. No handler for received results is asked, for nothing was received.
    ///
    /// # Errors
    /// As [`Tract::edit`]; `other_kind` when the message is not a result.
    pub async fn edit_result(
        &self,
        result: impl Into<Revision>,
        text: impl Into<String>,
    ) -> Result<Commit> {
        let target = self.tract.resolve(result).await?;
        self.tract.record(Request::edit(target, &Draft::tool_result("", text))).await
    }

    /// Skips the turns in which a tool failed, with one commit. A second call finds nothing more.
    ///
    /// # Errors
    /// As [`find`](Self::find), and errors of the store.
    pub async fn drop_failed(&self, query: &ToolQuery) -> Result<DroppedTurns> {
        Ok(self.tract.repo().drop_failed_tool_turns(self.tract.branch(), query).await?)
    }
}
