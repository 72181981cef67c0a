//! The tools of a request as they were sent, so that the calls of its answer can be mapped back.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::ToolId;

/// A tool as sent in a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTool {
    /// The name in the request.
    pub sent_name: String,
    /// The tool's own name.
    pub name: String,
    /// The id of its definition.
    pub tool: ToolId,
    /// Whether the provider was asked to enforce the schema.
    pub strict: bool,
    /// Whether optional fields were sent as nullable ones.
    pub null_for_absent: bool,
}

impl RequestTool {
    /// Creates a tool with this name in the request, and without a strict schema.
    pub fn new(sent_name: impl Into<String>, name: impl Into<String>, tool: ToolId) -> Self {
        let (sent_name, name) = (sent_name.into(), name.into());
        Self { sent_name, name, tool, strict: false, null_for_absent: false }
    }
}

/// The tools of one request: the name under which each was sent, and the form of its schema.
/// Serializes as a list that is stored with the request. Cheap to clone.
///
/// ```
/// use tract_core::{RequestMap, RequestTool, ToolSchema};
/// let tool = ToolSchema::parse(r#"{"name":"fs.read","inputSchema":{"type":"object"}}"#)?;
/// let map: RequestMap =
///     [RequestTool::new("fs_read_8a61f454", "fs.read", tool.id())].into_iter().collect();
/// assert_eq!(map.find("fs_read_8a61f454").map(|sent| sent.tool), Some(tool.id()));
/// assert_eq!(map.find("fs.read"), map.find("fs_read_8a61f454"));
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestMap(Arc<[RequestTool]>);

impl RequestMap {
    /// Returns the tools, in the order of the request.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &RequestTool> {
        self.0.iter()
    }

    /// Returns whether there are no tools.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the tool that a call refers to, by the name in the request or else by its own.
    /// `None` if several tools have that name, since the call is then ambiguous.
    pub fn find(&self, name: &str) -> Option<&RequestTool> {
        self.only(|tool| tool.sent_name == name).or_else(|| self.only(|tool| tool.name == name))
    }

    fn only(&self, matches: impl Fn(&RequestTool) -> bool) -> Option<&RequestTool> {
        let mut found = self.0.iter().filter(|tool| matches(tool));
        let first = found.next()?;
        // A repeated identical definition does not make the name ambiguous.
        found.all(|other| other == first).then_some(first)
    }
}

impl FromIterator<RequestTool> for RequestMap {
    fn from_iter<I: IntoIterator<Item = RequestTool>>(tools: I) -> Self {
        Self(tools.into_iter().collect())
    }
}
