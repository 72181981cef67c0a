//! Asking a model: what is sent is committed, and what comes back.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use tract_compile::Compiled;
use tract_core::{
    ActiveTool, CancellationToken, ChatModel, Commit, JsonText, ModelError, Reply, ReplyDelta,
    ToolCall, ToolSchema, unless_cancelled,
};
use tract_engine::{broken_off, generation_config, unanswered};

use crate::drafts::IntoDraft;
use crate::error::{Error, Result};
use crate::handle::Tract;
use crate::schemas::{self, IntoSchema};

/// How a model is asked.
///
/// ```
/// use tract::ChatOptions;
/// let options = ChatOptions::new()
///     .tools([r#"{"name":"get_weather","input_schema":{"type":"object"}}"#])?
///     .parameter("temperature", 0.2)?
///     .on_piece(|piece| eprintln!("{piece:?}"));
/// # let _ = options;
/// # Ok::<(), tract::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct ChatOptions {
    tools: Option<Vec<ToolSchema>>,
    parameters: Vec<(String, JsonText)>,
    on_piece: Option<OnPiece>,
    cancellation: CancellationToken,
    without_raw: bool,
}

type OnPiece = Arc<dyn Fn(&ReplyDelta) + Send + Sync>;

impl fmt::Debug for ChatOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatOptions")
            .field("tools", &self.tools.as_ref().map(Vec::len))
            .field("parameters", &self.parameters)
            .field("streaming", &self.on_piece.is_some())
            .finish_non_exhaustive()
    }
}

impl ChatOptions {
    /// Asks with the tools in force, no parameters, and waits for the whole answer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the tools of this question and its answer alone; those in force stay.
    ///
    /// # Errors
    /// As [`Tract::set_tools`].
    pub fn tools<T: IntoSchema>(mut self, tools: impl IntoIterator<Item = T>) -> Result<Self> {
        self.tools = Some(schemas::all(tools)?);
        Ok(self)
    }

    /// Sets one parameter, such as `temperature` or `max_tokens`.
    ///
    /// # Errors
    /// When the value does not become JSON.
    pub fn parameter(mut self, name: &str, value: impl Serialize) -> Result<Self> {
        let value = JsonText::of(&value)?;
        self.parameters.retain(|(known, _)| known != name);
        self.parameters.push((name.to_owned(), value));
        Ok(self)
    }

    /// Streams: each piece of the answer is handed over as it comes.
    #[must_use]
    pub fn on_piece(mut self, told: impl Fn(&ReplyDelta) + Send + Sync + 'static) -> Self {
        self.on_piece = Some(Arc::new(told));
        self
    }

    /// Sets the token that cancels the wait. What had come then is recorded as broken off.
    #[must_use]
    pub fn cancellation(mut self, token: CancellationToken) -> Self {
        self.cancellation = token;
        self
    }

    /// Sets whether the bytes of the answer are kept with its commit; they are by default.
    #[must_use]
    pub fn keep_raw(mut self, keep: bool) -> Self {
        self.without_raw = !keep;
        self
    }

    fn parameters_json(&self) -> Result<Option<JsonText>> {
        if self.parameters.is_empty() {
            return Ok(None);
        }
        let members: std::collections::BTreeMap<&str, &JsonText> =
            self.parameters.iter().map(|(name, value)| (name.as_str(), value)).collect();
        Ok(Some(JsonText::of(&members)?))
    }
}

/// What a model answered, and where it is recorded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChatReply {
    /// The commit of the question; none for [`Tract::generate`].
    pub sent: Option<Commit>,
    /// The commit of the answer.
    pub commit: Commit,
    /// The answer.
    pub reply: Reply,
}

impl ChatReply {
    /// Returns the text of the answer.
    pub fn text(&self) -> String {
        self.reply.text()
    }

    /// Walks the calls that the answer asks for.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.reply.calls()
    }
}

