//! The span of a request to a model.

#[cfg(feature = "telemetry")]
use std::time::Instant;

use crate::id::{RepoName, ToolsetId, ViewId};
use crate::model_error::ModelError;
use crate::ports::{ChatModel, ModelRequest};
use crate::refs::RefName;
use crate::reply::Reply;
#[cfg(feature = "telemetry")]
use crate::reply::{StopReason, Usage};
use crate::telemetry::names;
use crate::telemetry::span::{Span, conversation, new_span};
#[cfg(feature = "telemetry")]
use crate::telemetry::{captures_content, content};

/// Facts about a model that are known before a request, for telemetry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelDescription {
    /// The provider, by its OpenTelemetry name: `openai`, `anthropic`, `gcp.gemini`.
    pub provider: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// Host of the server.
    pub address: Option<String>,
    /// Port of the server.
    pub port: Option<u16>,
}

impl ModelDescription {
    /// Creates a description of a provider's model.
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self { provider: Some(provider.into()), model: Some(model.into()), ..Self::default() }
    }
}

/// The span of a request to a model, from before it is sent until it is answered.
#[derive(Debug)]
pub struct ModelCall {
    span: Span,
}

impl ModelCall {
    /// Starts the span.
    pub fn begin(model: &dyn ChatModel, request: &ModelRequest, streams: bool) -> Self {
        let span = empty_span();
        #[cfg(feature = "telemetry")]
        if span.is_recording() {
            describe(&span, &model.description(), request, streams);
        }
        #[cfg(not(feature = "telemetry"))]
        let _ = (model, request, streams);
        Self { span }
    }

    /// Sets the conversation that the request belongs to.
    pub fn conversation(&self, repo: &RepoName, branch: &RefName) {
        if self.span.is_recording() {
            self.span.set(names::CONVERSATION, &conversation(repo, branch));
        }
    }

    /// Sets the view that the model gets. The id is computed, and returned, only if a subscriber
    /// records the span.
    pub fn context(
        &self,
        view: impl FnOnce() -> ViewId,
        toolset: Option<ToolsetId>,
    ) -> Option<ViewId> {
        if self.span.is_recording() {
            let view = view();
            self.span.set_id(names::TRACT_VIEW, view);
            self.span.set_known_id(names::TRACT_TOOLSET, toolset);
            return Some(view);
        }
        None
    }

    /// Returns the span.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Starts to measure the time to the first piece of the answer.
    pub fn first_piece(&self) -> FirstPiece {
        FirstPiece {
            #[cfg(feature = "telemetry")]
            waiting: self.span.is_recording().then(|| (self.span.clone(), Instant::now())),
        }
    }

    /// Ends the span with the outcome of the request.
    pub fn end(self, answered: &Result<Reply, ModelError>) {
        #[cfg(feature = "telemetry")]
        if self.span.is_recording() {
            match answered {
                Ok(reply) => answer(&self.span, reply),
                Err(error) => failed(&self.span, error),
            }
        }
        #[cfg(not(feature = "telemetry"))]
        let _ = answered;
    }
}

/// Measures the time to the first piece of an answer.
#[derive(Debug)]
pub struct FirstPiece {
    #[cfg(feature = "telemetry")]
    waiting: Option<(Span, Instant)>,
}

impl FirstPiece {
    /// Records that a piece arrived. Only the first call counts.
    pub fn arrived(&mut self) {
        #[cfg(feature = "telemetry")]
        if let Some((span, since)) = self.waiting.take() {
            span.set(names::TIME_TO_FIRST_CHUNK, since.elapsed().as_secs_f64());
        }
    }
}

