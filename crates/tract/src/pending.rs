//! What waits to be decided, what was decided, and summaries by a model.

use tract_core::{Content, Draft};
use tract_engine::{
    CompressToolCalls, CompressedToolCalls, Pending, RecordedDecision, SummarizeRange,
    SummarizedRange, TurnAnswer,
};
use tract_hooks::{DecisionRecord, Summarize, ToolSummarization};

use crate::error::Result;
use crate::handle::Tract;
use crate::revision::Revision;

impl Tract {
    /// Records the results of a turn: all in one durable write. A result that a handler rejects is
    /// answered by an error with the reason, so that no call stays open; one that it defers waits.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn answer_turn(
        &self,
        results: impl IntoIterator<Item = Draft>,
    ) -> Result<Vec<TurnAnswer>> {
        let results = results.into_iter().collect();
        Ok(self.repo().answer_turn(self.branch_ref(), results).await?)
    }

    /// Lists the operations that wait to be decided, of all branches, oldest first.
    ///
    /// ```
    /// # tract::block_on(async {
    /// use tract::hooks::{Hooks, ToolResultAction, ToolResultReceived};
    /// use tract::prelude::*;
    /// let hooks = Hooks::new().on("ask-a-person", |_: &ToolResultReceived| {
    ///     ToolResultAction::Defer("needs a person".into())
    /// });
    /// let tract = tract::open("memory:").await?.with_hooks(hooks);
    /// tract.commit(Draft::assistant("").call("c1", "lookup", "{}")).await?;
    /// let error = tract.tool_result("c1", "4111 1111 1111 1111").await.unwrap_err();
    /// assert_eq!(error.code(), "deferred");
    /// let waiting = tract.pending().await?;
    /// tract.edit_pending(&waiting[0].id, "a card number").await?;
    /// assert_eq!(tract.approve(&waiting[0].id).await.unwrap_err().code(), "already_decided");
    /// assert_eq!(tract.expand("HEAD").await?.unwrap().text(), "4111 1111 1111 1111");
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// What the store says.
    pub async fn pending(&self) -> Result<Vec<Pending>> {
        Ok(self.repo().pending().await?)
    }

    /// Does what waits, on its branch as that is now.
    ///
    /// # Errors
    /// `unknown_pending`, `already_decided`; a refusal when it can no longer be done.
    pub async fn approve(&self, id: &str) -> Result<RecordedDecision> {
        Ok(self.repo().approve(id).await?)
    }

    /// Does not do what waits; an open call is answered by an error with the reason.
    ///
    /// # Errors
    /// As [`approve`](Self::approve).
    pub async fn reject(&self, id: &str, reason: impl Into<String>) -> Result<RecordedDecision> {
        Ok(self.repo().reject(id, reason).await?)
    }

    /// Does what waits with another text; the original is kept.
    ///
    /// # Errors
    /// As [`approve`](Self::approve).
    pub async fn edit_pending(
        &self,
        id: &str,
        text: impl Into<String>,
    ) -> Result<RecordedDecision> {
        Ok(self.repo().edit_pending(id, text).await?)
    }

    /// Does what waits with a summary of its text, by the port of this handle's hooks; the
    /// original is kept.
    ///
    /// # Errors
    /// As [`approve`](Self::approve), and when there is no summary that does.
    pub async fn summarize_pending(&self, id: &str, how: &Summarize) -> Result<RecordedDecision> {
        Ok(self.repo().summarize_pending(id, how).await?)
    }

    /// Says why a commit reads as it does: the decision that a handler, a rule or a person took
    /// on it; `None` without a decision.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub async fn decision_on(
        &self,
        revision: impl Into<Revision>,
    ) -> Result<Option<DecisionRecord>> {
        let commit = self.show(revision).await?;
        Ok(commit.origin.detail.as_ref().and_then(DecisionRecord::from_json))
    }

    /// Reads the original of a message that was changed: what a handler replaced, else what an edit
    /// replaced; `None` when it reads as it came.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub async fn expand(&self, revision: impl Into<Revision>) -> Result<Option<Content>> {
        let id = self.resolve(revision).await?;
        Ok(self.repo().original_of(id).await?)
    }

    /// Says which tool results are summarized automatically, from now on and for all users of the
    /// repository; `None` ends it.
    ///
    /// # Errors
    /// `bad_pattern`; what the store says.
    pub async fn configure_tool_summarization(
        &self,
        config: impl Into<Option<ToolSummarization>>,
    ) -> Result<()> {
        Ok(self.repo().configure_tool_summarization(config.into().as_ref()).await?)
    }

    /// Reads which tool results are summarized automatically.
    ///
    /// # Errors
    /// What the store says.
    pub async fn tool_summarization(&self) -> Result<Option<ToolSummarization>> {
        let config = self.repo().tool_summarization().await?;
        Ok(config.map(|config| ToolSummarization::clone(&config)))
    }

    /// Makes the results of tool turns shorter, by the port of this handle's hooks: each summary
    /// is an edit of its result.
    ///
    /// # Errors
    /// `no_summarizer`, `bad_summary`, `no_tool_result`; nothing is written then.
    pub async fn compress_tool_calls(
        &self,
        options: &CompressToolCalls,
    ) -> Result<CompressedToolCalls> {
        Ok(self.repo().compress_tool_calls(self.branch_ref(), options).await?)
    }

    /// Puts a summary, by the port of this handle's hooks, in the place of messages; of everything
    /// that is not pinned by default.
    ///
    /// # Errors
    /// `no_summarizer`, `bad_summary`; `nothing_left` when every message has to stay.
    pub async fn summarize(&self, options: &SummarizeRange) -> Result<SummarizedRange> {
        Ok(self.repo().summarize_range(self.branch_ref(), options).await?)
    }
}