impl Tract {
    /// Records what a person says, asks the model, and records its answer.
    ///
    /// # Behavior
    /// - The question is durable before the model is asked. When there is no answer it stays, and
    ///   [`generate`](Self::generate) asks again, as does the same question: it is not recorded
    ///   twice while it is the last message of the branch.
    /// - The commit of the answer has the tools that were sent, model and parameters as
    ///   `generation_config`, usage and stop reason as metadata, the provider's id as origin, and
    ///   keeps the bytes that were received.
    /// - An answer that breaks off is recorded as a note, which no model sees.
    ///
    /// # Errors
    /// [`Error::Model`] when there is no answer, [`Error::BrokenOff`] when only some of it came,
    /// [`Error::Late`] when the branch has moved on meanwhile; else as [`commit`](Self::commit).
    pub async fn chat(&self, model: &dyn ChatModel, text: impl Into<String>) -> Result<ChatReply> {
        self.chat_with(model, tract_core::Draft::user(text), &ChatOptions::new()).await
    }

    /// Records any message, asks the model, and records its answer.
    ///
    /// # Errors
    /// As [`chat`](Self::chat).
    pub async fn chat_with(
        &self,
        model: &dyn ChatModel,
        message: impl IntoDraft,
        options: &ChatOptions,
    ) -> Result<ChatReply> {
        let tract = self.within_one_operation()?;
        let mut draft = message.into_draft()?;
        if draft.tools.is_none() {
            draft.tools.clone_from(&options.tools);
        }
        if draft.generation_config.is_none() {
            draft.generation_config = options.parameters_json()?;
        }
        let mut compiled = self.compile().await?;
        let sent = match unanswered(&compiled, &draft) {
            Some(asked_before) => self.repo().require_commit(asked_before).await?,
            None => {
                let sent = tract.commit(draft).await?;
                compiled = tract.compile_at(sent.id()).await?;
                sent
            }
        };
        let mut answer = tract.ask(model, &compiled, options).await?;
        answer.sent = Some(sent);
        Ok(answer)
    }

    /// Asks the model to continue this handle's branch, and records its answer.
    ///
    /// # Errors
    /// As [`chat`](Self::chat); [`Error::Invalid`] when there is nothing to answer.
    pub async fn generate(&self, model: &dyn ChatModel) -> Result<ChatReply> {
        self.generate_with(model, &ChatOptions::new()).await
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
        let compiled = self.compile().await?;
        if compiled.message_count() == 0 {
            return Err(Error::Invalid {
                message: "there is no message to answer".to_owned(),
                note: Some("record one, or ask with `chat`".to_owned()),
            });
        }
        self.ask(model, &compiled, options).await
    }

    async fn ask(
        &self,
        model: &dyn ChatModel,
        compiled: &Compiled,
        options: &ChatOptions,
    ) -> Result<ChatReply> {
        let mut request = compiled.request();
        if let Some(tools) = &options.tools {
            request.tools = tools.iter().map(active).collect();
        }
        let parameters = options.parameters_json()?;
        request.parameters.clone_from(&parameters);
        let answered = match &options.on_piece {
            Some(told) => {
                let mut told = |piece: ReplyDelta| told(&piece);
                model.stream(&request, &options.cancellation, &mut told).await
            }
            None => unless_cancelled(model.chat(&request), &options.cancellation).await,
        };
        let mut reply = match answered {
            Ok(reply) => reply,
            Err(error) => return Err(self.no_answer(error, parameters).await),
        };
        if options.without_raw {
            reply.raw = None;
        }
        let mut draft = (&reply).into_draft()?;
        draft.tools.clone_from(&options.tools);
        draft.generation_config = generation_config(parameters.as_ref(), reply.model.as_deref())?;
        match self.commit_on(compiled.head(), draft).await {
            Ok(commit) => Ok(ChatReply { sent: None, commit, reply }),
            Err(conflict @ Error::Conflict { .. }) => {
                Err(Error::Late { reply: Box::new(reply), conflict: Box::new(conflict) })
            }
            Err(error) => Err(error),
        }
    }

    /// Records what came of an answer that broke off, as a note: it is in the log, and in no
    /// context.
    async fn no_answer(&self, error: ModelError, parameters: Option<JsonText>) -> Error {
        let ModelError::BrokenOff { cause, partial } = &error else { return error.into() };
        let recorded = match broken_off(cause, partial, parameters.as_ref()) {
            Ok(request) => self.record(request).await.map(|commit| commit.id()).ok(),
            Err(_) => None,
        };
        Error::BrokenOff { error: Box::new(error), recorded }
    }
}

fn active(tool: &ToolSchema) -> ActiveTool {
    ActiveTool { name: tool.name().to_owned(), id: tool.id(), schema: tool.text().into() }
}
