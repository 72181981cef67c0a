//! Streamed and interrupted answers.

use crate::content::ToolCall;
use crate::object::Blob;
use crate::reply::{Reply, Usage};
use crate::text::JsonText;

/// A piece of a streamed answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyDelta {
    /// More of the text.
    Text(String),
    /// More of the reasoning, where the provider shows it.
    Reasoning(String),
    /// The start of a call.
    Call {
        /// The index of the call in the answer, from 0.
        index: usize,
        /// The tool's name, as the caller knows it.
        name: String,
    },
    /// More of a call's arguments. They are valid JSON only when the answer is complete.
    Arguments {
        /// The index of the call in the answer, from 0.
        index: usize,
        /// The next characters.
        text: String,
    },
}

impl ReplyDelta {
    /// Returns the pieces of a complete answer.
    pub fn all_of(reply: &Reply) -> Vec<Self> {
        let mut pieces = Vec::new();
        let text = reply.text();
        if !text.is_empty() {
            pieces.push(Self::Text(text));
        }
        for (index, call) in reply.calls().enumerate() {
            pieces.push(Self::Call { index, name: call.name.clone() });
            pieces.push(Self::Arguments { index, text: call.arguments.clone() });
        }
        pieces
    }
}

/// The part of an answer that arrived before it was interrupted. It is not a reply: it must not be
/// committed as an answer, and its calls must not be run.
///
/// ```
/// use tract_core::PartialReply;
/// let partial = PartialReply::new("The weather in Par");
/// assert!(!partial.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialReply {
    /// The text so far.
    pub text: String,
    /// The reasoning so far.
    pub reasoning: String,
    /// The calls so far, in order.
    pub calls: Vec<PartialCall>,
    /// The provider's token counts.
    pub usage: Option<Usage>,
    /// The model that answered, by the provider's name for it.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// The received bytes.
    pub raw: Option<Blob>,
    /// The other answers so far, if the provider sent several to one request.
    pub other_choices: Vec<JsonText>,
}

/// A call in an interrupted answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialCall {
    /// The call, with the arguments received so far.
    pub call: ToolCall,
    /// Whether the provider had marked the arguments as complete.
    pub whole: bool,
}

impl PartialReply {
    /// Creates a partial answer with text only.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Adds a call.
    #[must_use]
    pub fn call(mut self, call: ToolCall, whole: bool) -> Self {
        self.calls.push(PartialCall { call, whole });
        self
    }

    /// Returns whether nothing of the answer arrived.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
            && self.reasoning.is_empty()
            && self.calls.is_empty()
            && self.other_choices.is_empty()
    }
}
