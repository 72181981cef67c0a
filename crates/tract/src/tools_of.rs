//! The tools of a repository, and the active ones at each commit.

use tract_core::{ActiveTool, ToolDefinition, ToolSchema};
use tract_engine::ToolDiff;

use crate::error::Result;
use crate::handle::Tract;
use crate::revision::Revision;

impl Tract {
    /// Returns the tools of the repository: the active ones, those of a commit, all versions.
    /// [`set_tools`](Self::set_tools) sets the active ones.
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

/// The tools of a repository, returned by [`Tract::tools`].
#[derive(Clone, Copy, Debug)]
pub struct ToolsOf<'a> {
    tract: &'a Tract,
}

impl ToolsOf<'_> {
    /// Returns the active tools of the handle's branch, as given.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn in_force(&self) -> Result<Vec<ActiveTool>> {
        match self.tract.head().await? {
            Some(head) => self.at(head).await,
            None => Ok(Vec::new()),
        }
    }

    /// Returns the active tools at a revision, as given to it or to an earlier commit.
    ///
    /// # Errors
    /// As [`Tract::resolve`], and errors of the store.
    pub async fn at(&self, revision: impl Into<Revision>) -> Result<Vec<ActiveTool>> {
        let id = self.tract.resolve_position(revision).await?;
        Ok(self.tract.repo().tools_of(id).await?)
    }

    /// Returns the tools that a commit reports as its own: those given with the commit, or with
    /// [`Tract::set_tools`] before it. The context contains the active tools, [`at`](Self::at),
    /// instead: without a `set_tools` these may be tools of an earlier commit, which only that
    /// commit reports. A commit that was given an equal set again reports none: see
    /// [`Repo::get_commit_tools`](tract_engine::Repo::get_commit_tools).
    ///
    /// # Errors
    /// As [`at`](Self::at).
    pub async fn own(&self, revision: impl Into<Revision>) -> Result<Vec<ActiveTool>> {
        let id = self.tract.resolve_position(revision).await?;
        Ok(self.tract.repo().get_commit_tools(id).await?)
    }

    /// Returns all versions of a tool, in the order of their first use.
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

    /// Compares the active tools at two revisions, and their schemas by structure.
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

    /// Removes all active tools: [`Tract::set_tools`] with an empty list.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn clear(&self) -> Result<tract_core::Commit> {
        self.tract.set_tools(std::iter::empty::<ToolSchema>()).await
    }
}
