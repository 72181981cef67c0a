//! Recording: messages, edits, priorities, summaries, tools.

use tract_core::{Commit, CommitId, Draft, Priority};
use tract_core::{IntoSchema, into_schemas};
use tract_engine::WriteOptions;
use tract_engine::plan::{Request, Selection};

use crate::drafts::IntoDraft;
use crate::error::Result;
use crate::handle::Tract;
use crate::revision::Revision;

impl Tract {
    /// Records instructions to the model.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn system(&self, text: impl Into<String>) -> Result<Commit> {
        self.commit(Draft::system(text)).await
    }

    /// Records a message of the user.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn user(&self, text: impl Into<String>) -> Result<Commit> {
        self.commit(Draft::user(text)).await
    }

    /// Records a message of the model.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn assistant(&self, text: impl Into<String>) -> Result<Commit> {
        self.commit(Draft::assistant(text)).await
    }

    /// Records the answer to the nearest open call with this id.
    ///
    /// # Errors
    /// As [`commit`](Self::commit); `no_open_call` if there is no such call.
    pub async fn tool_result(
        &self,
        call_id: impl Into<String>,
        text: impl Into<String>,
    ) -> Result<Commit> {
        self.commit(Draft::tool_result(call_id, text)).await
    }

    /// Records a message. It is durable when this returns.
    ///
    /// ```
    /// # tract::block_on(async {
    /// use tract::prelude::*;
    /// let tract = tract::open("memory:").await?;
    /// let said = tract.commit(Draft::user("Do I need a coat?").message("first question")).await?;
    /// assert_eq!(tract.head().await?, Some(said.id()));
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::Engine`](crate::Error::Engine) if the message does not fit,
    /// [`Error::TooLarge`](crate::Error::TooLarge) if it exceeds a limit,
    /// [`Error::Conflict`](crate::Error::Conflict) if it is a reply and the branch has moved since
    /// the head that it answers, and errors of the store.
    pub fn commit(&self, draft: impl IntoDraft) -> impl Future<Output = Result<Commit>> {
        let options =
            WriteOptions { expect: draft.answers_head().map(Some), ..WriteOptions::default() };
        self.commit_with(draft, options)
    }

    fn commit_with(
        &self,
        draft: impl IntoDraft,
        options: WriteOptions,
    ) -> impl Future<Output = Result<Commit>> {
        // Boxed to keep the future small: a draft is large.
        let requests = draft.into_draft().map(|draft| vec![Request::Append(draft)]);
        async move {
            let made = self.repo().write(self.branch(), requests?, &options).await?;
            Ok(made.into_iter().next().expect("one request gives one commit"))
        }
    }

    /// Records a message only if the branch is still at `head`, which is `None` for a branch
    /// without commits.
    ///
    /// # Errors
    /// [`Error::Conflict`](crate::Error::Conflict) if the branch is not at `head`; errors of
    /// [`commit`](Self::commit).
    pub fn commit_on(
        &self,
        head: Option<CommitId>,
        draft: impl IntoDraft,
    ) -> impl Future<Output = Result<Commit>> {
        self.commit_with(draft, WriteOptions { expect: Some(head), ..WriteOptions::default() })
    }

    /// Records messages atomically, in one durable write.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn commit_all(
        &self,
        drafts: impl IntoIterator<Item = impl IntoDraft>,
    ) -> Result<Vec<Commit>> {
        let drafts: Vec<Draft> =
            drafts.into_iter().map(IntoDraft::into_draft).collect::<Result<_>>()?;
        Ok(self.repo().append_all(self.branch(), drafts).await?)
    }

    /// Replaces the text of a message, which may be named by any of its versions. Everything else,
    /// such as its role and calls, is unchanged. The original can be read by its own id.
    ///
    /// # Errors
    /// `not_visible` if the message is not in the view, `other_kind`, `other_calls`.
    pub async fn edit(
        &self,
        message: impl Into<Revision>,
        text: impl Into<String>,
    ) -> Result<Commit> {
        let target = self.resolve(message).await?;
        Ok(self.repo().edit(self.branch(), target, text).await?)
    }

    /// Sets the priority of a message.
    ///
    /// # Errors
    /// `not_visible` if the message is not in the view.
    pub async fn annotate(
        &self,
        message: impl Into<Revision>,
        priority: Priority,
    ) -> Result<Commit> {
        let target = self.resolve(message).await?;
        Ok(self.repo().annotate(self.branch(), &[target], priority).await?)
    }

    /// Replaces an inclusive range of messages by one summary. Calls are summarized with their
    /// results; pinned messages and open calls are kept.
    ///
    /// # Errors
    /// `not_visible`; `nothing_left` if no message of the range may be replaced.
    pub async fn compress(
        &self,
        from: impl Into<Revision>,
        to: impl Into<Revision>,
        summary: impl Into<String>,
    ) -> Result<Commit> {
        let from = Some(self.resolve(from).await?);
        let to = Some(self.resolve(to).await?);
        let select = Selection::Range { from, to };
        Ok(self.repo().compress(self.branch(), select, summary).await?)
    }

    /// Reverts a commit with a new commit.
    ///
    /// # Errors
    /// `superseded` with the commits that have to be reverted first.
    pub async fn revert(&self, commit: impl Into<Revision>) -> Result<Commit> {
        let target = self.resolve(commit).await?;
        Ok(self.repo().revert(self.branch(), &[target]).await?)
    }

    /// Sets the active tools from here on, in any provider's format. An empty list means no tools.
    ///
    /// ```
    /// # tract::block_on(async {
    /// let tract = tract::open("memory:").await?;
    /// tract.set_tools([r#"{"name":"calculate","input_schema":{"type":"object"}}"#]).await?;
    /// assert_eq!(tract.tools().in_force().await?[0].name, "calculate");
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::Json`](crate::Error::Json) if a tool is not a JSON object,
    /// [`Error::TooLarge`](crate::Error::TooLarge) for too many or too large tools, `no_name` and
    /// `duplicate_name` for tools that a model could not name.
    pub async fn set_tools<T: IntoSchema>(
        &self,
        tools: impl IntoIterator<Item = T>,
    ) -> Result<Commit> {
        Ok(self.repo().set_tools(self.branch(), into_schemas(tools)?).await?)
    }

    /// Carries out any request on this handle's branch.
    ///
    /// # Errors
    /// Errors of the planner and of the store.
    pub async fn record(&self, request: Request) -> Result<Commit> {
        Ok(self.repo().write_one(self.branch(), request).await?)
    }
}
