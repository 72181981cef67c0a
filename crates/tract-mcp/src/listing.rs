//! What a server listed.

use crate::tool::McpTool;

/// The tools that a server listed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Listing {
    /// The tools, in the server's order.
    pub tools: Vec<McpTool>,
    /// Definitions that are none, with the reason: no JSON with a canonical form, no name, no
    /// schema, or a name that came before.
    pub refused: Vec<(String, String)>,
}

impl Listing {
    pub(crate) fn add(&mut self, tool: Result<McpTool, (String, String)>) {
        match tool {
            Ok(tool) if self.tools.iter().any(|known| known.origin() == tool.origin()) => {
                let why = format!("a second tool of the name {:?}", tool.origin());
                self.refused.push((tool.definition().text().to_owned(), why));
            }
            Ok(tool) => self.tools.push(tool),
            Err(refused) => self.refused.push(refused),
        }
    }
}
