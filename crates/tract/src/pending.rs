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
    /// Returns the pending approvals of the repository.
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

    /// Returns the decision that a handler, a rule or a person made about a commit's content;
    /// `None` if there was none.
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

    /// Returns the original of a changed message: before a handler replaced it, else before an
    /// edit. `None` if it was not changed.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub async fn expand(&self, revision: impl Into<Revision>) -> Result<Option<Content>> {
        let id = self.resolve(revision).await?;
        Ok(self.repo().original_of(id).await?)
    }

    /// Summarizes the results of tool turns with the summarizer of this handle's hooks. Each
    /// summary is an edit of its result.
    ///
    /// # Errors
    /// `no_summarizer`, `bad_summary`, `no_tool_result`; nothing is written then.
    pub async fn compress_tool_calls(
        &self,
        options: &CompressToolCalls,
    ) -> Result<CompressedToolCalls> {
        Ok(self.repo().compress_tool_calls(self.branch(), options).await?)
    }

    /// Replaces messages by a summary, written by the summarizer of this handle's hooks. Default:
    /// all messages that are not pinned.
    ///
    /// # Errors
    /// `no_summarizer`, `bad_summary`; `nothing_left` if no message may be replaced.
    pub async fn summarize(&self, options: &SummarizeRange) -> Result<SummarizedRange> {
        Ok(self.repo().summarize_range(self.branch(), options).await?)
    }
}

/// The pending approvals of a repository, returned by [`Tract::pending`].
#[derive(Clone, Copy, Debug)]
pub struct PendingApprovals<'a> {
    tract: &'a Tract,
}

impl PendingApprovals<'_> {
    /// Lists the pending approvals of all branches, oldest first.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn list(&self) -> Result<Vec<Pending>> {
        Ok(self.tract.repo().pending().await?)
    }

    /// Carries out a pending operation on the current head of its branch.
    ///
    /// # Errors
    /// `unknown_pending`, `already_decided`; the error of the operation if it is no longer
    /// possible.
    pub async fn approve(&self, id: &str) -> Result<RecordedDecision> {
        Ok(self.tract.repo().approve(id).await?)
    }

    /// Rejects a pending operation. An open call is answered by an error with the reason.
    ///
    /// # Errors
    /// As [`approve`](Self::approve).
    pub async fn reject(&self, id: &str, reason: impl Into<String>) -> Result<RecordedDecision> {
        Ok(self.tract.repo().reject(id, reason).await?)
    }

    /// Carries out a pending operation with another text; the original is kept.
    ///
    /// # Errors
    /// As [`approve`](Self::approve).
    pub async fn edit(&self, id: &str, text: impl Into<String>) -> Result<RecordedDecision> {
        Ok(self.tract.repo().edit_pending(id, text).await?)
    }

    /// Carries out a pending operation with a summary of its text, written by the summarizer of the
    /// handle's hooks; the original is kept.
    ///
    /// # Errors
    /// As [`approve`](Self::approve), and if no summary passes the checks.
    pub async fn summarize(&self, id: &str, how: &Summarize) -> Result<RecordedDecision> {
        Ok(self.tract.repo().summarize_pending(id, how).await?)
    }
}
