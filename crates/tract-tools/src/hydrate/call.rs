//! Calls as they come: from a reply, from content, or from anywhere.

use std::sync::Arc;

use serde::Serialize;
use tract_core::{Content, Reply, ToolCall};

/// The reply that a call came in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Source {
    /// The provider's id of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    /// The model, as the provider names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The dialect that it came in, such as `anthropic-1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// The blob of the answer as it was received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbatim: Option<String>,
    /// The commit that the reply answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

/// A call that is to be hydrated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// The provider's id of the call.
    pub id: String,
    /// The tool's name as received.
    pub name: String,
    /// The arguments as received: text, JSON or not.
    pub arguments: Arc<str>,
    /// The registry's id of the tool, where the caller knows it.
    pub tool_id: Option<String>,
    /// The name under which the tool was sent, where it is not the one it was given.
    pub sent_name: Option<String>,
    /// The reply that it came in.
    pub source: Option<Arc<Source>>,
}

impl Call {
    /// Makes a call.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<Arc<str>>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            tool_id: None,
            sent_name: None,
            source: None,
        }
    }

    /// Says which tool is meant, of several with one name.
    #[must_use]
    pub fn tool_id(mut self, id: impl Into<String>) -> Self {
        self.tool_id = Some(id.into());
        self
    }

    /// Says under which name the tool was sent.
    #[must_use]
    pub fn sent_name(mut self, name: impl Into<String>) -> Self {
        self.sent_name = Some(name.into());
        self
    }
}

impl From<&ToolCall> for Call {
    fn from(call: &ToolCall) -> Self {
        Self::new(&call.id, &call.name, call.arguments.as_str())
    }
}

/// Whatever calls can be taken from, in order. Blocks that a provider runs itself are no calls.
pub trait IntoCalls {
    /// Returns the calls.
    fn into_calls(self) -> Vec<Call>;
}

impl IntoCalls for &Reply {
    fn into_calls(self) -> Vec<Call> {
        let source = Arc::new(Source {
            reply: self.id.clone(),
            model: self.model.clone(),
            form: self.form.clone(),
            verbatim: self.verbatim.as_ref().map(|blob| blob.id().to_string()),
            head: self.head.map(|head| head.to_string()),
        });
        let call = |call: &ToolCall| Call { source: Some(Arc::clone(&source)), ..call.into() };
        self.calls().map(call).collect()
    }
}

impl IntoCalls for &Content {
    fn into_calls(self) -> Vec<Call> {
        self.calls().map(Call::from).collect()
    }
}

impl IntoCalls for &[ToolCall] {
    fn into_calls(self) -> Vec<Call> {
        self.iter().map(Call::from).collect()
    }
}

impl IntoCalls for Vec<Call> {
    fn into_calls(self) -> Vec<Call> {
        self
    }
}

impl IntoCalls for &[Call] {
    fn into_calls(self) -> Vec<Call> {
        self.to_vec()
    }
}

impl IntoCalls for Call {
    fn into_calls(self) -> Vec<Call> {
        vec![self]
    }
}
