//! Requests to a model on the branch of a handle.

use tract_core::{ChatModel, Draft};
use tract_engine::{ChatOptions, ChatReply};

use crate::drafts::IntoDraft;
use crate::error::Result;
use crate::handle::Tract;

impl Tract {
    /// Records a question, asks the model, and records its answer.
    ///
    /// # Behavior
    /// - The question is durable before the request is sent. If there is no answer, the question
    ///   stays. [`generate`](Self::generate) asks again, and so does the same question: it is not
    ///   recorded twice while it is the last message of the branch.
    /// - The commit of the answer contains the sent tools, model and parameters as
    ///   `generation_config`, usage and stop reason as metadata, the provider's id as origin, and
    ///   the received bytes.
    /// - An answer that breaks off is recorded as a note, which no model sees.
    ///
    /// # Errors
    /// [`Error::Model`](crate::Error::Model) if there is no answer,
    /// [`Error::BrokenOff`](crate::Error::BrokenOff) if only a part of it arrived,
    /// [`Error::Late`](crate::Error::Late) if the branch moved during the request; errors of
    /// [`commit`](Self::commit).
    pub async fn chat(&self, model: &dyn ChatModel, text: impl Into<String>) -> Result<ChatReply> {
        self.chat_with(model, Draft::user(text), &ChatOptions::default()).await
    }

    /// Records any message as the question, asks the model, and records its answer.
    ///
    /// # Errors
    /// As [`chat`](Self::chat).
    pub async fn chat_with(
        &self,
        model: &dyn ChatModel,
        message: impl IntoDraft,
        options: &ChatOptions,
    ) -> Result<ChatReply> {
        let question = message.into_draft()?;
        Ok(tract_engine::chat(self.repo(), self.branch(), model, question, options).await?)
    }

    /// Asks the model to continue this handle's branch, and records its answer.
    ///
    /// # Errors
    /// As [`chat`](Self::chat); [`Error::Invalid`](crate::Error::Invalid) if the context is empty.
    pub async fn generate(&self, model: &dyn ChatModel) -> Result<ChatReply> {
        self.generate_with(model, &ChatOptions::default()).await
    }

    /// Asks the model to continue, with options, and records its answer.
    ///
    /// # Errors
    /// As [`generate`](Self::generate).
    pub async fn generate_with(
        &self,
        model: &dyn ChatModel,
        options: &ChatOptions,
    ) -> Result<ChatReply> {
        Ok(tract_engine::generate(self.repo(), self.branch(), model, options).await?)
    }
}
