//! The tools that a repository knows, and which are in force where.

use tract_core::{ActiveTool, ToolDefinition, ToolSchema};
use tract_engine::ToolDiff;

use crate::error::Result;
use crate::handle::Tract;
use crate::revision::Revision;

impl Tract {
    /// Returns the tools of the repository: those in force, those of a commit, all versions.
    /// [`set_tools`](Self::set_tools) sets them.
    ///
    /// ```
    /// # tract::block_on(async {
    /// let tract = tract::open("memory:").await?;
    /// tract.set_tools([r#"{"name":"calculate","input_schema":{"type":"object"}}"#]).await?;
    /// let said = tract.user("1 + 2?").await?;
    /// assert_eq!(tract.tools().in_force().await?[0].name, "calculate");
    /// assert_eq!(tract.tools().at(&said).await?.len(), 1);
    /// assert_eq!(tract.tools().history("calculate").await?.len(), 1);
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn tools(&self) -> ToolsOf<'_> {
        ToolsOf { tract: self }
    }
}

/// The tools of a repository: what [`Tract::tools`] returns.
#[derive(Clone, Copy, Debug)]
pub struct ToolsOf<'a> {
    tract: &'a Tract,
}

impl ToolsOf<'_> {
    /// Reads the tools in force on the handle's branch, as they were given.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn in_force(&self) -> Result<Vec<ActiveTool>> {
        match self.tract.head().await? {
            Some(head) => self.at(head).await,
            None => Ok(Vec::new()),
        }
    }

    /// Reads the tools in force at a revision, as they were given to it or to an earlier commit.
    ///
    /// # Errors
    /// As [`Tract::resolve`], and errors of the store.
    pub async fn at(&self, revision: impl Into<Revision>) -> Result<Vec<ActiveTool>> {
        let id = self.tract.resolve_position(revision).await?;
        Ok(self.tract.repo().tools_of(id).await?)
    }

    /// Reads the tools that a commit reports as its own: those that it was given, by itself or by
    /// [`Tract::set_tools`] before it. What is compiled at it are the tools in force,
    /// [`at`](Self::at): where `set_tools` was never called, these may be those of an earlier
    /// commit, which only that one reports. A commit that was given the very same set again
    /// reports none there: see [`Repo::get_commit_tools`](tract_engine::Repo::get_commit_tools).
    ///
    /// # Errors
    /// As [`at`](Self::at).
    pub async fn own(&self, revision: impl Into<Revision>) -> Result<Vec<ActiveTool>> {
        let id = self.tract.resolve_position(revision).await?;
        Ok(self.tract.repo().get_commit_tools(id).await?)
    }

    /// Reads all versions of a tool, in order of first sight.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn history(&self, name: &str) -> Result<Vec<ToolDefinition>> {
        Ok(self.tract.repo().tool_history(name).await?)
    }

    /// Finds the definitions whose id begins with these digits.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn by_prefix(&self, digits: &str) -> Result<Vec<ToolDefinition>> {
        Ok(self.tract.repo().tools_by_prefix(digits).await?)
    }

    /// Compares the tools in force at two revisions, schemas by their structure.
    ///
    /// # Errors
    /// As [`at`](Self::at).
    pub async fn diff(
        &self,
        before: impl Into<Revision>,
        after: impl Into<Revision>,
    ) -> Result<ToolDiff> {
        let before = self.at(before).await?;
        let after = self.at(after).await?;
        Ok(tract_engine::tool_diff(&before, &after, &tract_schema::diff_lines))
    }

    /// Sets no tools: [`Tract::set_tools`] with none.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn clear(&self) -> Result<tract_core::Commit> {
        self.tract.set_tools(std::iter::empty::<ToolSchema>()).await
    }
}
