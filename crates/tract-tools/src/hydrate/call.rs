//! Calls to be hydrated, from a reply, from content, or from another source.

use std::sync::Arc;

use serde::Serialize;
use tract_core::{BoundCall, Content, Reply, RequestMap, RequestTool, ToolCall, ToolId};

/// The reply that contained a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallSource {
    /// The provider's id of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    /// The model, as the provider names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The dialect of the reply, such as `anthropic-1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// The blob of the answer as it was received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbatim: Option<String>,
    /// The commit that the reply answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

/// A call to be hydrated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The provider's id of the call.
    pub id: String,
    /// The tool's name as received.
    pub name: String,
    /// The arguments as received: text, JSON or not.
    pub arguments: Arc<str>,
    /// The registry's id of the tool, if the caller knows it.
    pub tool_id: Option<String>,
    /// The name under which the tool was sent, if it differs from the tool's own.
    pub sent_name: Option<String>,
    /// The definition that was sent. It distinguishes tools with the same name.
    pub definition: Option<ToolId>,
    /// Whether optional parameters were sent as nullable, so that null means absent.
    pub null_for_absent: bool,
    /// The reply that contained it.
    pub source: Option<Arc<CallSource>>,
    /// The call as a person approved it, which runs rather than the received arguments. If no tool
    /// here has that server and definition, the received arguments are used, and need another
    /// approval.
    pub approved: Option<Arc<BoundCall>>,
}

impl Call {
    /// Creates a call.
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
            definition: None,
            null_for_absent: false,
            source: None,
            approved: None,
        }
    }

    /// Sets how the tool was sent: its name, its definition, and the form of its schema.
    #[must_use]
    pub fn sent_as(mut self, sent: &RequestTool) -> Self {
        self.sent_name = Some(sent.sent_name.clone());
        self.definition = Some(sent.tool);
        self.null_for_absent = sent.null_for_absent;
        self
    }
}

impl From<&ToolCall> for Call {
    fn from(call: &ToolCall) -> Self {
        Self::new(&call.id, &call.name, call.arguments.as_str())
    }
}

/// Sets how the tools of calls were sent, if the reply itself does not record the request.
///
/// ```
/// use tract_core::{RequestMap, RequestTool};
/// use tract_tools::{Call, Registry, hydrate, sent_in};
/// let registry = Registry::builder()
///     .definition(
///         r#"{"name":"f","parameters":{"type":"object","properties":{"n":{"type":"integer"}}}}"#,
///     )
///     .build()?;
/// let tool = registry.iter().next().expect("there is one").definition().id();
/// let sent =
///     RequestTool { strict: true, null_for_absent: true, ..RequestTool::new("f", "f", tool) };
/// let map: RequestMap = [sent].into_iter().collect();
/// // OpenAI's strict mode has no way to leave `n` out but null.
/// let calls = sent_in(vec![Call::new("c1", "f", r#"{"n":null}"#)], &map);
/// let hydrated = hydrate(calls, &registry);
/// assert_eq!(hydrated[0].arguments.as_ref().map(|json| json.as_str()), Some("{}"));
/// assert_eq!(hydrated[0].provenance.edits[0].path.as_deref(), Some("/n"));
/// # Ok::<(), tract_tools::RegistryError>(())
/// ```
pub fn sent_in(calls: Vec<Call>, map: &RequestMap) -> Vec<Call> {
    let known = |call: Call| match map.find(&call.name) {
        Some(sent) => call.sent_as(sent),
        None => call,
    };
    calls.into_iter().map(known).collect()
}

/// A value that contains calls, in order. Blocks that the provider runs itself are not calls.
pub trait IntoCalls {
    /// Returns the calls.
    fn into_calls(self) -> Vec<Call>;
}

impl IntoCalls for &Reply {
    fn into_calls(self) -> Vec<Call> {
        let source = Arc::new(CallSource {
            reply: self.id.clone(),
            model: self.model.clone(),
            form: self.form.clone(),
            verbatim: self.verbatim.as_ref().map(|blob| blob.id().to_string()),
            head: self.head.map(|head| head.to_string()),
        });
        let call = |call: &ToolCall| Call { source: Some(Arc::clone(&source)), ..call.into() };
        sent_in(self.calls().map(call).collect(), &self.sent)
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
