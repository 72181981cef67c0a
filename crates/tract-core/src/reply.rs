//! Answers of models: content, token usage, and the stop reason.

use std::fmt;

use serde::Serialize;

use crate::content::{Content, ToolCall};
use crate::id::CommitId;
use crate::object::Blob;
use crate::sent::RequestMap;
use crate::text::JsonText;

/// The reason that a model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// It finished its answer.
    EndTurn,
    /// It requests tool calls.
    ToolUse,
    /// It reached the token limit.
    MaxTokens,
    /// It produced a stop sequence.
    StopSequence,
    /// The model, or a filter, refused.
    Refusal,
    /// Another reason, in the provider's term.
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

/// Token usage, as counted by the provider; `None` for counts that it did not report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Usage {
    /// Tokens of the request, including cached ones.
    pub input_tokens: Option<u64>,
    /// Tokens of the reply, including reasoning.
    pub output_tokens: Option<u64>,
    /// Tokens of the request that were read from the provider's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Tokens of the request that were written to the provider's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Tokens of `cache_write_tokens` that were cached for an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_1h_tokens: Option<u64>,
    /// Tokens of the reply spent on reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

impl Usage {
    /// Creates the usage of a request and its reply.
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
}

/// An answer of a model.
///
/// ```
/// use tract_core::{Body, Content, Part, Reply, StopReason};
/// let call = Part::call("c1", "get_weather", r#"{"city":"Paris"}"#);
/// let content = Content::Assistant(Body { parts: vec![call], name: None });
/// let reply = Reply { stop_reason: Some(StopReason::ToolUse), ..Reply::new(content) };
/// assert_eq!(reply.calls().next().map(|call| call.name.as_str()), Some("get_weather"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its content: text, calls and reasoning.
    pub content: Content,
    /// The token usage.
    pub usage: Option<Usage>,
    /// The reason why the model stopped.
    pub stop_reason: Option<StopReason>,
    /// The model that answered, by the provider's name for it.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// The answer as received.
    pub verbatim: Option<Blob>,
    /// Dialect and revision in which it was received, such as `anthropic-1`.
    pub form: Option<String>,
    /// The complete body or stream of the response, byte for byte, if it was kept.
    pub raw: Option<Blob>,
    /// The head that it answers. Committing it to another head is a conflict.
    pub head: Option<CommitId>,
    /// The tools of the request, as sent; empty if unknown.
    pub sent: RequestMap,
    /// The other answers, as received, if the provider sent several to one request. They are
    /// stored with this answer, but are not part of the context.
    pub other_choices: Vec<JsonText>,
}

impl Reply {
    /// Creates a reply with content only.
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
            other_choices: Vec::new(),
        }
    }

    /// Returns the requested calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.calls()
    }

    /// Returns the text.
    pub fn text(&self) -> String {
        self.content.text()
    }
}
