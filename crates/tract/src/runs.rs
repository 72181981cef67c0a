//! Agents on the branch of a handle.

use std::sync::Arc;

use tract_core::ChatModel;
use tract_run::{Agent, ReplayReport};
use tract_tools::Registry;

use crate::error::Result;
use crate::handle::Tract;
use crate::revision::Revision;

impl Tract {
    /// Makes an agent that works on this handle's branch, with the tools of a registry.
    ///
    /// ```
    /// # tract::block_on(async {
    /// use std::sync::Arc;
    /// use tract::tools::Registry;
    /// use tract::{ChatModel, Content, Draft, ModelError, Reply, core::ModelRequest, tool};
    ///
    /// /// Adds two numbers.
    /// #[tool(read_only)]
    /// async fn add(a: i64, b: i64) -> i64 { a + b }
    ///
    /// struct Clerk;
    /// #[tract::tools::async_trait]
    /// impl ChatModel for Clerk {
    ///     async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
    ///         Ok(Reply::new(match request.messages.last().map(|last| last.content.clone()) {
    ///             Some(Content::ToolResult(_)) => Content::assistant("The sum is 3."),
    ///             _ => Draft::assistant("").call("c1", "add", r#"{"a":1,"b":2}"#).content,
    ///         }))
    ///     }
    /// }
    /// let tract = tract::open("memory:").await?;
    /// let agent = tract.agent(Arc::new(Clerk), Registry::builder().tool(Add).build()?);
    /// let report = agent.run("1 + 2?").await?;
    /// assert_eq!(report.text, "The sum is 3.");
    /// assert_eq!(tract.compile().await?.message_count(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn agent(&self, model: Arc<dyn ChatModel>, tools: Registry) -> Agent {
        Agent::new(self.repo().clone(), self.branch().clone(), model, tools)
    }

    /// Replays the conversation at a revision against its recorded replies and results. Returns the
    /// first difference from the recording.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), and if the recording cannot be read.
    pub async fn replay(&self, revision: impl Into<Revision>) -> Result<ReplayReport> {
        let head = self.resolve_position(revision).await?;
        Ok(tract_run::replay(self.repo(), head).await?)
    }
}
