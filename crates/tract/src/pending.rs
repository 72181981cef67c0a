//! Pending approvals, decisions, and summaries by a model.

use tract_core::Content;
use tract_engine::{
    CompressToolCalls, CompressedToolCalls, Pending, RecordedDecision, SummarizeRange,
    SummarizedRange,
};
use tract_hooks::{DecisionRecord, Summarize};

use crate::error::Result;
use crate::handle::Tract;
use crate::revision::Revision;

impl Tract {
    /// Returns the operations of the repository that wait for a decision.
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
    /// let waiting = tract.pending().list().await?;
    /// tract.pending().edit(&waiting[0].id, "a card number").await?;
    /// assert_eq!(tract.pending().approve(&waiting[0].id).await.unwrap_err().code(), "already_decided");
    /// assert_eq!(tract.expand("HEAD").await?.unwrap().text(), "4111 1111 1111 1111");
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn pending(&self) -> PendingApprovals<'_> {
        PendingApprovals { tract: self }
    }

    /// Reads why a commit reads as it does: the decision that a handler, a rule or a person took
    /// on it; `None` when there was none.
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

    /// Reads the original of a message that was changed: what a handler replaced, else what an
    /// edit replaced; `None` when it reads as it came.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub async fn expand(&self, revision: impl Into<Revision>) -> Result<Option<Content>> {
        let id = self.resolve(revision).await?;
        Ok(self.repo().original_of(id).await?)
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
        Ok(self.repo().compress_tool_calls(self.branch(), options).await?)
    }

    /// Replaces messages by a summary that the port of this handle's hooks writes; by default all
    /// that are not pinned.
    ///
    /// # Errors
    /// `no_summarizer`, `bad_summary`; `nothing_left` when every message has to stay.
    pub async fn summarize(&self, options: &SummarizeRange) -> Result<SummarizedRange> {
        Ok(self.repo().summarize_range(self.branch(), options).await?)
    }
}

/// The operations that wait for a decision: what [`Tract::pending`] returns.
#[derive(Clone, Copy, Debug)]
pub struct PendingApprovals<'a> {
    tract: &'a Tract,
}

impl PendingApprovals<'_> {
    /// Lists them, of all branches, oldest first.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn list(&self) -> Result<Vec<Pending>> {
        Ok(self.tract.repo().pending().await?)
    }

    /// Carries one out, on its branch as that is now.
    ///
    /// # Errors
    /// `unknown_pending`, `already_decided`; a refusal when it can no longer be done.
    pub async fn approve(&self, id: &str) -> Result<RecordedDecision> {
        Ok(self.tract.repo().approve(id).await?)
    }

    /// Drops one; an open call is answered by an error with the reason.
    ///
    /// # Errors
    /// As [`approve`](Self::approve).
    pub async fn reject(&self, id: &str, reason: impl Into<String>) -> Result<RecordedDecision> {
        Ok(self.tract.repo().reject(id, reason).await?)
    }

    /// Carries one out with another text; the original is kept.
    ///
    /// # Errors
    /// As [`approve`](Self::approve).
    pub async fn edit(&self, id: &str, text: impl Into<String>) -> Result<RecordedDecision> {
        Ok(self.tract.repo().edit_pending(id, text).await?)
    }

    /// Carries one out with a summary of its text, by the port of the handle's hooks; the
    /// original is kept.
    ///
    /// # Errors
    /// As [`approve`](Self::approve), and when no summary passes the checks.
    pub async fn summarize(&self, id: &str, how: &Summarize) -> Result<RecordedDecision> {
        Ok(self.tract.repo().summarize_pending(id, how).await?)
    }
}
