//! Queries of a history: its counts, its tools, and the turns that call them.

use std::collections::HashMap;

use tract_compile::HistoryCounts;
use tract_core::store::StoreErrorKind;
use tract_core::{
    ActiveTool, CommitId, IdPrefix, ObjectId, Op, StoreError, ToolDefinition, ToolId, ToolSchema,
};

use crate::history::counts;
use crate::history::reach::damage;
use crate::history::tool_diff::{SchemaDiff, ToolDiff, tool_diff};
use crate::history::turns::{self, FoundCall, FoundResult, Pages, ToolQuery, ToolTurn};
use crate::repo::Repo;
use crate::repo::error::Result;

impl Repo {
    /// Returns the counts of a history at a commit: commits, rows and messages.
    ///
    /// # Errors
    /// Those of [`fold`](Self::fold).
    ///
    /// # Complexity
    /// Reads at most a few thousand commits, unless an older version wrote the history without
    /// counts in its turn index rows: then it is folded.
    pub async fn counts(&self, head: Option<CommitId>) -> Result<HistoryCounts> {
        counts::counts(self, head).await
    }

    /// Returns the message numbers, from 1, of the messages in the newest commits of a history, by
    /// the commit whose content is shown. Empty if that requires reading older rows.
    ///
    /// # Errors
    /// Those of [`counts`](Self::counts).
    pub async fn recent_numbers(&self, head: CommitId) -> Result<HashMap<CommitId, u64>> {
        counts::recent_numbers(self, head).await
    }

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
        if has_own_tools(self, commit).await? {
            self.tools_of(commit).await
        } else {
            Ok(Vec::new())
        }
    }

    /// Reads the tools in force after a commit: in order, with repeats, each with its original
    /// bytes. A point read, for any length of history. They may have been given to an earlier
    /// commit: [`get_commit_tools`](Self::get_commit_tools) reads only those of the commit itself.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store) of kind `Missing` when the commit is not stored;
    /// [`Error::Erased`](crate::Error::Erased) when a definition was erased;
    /// [`Error::Json`](crate::Error::Json) when a schema is not valid.
    pub async fn tools_of(&self, commit: CommitId) -> Result<Vec<ActiveTool>> {
        let blobs = match self.store().tools_of(self.name(), commit).await {
            Err(StoreError {
                kind: StoreErrorKind::Missing { object: ObjectId::Blob(id) },
                ..
            }) => {
                return Err(self.absent_blob(id).await);
            }
            found => found?,
        };
        let tool = |blob: tract_core::Blob| {
            let what = "a tool schema that is not UTF-8";
            let damaged = || damage(ObjectId::Blob(blob.id()), what);
            let text = blob.text().ok_or_else(damaged)?;
            let schema = ToolSchema::parse(text)?;
            let name = schema.name().to_owned();
            Ok(ActiveTool { name, id: schema.id(), schema: text.into() })
        };
        blobs.into_iter().map(tool).collect()
    }

    /// Reads the ids of the tools in force after a commit, in order, with repeats.
    ///
    /// # Errors
    /// As [`tools_of`](Self::tools_of).
    pub async fn tool_ids_of(&self, commit: CommitId) -> Result<Vec<ToolId>> {
        Ok(self.store().tool_ids_of(self.name(), commit).await?)
    }

    /// Reads all versions of a tool's name in order of first use: by the time of the first commit
    /// with each, then by that commit's id.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn tool_history(&self, name: &str) -> Result<Vec<ToolDefinition>> {
        Ok(self.store().tools_by_name(self.name(), name).await?)
    }

    /// Finds the definitions whose id starts with these digits, up to 64.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn tools_by_prefix(&self, digits: &str) -> Result<Vec<ToolDefinition>> {
        let Some(prefix) = IdPrefix::new(digits) else { return Ok(Vec::new()) };
        let found = self.store().resolve_prefix(self.name(), &prefix, 64).await?;
        let tool = |object| match object {
            ObjectId::Tool(id) => Some(id),
            _ => None,
        };
        let ids: Vec<ToolId> = found.into_iter().filter_map(tool).collect();
        Ok(self.store().tools(self.name(), &ids).await?.into_iter().flatten().collect())
    }

    /// Lists the names of all tools that were ever in force, sorted.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn tool_names(&self) -> Result<Vec<String>> {
        Ok(self.store().tool_names(self.name()).await?)
    }

    /// Compares the tools in force at two commits. `schemas` describes the difference between two
    /// schemas of one name.
    ///
    /// # Errors
    /// As [`tools_of`](Self::tools_of).
    pub async fn tools_between(
        &self,
        before: CommitId,
        after: CommitId,
        schemas: SchemaDiff<'_>,
    ) -> Result<ToolDiff> {
        let (before, after) = (self.tools_of(before).await?, self.tools_of(after).await?);
        Ok(tool_diff(&before, &after, schemas))
    }

    /// Finds the tool turns of a history, oldest first.
    ///
    /// # Errors
    /// [`Error::NotOnLine`](crate::Error::NotOnLine) when [`ToolQuery::after`] is not part of the
    /// history; when the store fails.
    pub async fn find_tool_turns(
        &self,
        head: Option<CommitId>,
        query: &ToolQuery,
    ) -> Result<Pages<ToolTurn>> {
        turns::tool_turns(self, head, query).await
    }

    /// Finds the tool results of a history, oldest first, by tool name.
    ///
    /// # Errors
    /// As [`find_tool_turns`](Self::find_tool_turns).
    pub async fn find_tool_results(
        &self,
        head: Option<CommitId>,
        query: &ToolQuery,
    ) -> Result<Pages<FoundResult>> {
        turns::tool_results(self, head, query).await
    }

    /// Finds the messages with tool calls of a history, oldest first, by the tool names of their
    /// calls.
    ///
    /// # Errors
    /// As [`find_tool_turns`](Self::find_tool_turns).
    pub async fn find_tool_calls(
        &self,
        head: Option<CommitId>,
        query: &ToolQuery,
    ) -> Result<Pages<FoundCall>> {
        turns::tool_calls(self, head, query).await
    }
}

async fn has_own_tools(repo: &Repo, id: CommitId) -> Result<bool> {
    let commit = repo.require_commit(id).await?;
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
        (_, Some(parent)) => commit.toolset != repo.require_commit(parent).await?.toolset,
        (_, None) => true,
    };
    Ok(changes || repo.fold(Some(id)).await?.tools_set())
}