fn empty_span() -> Span {
    #[cfg(feature = "telemetry")]
    use tracing::field::Empty;
    new_span!(
        []
        target: names::TARGET,
        names::MODEL_CALL,
        { names::OTEL_NAME } = Empty,
        { names::OTEL_KIND } = "client",
        { names::OTEL_STATUS } = Empty,
        { names::OPERATION } = names::MODEL_CALL,
        { names::PROVIDER } = Empty,
        { names::REQUEST_MODEL } = Empty,
        { names::REQUEST_STREAM } = Empty,
        { names::REQUEST_MAX_TOKENS } = Empty,
        { names::REQUEST_TEMPERATURE } = Empty,
        { names::REQUEST_TOP_P } = Empty,
        { names::CONVERSATION } = Empty,
        { names::SERVER_ADDRESS } = Empty,
        { names::SERVER_PORT } = Empty,
        { names::RESPONSE_ID } = Empty,
        { names::RESPONSE_MODEL } = Empty,
        { names::FINISH_REASONS } = Empty,
        { names::TIME_TO_FIRST_CHUNK } = Empty,
        { names::INPUT_TOKENS } = Empty,
        { names::OUTPUT_TOKENS } = Empty,
        { names::CACHE_READ_TOKENS } = Empty,
        { names::REASONING_TOKENS } = Empty,
        { names::ERROR_TYPE } = Empty,
        { names::TRACT_COMMIT } = Empty,
        { names::TRACT_VIEW } = Empty,
        { names::TRACT_TOOLSET } = Empty,
        { names::INPUT_MESSAGES } = Empty,
        { names::OUTPUT_MESSAGES } = Empty,
        { names::SYSTEM_INSTRUCTIONS } = Empty,
        { names::TOOL_DEFINITIONS } = Empty,
    )
}

/// Sets the attributes of the request.
#[cfg(feature = "telemetry")]
fn describe(span: &Span, model: &ModelDescription, request: &ModelRequest, streams: bool) {
    let parameters = content::Parameters::of(request);
    // The provider is required. The conventions allow any word for one that they do not list.
    span.set(names::PROVIDER, model.provider.as_deref().unwrap_or("custom"));
    let name = parameters.model.as_ref().or(model.model.as_ref());
    if let Some(name) = name {
        span.set(names::REQUEST_MODEL, name);
        span.set(names::OTEL_NAME, &format!("{} {name}", names::MODEL_CALL));
    }
    span.set_known(names::SERVER_ADDRESS, model.address.as_deref());
    span.set_known(names::SERVER_PORT, model.port.map(u32::from));
    span.set(names::REQUEST_STREAM, streams);
    span.set_known(names::REQUEST_MAX_TOKENS, parameters.max_tokens);
    span.set_known(names::REQUEST_TEMPERATURE, parameters.temperature);
    span.set_known(names::REQUEST_TOP_P, parameters.top_p);
    span.set_known_id(names::TRACT_COMMIT, request.head);
    if captures_content() {
        let (instructions, messages) = content::split_instructions(&request.messages);
        if !instructions.is_empty() {
            span.set(names::SYSTEM_INSTRUCTIONS, &content::instructions(instructions));
        }
        span.set(names::INPUT_MESSAGES, &content::messages(messages));
        if !request.tools.is_empty() {
            span.set(names::TOOL_DEFINITIONS, &content::definitions(&request.tools));
        }
    }
}

/// Sets the attributes of the answer.
#[cfg(feature = "telemetry")]
fn answer(span: &Span, reply: &Reply) {
    received(span, reply.id.as_deref(), reply.model.as_deref(), reply.usage);
    span.set_known(names::FINISH_REASONS, reply.stop_reason.as_ref().map(finish_reason));
    if captures_content() {
        span.set(names::OUTPUT_MESSAGES, &content::answer(&reply.content));
    }
}

/// Sets the attributes shared by complete and interrupted answers.
#[cfg(feature = "telemetry")]
fn received(span: &Span, id: Option<&str>, model: Option<&str>, usage: Option<Usage>) {
    span.set_known(names::RESPONSE_ID, id);
    span.set_known(names::RESPONSE_MODEL, model);
    let usage = usage.unwrap_or_default();
    span.set_known(names::INPUT_TOKENS, usage.input_tokens);
    span.set_known(names::OUTPUT_TOKENS, usage.output_tokens);
    span.set_known(names::CACHE_READ_TOKENS, usage.cached_tokens);
    span.set_known(names::REASONING_TOKENS, usage.reasoning_tokens);
}

#[cfg(feature = "telemetry")]
fn failed(span: &Span, error: &ModelError) {
    span.fail(error.code());
    if let ModelError::BrokenOff { partial, .. } = error {
        // The conventions' word for an incomplete answer.
        span.set(names::FINISH_REASONS, "error");
        received(span, partial.id.as_deref(), partial.model.as_deref(), partial.usage);
    }
}

/// Returns the conventions' word for a stop reason.
#[cfg(feature = "telemetry")]
fn finish_reason(reason: &StopReason) -> &str {
    match reason {
        StopReason::EndTurn | StopReason::StopSequence => "stop",
        StopReason::ToolUse => "tool_call",
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "content_filter",
        StopReason::Other(word) => word,
    }
}
