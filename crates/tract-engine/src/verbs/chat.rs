//! A request to a model: the question is committed before it, and the answer after it.

use std::fmt;
use std::sync::Arc;

use tract_compile::Compiled;
use tract_core::telemetry::ModelCall;
use tract_core::{
    ActiveTool, CancellationToken, ChatModel, Commit, CommitId, Draft, JsonText, ModelError,
    RefName, Reply, ReplyDelta, ToolCall, ToolSchema, unless_cancelled,
};

use crate::history::question::unanswered;
use crate::plan::Request;
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::repo::operation::Operation;
use crate::verbs::reply::{broken_off, generation_config, reply_draft};
use crate::write::txn::WriteOptions;

/// Options of one request to a model. By default it sends the tools in force and no parameters, and
/// waits for the whole answer.
///
/// ```
/// use std::sync::Arc;
/// use tract_core::{JsonText, ReplyDelta, ToolSchema};
/// use tract_engine::ChatOptions;
/// let weather = r#"{"name":"get_weather","input_schema":{"type":"object"}}"#;
/// let options = ChatOptions {
///     tools: Some(vec![ToolSchema::parse(weather)?]),
///     parameters: Some(JsonText::new(r#"{"temperature":0.2}"#)?),
///     on_piece: Some(Arc::new(|piece: &ReplyDelta| eprintln!("{piece:?}"))),
///     ..ChatOptions::default()
/// };
/// # let _ = options;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct ChatOptions {
    /// Sends these tools with this request only; the tools in force stay.
    pub tools: Option<Vec<ToolSchema>>,
    /// Parameters such as `temperature` or `max_tokens`: a JSON object.
    pub parameters: Option<JsonText>,
    /// Streams the answer: called with each piece as it arrives.
    pub on_piece: Option<OnPiece>,
    /// Cancels the request. The part of the answer that arrived before is recorded as a note.
    pub cancellation: CancellationToken,
    /// Whether the raw bytes of the answer are not stored with its commit.
    pub discard_raw: bool,
}

/// Called with each piece of an answer.
pub type OnPiece = Arc<dyn Fn(&ReplyDelta) + Send + Sync>;

impl fmt::Debug for ChatOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatOptions")
            .field("tools", &self.tools.as_ref().map(Vec::len))
            .field("parameters", &self.parameters)
            .field("streaming", &self.on_piece.is_some())
            .finish_non_exhaustive()
    }
}

/// A model's answer, and the commits of question and answer.
#[derive(Clone, Debug)]
pub struct ChatReply {
    /// The commit of the question; `None` for [`generate`], which has no question.
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

    /// Returns the tool calls of the answer, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.reply.calls()
    }
}

