//! What exactly a call would run.

use serde::{Deserialize, Serialize};

use crate::JsonText;
use crate::id::ToolId;

/// What exactly a call would run: what a person reads before approving it, and what runs then. The
/// call itself holds the arguments as the model wrote them; between the two lie profiles, repairs
/// and handlers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BoundCall {
    /// The tool's own name.
    pub tool_name: String,
    /// The hash of its definition.
    pub tool: ToolId,
    /// The definition: JSON text.
    pub definition: String,
    /// The label of the server that it is of; absent for a tool of the program itself.
    pub server: Option<String>,
    /// The arguments: JSON text of an object.
    pub arguments: String,
    /// Whether a repair made them.
    pub repaired: bool,
    /// What was changed of what the model wrote, and by which profile, repair or handler.
    pub changes: Vec<JsonText>,
}

impl BoundCall {
    /// States a tool of the program itself, its definition, and arguments as the model wrote them.
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

    /// Says which server the tool is of.
    #[must_use]
    pub fn server(mut self, server: Option<String>) -> Self {
        self.server = server;
        self
    }

    /// Says what was changed of what the model wrote, and whether a repair did.
    #[must_use]
    pub fn changed(mut self, changes: Vec<JsonText>, repaired: bool) -> Self {
        (self.changes, self.repaired) = (changes, repaired);
        self
    }
}
