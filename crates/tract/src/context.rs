//! What a handle compiles, and what of it differs between two revisions.

use tract_compile::Compiled;
use tract_core::{ActiveTool, CommitId, ToolDefinition, ToolId};
use tract_engine::plan::OpenCall;
use tract_engine::{Diff, ToolDiff};

use crate::error::Result;
use crate::handle::Tract;
use crate::revision::Revision;

impl Tract {
    /// Compiles this handle's branch: messages, tools, token count. It is a function of the head
    /// alone.
    ///
    /// # Errors
    /// What the store says, and damage that is met on the way.
    pub async fn compile(&self) -> Result<Compiled> {
        Ok(self.repo().compile(self.head().await?).await?)
    }

    /// Compiles any revision: messages, priorities and tools as they were.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve) and [`compile`](Self::compile).
    pub async fn compile_at(&self, revision: impl Into<Revision>) -> Result<Compiled> {
        let revision = revision.into();
        // A branch without commits compiles to nothing; it is no unknown revision.
        if revision.to_string() == "HEAD" && self.head().await?.is_none() {
            return self.compile().await;
        }
        let head = self.resolve(revision).await?;
        Ok(self.repo().compile(Some(head)).await?)
    }

    /// Compiles a line as it was at a time: microseconds since 1970, UTC.
    ///
    /// # Errors
    /// As [`compile_at`](Self::compile_at).
    pub async fn compile_at_time(
        &self,
        revision: impl Into<Revision>,
        at_us: i64,
    ) -> Result<Compiled> {
        let head = self.resolve(revision).await?;
        Ok(self.repo().compile_at_time(head, at_us).await?)
    }

    /// Reads the tools in force on this handle's branch, as they were given.
    ///
    /// # Errors
    /// What the store says.
    pub async fn tools(&self) -> Result<Vec<ActiveTool>> {
        match self.head().await? {
            Some(head) => self.tools_at(head).await,
            None => Ok(Vec::new()),
        }
    }

    /// Reads the tools in force at a revision, as they were given to it or to an earlier commit.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), and what the store says.
    pub async fn tools_at(&self, revision: impl Into<Revision>) -> Result<Vec<ActiveTool>> {
        let id = self.resolve(revision).await?;
        Ok(self.repo().tools_of(id).await?)
    }

    /// Reads the tools that a commit reports as its own: those that it was given, by itself or by
    /// [`set_tools`](Self::set_tools) before it. What is compiled at it are the tools in force,
    /// [`tools_at`](Self::tools_at): where `set_tools` was never called, these may be those of an
    /// earlier commit, which only that one reports. A commit that was given the very same set again
    /// reports none there: see [`Repo::get_commit_tools`](tract_engine::Repo::get_commit_tools).
    ///
    /// # Errors
    /// As [`tools_at`](Self::tools_at).
    pub async fn get_commit_tools(&self, revision: impl Into<Revision>) -> Result<Vec<ActiveTool>> {
        let id = self.resolve(revision).await?;
        Ok(self.repo().get_commit_tools(id).await?)
    }

    /// Reads all versions of a tool, in order of first sight.
    ///
    /// # Errors
    /// What the store says.
    pub async fn tool_history(&self, name: &str) -> Result<Vec<ToolDefinition>> {
        Ok(self.store().tools_by_name(self.repo().name(), name).await?)
    }

    /// Finds the definitions whose id begins with these digits.
    ///
    /// # Errors
    /// What the store says.
    pub async fn tools_by_prefix(&self, digits: &str) -> Result<Vec<ToolDefinition>> {
        let Some(prefix) = tract_core::IdPrefix::new(digits) else { return Ok(Vec::new()) };
        let found = self.store().resolve_prefix(self.repo().name(), &prefix, 64).await?;
        let ids: Vec<ToolId> = found
            .into_iter()
            .filter_map(|object| match object {
                tract_core::ObjectId::Tool(id) => Some(id),
                _ => None,
            })
            .collect();
        Ok(self.tool_definitions(&ids).await?.into_iter().flatten().collect())
    }

    /// Reads the definitions of tools by their ids.
    ///
    /// # Errors
    /// What the store says.
    pub async fn tool_definitions(&self, ids: &[ToolId]) -> Result<Vec<Option<ToolDefinition>>> {
        Ok(self.store().tools(self.repo().name(), ids).await?)
    }

    /// Compares the tools in force at two revisions, schemas by their structure.
    ///
    /// # Errors
    /// As [`tools_at`](Self::tools_at).
    pub async fn tools_diff(
        &self,
        before: impl Into<Revision>,
        after: impl Into<Revision>,
    ) -> Result<ToolDiff> {
        let before = self.tools_at(before).await?;
        let after = self.tools_at(after).await?;
        Ok(tract_engine::tool_diff(&before, &after, &schema_diff))
    }

    /// Compares what two revisions compile to: messages, tools, tokens, configuration.
    ///
    /// # Errors
    /// As [`compile_at`](Self::compile_at).
    pub async fn diff(
        &self,
        before: impl Into<Revision>,
        after: impl Into<Revision>,
    ) -> Result<Diff> {
        let before = self.compile_at(before).await?;
        let after = self.compile_at(after).await?;
        Ok(tract_engine::diff(&before, &after, &schema_diff))
    }

    /// Returns the calls of this handle's branch that nothing has answered yet.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub async fn open_calls(&self) -> Result<Vec<OpenCall>> {
        Ok(open_calls(&self.compile().await?))
    }

    /// Finds the commit that a line was at, at a time; `None` when it had not begun.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), and what the store says.
    pub async fn commit_at_time(
        &self,
        revision: impl Into<Revision>,
        at_us: i64,
    ) -> Result<Option<CommitId>> {
        let head = self.resolve(revision).await?;
        Ok(self.repo().head_at_time(head, at_us).await?)
    }
}

/// Returns the calls of a context that no row answers, in order.
fn open_calls(compiled: &Compiled) -> Vec<OpenCall> {
    let answered: std::collections::HashSet<_> =
        compiled.rows().filter_map(|(row, _)| row.answers).collect();
    let mut open = Vec::new();
    for message in compiled.messages() {
        for (index, call) in message.content.calls().enumerate() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            let place = tract_core::CallRef { slot: message.slot, index };
            if !answered.contains(&place) {
                let (call_id, name) = (call.id.clone(), call.name.clone());
                open.push(OpenCall { call_id, name, call: place });
            }
        }
    }
    open
}

/// What differs between two schemas, in lines; nothing where one of them is no schema.
fn schema_diff(before: &str, after: &str) -> Vec<String> {
    let changes = tract_schema::diff(before, after).unwrap_or_default();
    changes.iter().map(ToString::to_string).collect()
}
