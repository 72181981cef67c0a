//! What a model answered: content, tokens, and why it stopped.

use std::fmt;

use serde::Serialize;

use crate::content::{Content, ToolCall};
use crate::id::CommitId;
use crate::object::Blob;
use crate::sent::RequestMap;

/// The reason why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// It had said all.
    EndTurn,
    /// It wants tools to run.
    ToolUse,
    /// It reached the limit of tokens.
    MaxTokens,
    /// It came to a stop sequence.
    StopSequence,
    /// It, or a filter, refused.
    Refusal,
    /// The provider's word for anything else.
    Other(String),
}

impl StopReason {
    /// Returns the word.
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence => "stop_sequence",
            Self::Refusal => "refusal",
            Self::Other(word) => word,
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Tokens, as the provider counted them; `None` where it did not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Usage {
    /// Of the request, cached ones included.
    pub input_tokens: Option<u64>,
    /// Of the reply, reasoning included.
    pub output_tokens: Option<u64>,
    /// Of the request, read from the provider's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Of the request, written to the provider's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Tokens of `cache_write_tokens` that were written for an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_1h_tokens: Option<u64>,
    /// Of the reply, spent on reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

impl Usage {
    /// Makes the usage of a request and its reply.
    pub const fn new(input_tokens: u64, output_tokens: u64) -> Self {
        Self {
            input_tokens: Some(input_tokens),
            output_tokens: Some(output_tokens),
            cached_tokens: None,
            cache_write_tokens: None,
            cache_write_1h_tokens: None,
            reasoning_tokens: None,
        }
    }

    /// Sets how many tokens came from the provider's cache.
    #[must_use]
    pub const fn cached(mut self, tokens: u64) -> Self {
        self.cached_tokens = Some(tokens);
        self
    }

    /// Sets how many tokens were spent on reasoning.
    #[must_use]
    pub const fn reasoning(mut self, tokens: u64) -> Self {
        self.reasoning_tokens = Some(tokens);
        self
    }
}

/// An answer of a model.
///
/// ```
/// use tract_core::{Body, Content, Part, Reply, StopReason};
/// let call = Part::call("c1", "get_weather", r#"{"city":"Paris"}"#);
/// let reply = Reply::new(Content::Assistant(Body { parts: vec![call], name: None }))
///     .stop_reason(StopReason::ToolUse);
/// assert_eq!(reply.calls().next().map(|call| call.name.as_str()), Some("get_weather"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reply {
    /// Its content: text, calls and reasoning.
    pub content: Content,
    /// What it cost.
    pub usage: Option<Usage>,
    /// The reason why the model stopped.
    pub stop_reason: Option<StopReason>,
    /// The model that answered, as the provider names it.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// The answer as it was received.
    pub verbatim: Option<Blob>,
    /// Dialect and revision that it came in, such as `anthropic-1`.
    pub form: Option<String>,
    /// The whole body or stream that it was read from, byte for byte, where it was kept.
    pub raw: Option<Blob>,
    /// The head that it answers: committing it elsewhere is a conflict.
    pub head: Option<CommitId>,
    /// The tools of the request that it answers, as they were sent; empty where that is not known.
    pub sent: RequestMap,
}

impl Reply {
    /// Makes a reply of content alone.
    pub fn new(content: Content) -> Self {
        Self {
            content,
            usage: None,
            stop_reason: None,
            model: None,
            id: None,
            verbatim: None,
            form: None,
            raw: None,
            head: None,
            sent: RequestMap::default(),
        }
    }

    /// Sets what it cost.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Sets why the model stopped.
    #[must_use]
    pub fn stop_reason(mut self, reason: StopReason) -> Self {
        self.stop_reason = Some(reason);
        self
    }

    /// Sets the model that answered.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the provider's id of the answer.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the answer as it was received, and the dialect that it came in.
    #[must_use]
    pub fn verbatim(mut self, form: impl Into<String>, received: Blob) -> Self {
        self.form = Some(form.into());
        self.verbatim = Some(received);
        self
    }

    /// Sets the whole body or stream that it was read from.
    #[must_use]
    pub fn raw(mut self, received: Blob) -> Self {
        self.raw = Some(received);
        self
    }

    /// Sets the head that it answers.
    #[must_use]
    pub fn head(mut self, head: CommitId) -> Self {
        self.head = Some(head);
        self
    }

    /// Walks the calls that it asks for, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.calls()
    }

    /// Returns its text.
    pub fn text(&self) -> String {
        self.content.text()
    }
}
