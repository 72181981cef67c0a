//! The exact call that will run.

use serde::{Deserialize, Serialize};

use crate::JsonText;
use crate::id::ToolId;

/// The exact call that a person approves and that runs. It differs from the call in the message,
/// which has the arguments as the model wrote them, by the changes of profiles, repairs and
/// handlers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundCall {
    /// The tool's own name.
    pub tool_name: String,
    /// The id of its definition.
    pub tool: ToolId,
    /// The definition: JSON text.
    pub definition: String,
    /// The MCP server's label; `None` for a local tool.
    pub server: Option<String>,
    /// The arguments: JSON text of an object.
    pub arguments: String,
    /// Whether a repair changed the arguments.
    pub repaired: bool,
    /// The changes to the model's arguments, each with the profile, repair or handler that made it.
    pub changes: Vec<JsonText>,
}

impl BoundCall {
    /// Creates a call of a local tool, with the arguments as the model wrote them.
    pub fn new(
        tool_name: impl Into<String>,
        tool: ToolId,
        definition: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self {
            tool_name: tool_name.into(),
            tool,
            definition: definition.into(),
            server: None,
            arguments: arguments.into(),
            repaired: false,
            changes: Vec::new(),
        }
    }
}
