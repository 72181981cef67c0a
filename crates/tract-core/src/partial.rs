//! Answers as they come, and answers that broke off.

use crate::content::ToolCall;
use crate::object::Blob;
use crate::reply::{Reply, Usage};

/// A piece of an answer, as it comes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyDelta {
    /// More of the text.
    Text(String),
    /// More of the reasoning, where the provider shows it.
    Reasoning(String),
    /// A call begins.
    Call {
        /// Its place among the calls of the answer, from 0.
        index: usize,
        /// The tool's name, as the caller knows it.
        name: String,
    },
    /// More of a call's arguments. They are JSON only when the answer is whole.
    Arguments {
        /// The call's place among the calls of the answer, from 0.
        index: usize,
        /// The next characters.
        text: String,
    },
}

impl ReplyDelta {
    /// Makes the pieces of an answer that came whole.
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

/// The part of an answer that arrived before it broke off. It is not a reply: it answers nothing, and a call in
/// it must not be run.
///
/// ```
/// use tract_core::PartialReply;
/// let partial = PartialReply::new("The weather in Par");
/// assert!(!partial.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartialReply {
    /// The text so far.
    pub text: String,
    /// The reasoning so far.
    pub reasoning: String,
    /// The calls so far, in order.
    pub calls: Vec<PartialCall>,
    /// The token count of the provider.
    pub usage: Option<Usage>,
    /// The model that answered, as the provider names it.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// The bytes that were received.
    pub raw: Option<Blob>,
}

/// A call of an answer that broke off.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartialCall {
    /// The call; its arguments are the text so far.
    pub call: ToolCall,
    /// Whether the provider had said that its arguments were complete.
    pub whole: bool,
}

impl PartialReply {
    /// Makes a partial answer of text alone.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Adds a call.
    #[must_use]
    pub fn call(mut self, call: ToolCall, whole: bool) -> Self {
        self.calls.push(PartialCall { call, whole });
        self
    }

    /// Returns whether no part of the answer arrived.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.reasoning.is_empty() && self.calls.is_empty()
    }
}
