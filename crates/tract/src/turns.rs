//! The tool turns of a handle's branch.

use tract_core::{Commit, Draft};
use tract_engine::plan::{OpenCall, Request};
use tract_engine::{DroppedTurns, FoundCall, FoundResult, Pages, ToolQuery, ToolTurn, TurnAnswer};

use crate::error::Result;
use crate::handle::Tract;
use crate::revision::Revision;

impl Tract {
    /// Returns the tool turns of this handle's branch: messages with calls, each with the results
    /// of these calls.
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
    /// let turns: Vec<_> = tract.turns().find(&ToolQuery::named(["grep"])).await?.collect();
    /// assert_eq!(turns[0].tool_names, ["grep", "ls"]);
    /// assert_eq!(turns[0].results.len(), 2);
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn turns(&self) -> ToolTurns<'_> {
        ToolTurns { tract: self }
    }
}

/// The tool turns of a branch, returned by [`Tract::turns`].
/// [`Repo::find_tool_turns`](tract_engine::Repo::find_tool_turns) and its siblings find those of
/// another revision.
#[derive(Clone, Copy, Debug)]
pub struct ToolTurns<'a> {
    tract: &'a Tract,
}

impl ToolTurns<'_> {
    /// Finds tool turns, oldest first.
    ///
    /// # Errors
    /// `not_on_line` if [`ToolQuery::after`] is not a commit of the branch.
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

    /// Returns the unanswered calls.
    ///
    /// # Errors
    /// As [`Tract::compile`].
    pub async fn open_calls(&self) -> Result<Vec<OpenCall>> {
        Ok(tract_engine::open_calls(&self.tract.compile().await?))
    }

    /// Records the results of a turn in one durable write. If a handler rejects a result, its call
    /// is answered by an error with the reason, so that no call stays open. A deferred result waits
    /// for a decision.
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

    /// Replaces the text of a tool result in the view, which may be named by any of its versions.
    /// Its call, its tool name and its error flag are unchanged, and the original can be read by
    /// its own id. Handlers for received results are not called.
    ///
    /// # Errors
    /// As [`Tract::edit`]; `other_kind` if the message is not a result.
    pub async fn edit_result(
        &self,
        result: impl Into<Revision>,
        text: impl Into<String>,
    ) -> Result<Commit> {
        let target = self.tract.resolve(result).await?;
        self.tract.record(Request::edit(target, &Draft::tool_result("", text))).await
    }

    /// Skips the turns in which a tool failed, with one commit. A second call skips nothing.
    ///
    /// # Errors
    /// As [`find`](Self::find), and errors of the store.
    pub async fn drop_failed(&self, query: &ToolQuery) -> Result<DroppedTurns> {
        Ok(self.tract.repo().drop_failed_tool_turns(self.tract.branch(), query).await?)
    }
}