/// A failure of [`chat`] or [`generate`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The engine refuses the question or the answer, or the store fails.
    #[error(transparent)]
    Engine(#[from] Error),
    /// A parameter or the answer cannot be serialized as JSON.
    #[error(transparent)]
    Serialize(#[from] serde_json::Error),
    /// The model gave no answer. The question, if any, is recorded.
    #[error(transparent)]
    Model(Box<ModelError>),
    /// The answer broke off.
    #[error("{error}")]
    BrokenOff {
        /// The cause, and the part that arrived.
        #[source]
        error: Box<ModelError>,
        /// The note that records the part; `None` when it could not be written.
        recorded: Option<CommitId>,
    },
    /// The branch moved while the model answered. The answer is not recorded.
    #[error("the answer came too late: {conflict}")]
    Late {
        /// The answer.
        reply: Box<Reply>,
        /// The conflict: the expected head, and the current one.
        conflict: Box<Error>,
    },
    /// The context is empty.
    #[error("there is no message to answer")]
    NothingToAnswer,
}

/// Records a question, sends the context to the model, and records its answer. One `undo` reverts
/// both commits.
///
/// The question is durable before the request is sent. It stays if there is no answer. While it is
/// the last message, sending the same question again does not record it twice.
///
/// # Errors
/// [`ChatError`].
pub async fn chat(
    repo: &Repo,
    branch: &RefName,
    model: &dyn ChatModel,
    mut question: Draft,
    options: &ChatOptions,
) -> Result<ChatReply, ChatError> {
    // Both commits belong to one operation, so `undo` never leaves a question without its answer.
    let repo = &match repo.operation() {
        Some(_) => repo.clone(),
        None => repo.within(Operation::begin()?),
    };
    if question.tools.is_none() {
        question.tools.clone_from(&options.tools);
    }
    if question.generation_config.is_none() {
        question.generation_config.clone_from(&options.parameters);
    }
    let mut compiled = repo.compile(repo.head_of(branch).await?).await?;
    let sent = match unanswered(&compiled, &question) {
        Some(recorded) => repo.require_commit(recorded).await?,
        None => {
            let sent = repo.append(branch, question).await?;
            // The request must end with this question even if others commit to the branch, so
            // compile its commit and not the head.
            compiled = repo.compile(Some(sent.id())).await?;
            sent
        }
    };
    let mut answer = ask(repo, branch, model, &compiled, options).await?;
    answer.sent = Some(sent);
    Ok(answer)
}

/// Sends the context of a branch to the model, and records its answer.
///
/// # Errors
/// [`ChatError`].
pub async fn generate(
    repo: &Repo,
    branch: &RefName,
    model: &dyn ChatModel,
    options: &ChatOptions,
) -> Result<ChatReply, ChatError> {
    let compiled = repo.compile(repo.head_of(branch).await?).await?;
    if compiled.message_count() == 0 {
        return Err(ChatError::NothingToAnswer);
    }
    ask(repo, branch, model, &compiled, options).await
}

async fn ask(
    repo: &Repo,
    branch: &RefName,
    model: &dyn ChatModel,
    compiled: &Compiled,
    options: &ChatOptions,
) -> Result<ChatReply, ChatError> {
    let mut request = compiled.request();
    if let Some(tools) = &options.tools {
        request.tools = tools.iter().map(active).collect();
    }
    let parameters = options.parameters.as_ref();
    request.parameters = parameters.cloned();
    let call = ModelCall::begin(model, &request, options.on_piece.is_some());
    call.conversation(repo.name(), branch);
    call.context(|| compiled.view_id(), compiled.toolset());
    let answered = match &options.on_piece {
        Some(on_piece) => {
            let mut first = call.first_piece();
            let mut on_piece = |piece: ReplyDelta| {
                first.arrived();
                on_piece(&piece);
            };
            let streamed = model.stream(&request, &options.cancellation, &mut on_piece);
            call.span().instrument(streamed).await
        }
        None => {
            let pending_reply = unless_cancelled(model.chat(&request), &options.cancellation);
            call.span().instrument(pending_reply).await
        }
    };
    call.end(&answered);
    let mut reply = match answered {
        Ok(reply) => reply,
        Err(error) => return Err(no_answer(repo, branch, error, parameters).await),
    };
    if options.discard_raw {
        reply.raw = None;
    }
    let mut draft = reply_draft(&reply)?;
    draft.tools.clone_from(&options.tools);
    draft.generation_config = generation_config(parameters, reply.model.as_deref())?;
    // The answer is recorded on the head that was sent, or not at all: on another head it would
    // follow messages that the model never saw.
    let write = WriteOptions { expect: Some(compiled.head()), ..WriteOptions::default() };
    match repo.write(branch, vec![Request::Append(draft)], &write).await {
        Ok(made) => {
            let commit = made.into_iter().next().expect("one request gives one commit");
            Ok(ChatReply { sent: None, commit, reply })
        }
        Err(conflict @ Error::Conflict { .. }) => {
            Err(ChatError::Late { reply: Box::new(reply), conflict: Box::new(conflict) })
        }
        Err(error) => Err(error.into()),
    }
}

/// Records the partial answer of a request that broke off, as a note: notes are in the log but
/// never part of a context.
async fn no_answer(
    repo: &Repo,
    branch: &RefName,
    error: ModelError,
    parameters: Option<&JsonText>,
) -> ChatError {
    let ModelError::BrokenOff { cause, partial } = &error else {
        return ChatError::Model(Box::new(error));
    };
    let recorded = match broken_off(cause, partial, parameters) {
        Ok(request) => repo.write_one(branch, request).await.map(|commit| commit.id()).ok(),
        Err(_) => None,
    };
    ChatError::BrokenOff { error: Box::new(error), recorded }
}

fn active(tool: &ToolSchema) -> ActiveTool {
    ActiveTool { name: tool.name().to_owned(), id: tool.id(), schema: tool.text().into() }
}
