//! What a request said of its tools, so that the calls of its answer are read as they were meant.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::ToolId;

/// A tool as a request has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RequestTool {
    /// The name under which it was sent.
    pub sent_name: String,
    /// Its own name.
    pub name: String,
    /// The hash of its definition.
    pub tool: ToolId,
    /// Whether the provider was asked to enforce the schema.
    pub strict: bool,
    /// Whether what may be absent was sent as what may be null.
    pub null_for_absent: bool,
}

impl RequestTool {
    /// States a tool that was sent under a name, and not strictly.
    pub fn new(sent_name: impl Into<String>, name: impl Into<String>, tool: ToolId) -> Self {
        let (sent_name, name) = (sent_name.into(), name.into());
        Self { sent_name, name, tool, strict: false, null_for_absent: false }
    }

    /// Says that the provider was asked to enforce the schema, and whether what may be absent was
    /// sent as what may be null.
    #[must_use]
    pub fn strict(mut self, null_for_absent: bool) -> Self {
        self.strict = true;
        self.null_for_absent = null_for_absent;
        self
    }
}

/// The tools of one request: under which name each went out, and how its schema was written. It
/// serializes as a list, to be kept with the request. Cheap to clone.
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
    /// Walks the tools, in the order of the request.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &RequestTool> {
        self.0.iter()
    }

    /// Returns whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the tool that a call means: by the name that was sent, else by its own. Of several
    /// with one name it returns none, since the call is ambiguous.
    pub fn find(&self, name: &str) -> Option<&RequestTool> {
        self.only(|tool| tool.sent_name == name).or_else(|| self.only(|tool| tool.name == name))
    }

    fn only(&self, matches: impl Fn(&RequestTool) -> bool) -> Option<&RequestTool> {
        let mut found = self.0.iter().filter(|tool| matches(tool));
        let first = found.next()?;
        // The same definition again is not a second tool.
        found.all(|other| other == first).then_some(first)
    }
}

impl FromIterator<RequestTool> for RequestMap {
    fn from_iter<I: IntoIterator<Item = RequestTool>>(tools: I) -> Self {
        Self(tools.into_iter().collect())
    }
}
