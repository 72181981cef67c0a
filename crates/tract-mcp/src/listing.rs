//! What a server listed.

use std::collections::HashSet;

use tract_core::ToolSchema;

use crate::server::McpServer;
use crate::tool::McpTool;

/// The tools that a server listed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Listing {
    /// The tools, in the server's order.
    pub tools: Vec<McpTool>,
    /// Definitions that are none, with the reason: no JSON with a canonical form, no name, no
    /// schema that calls can be checked against, or a name that came before. They are left out, and
    /// the others work.
    pub refused: Vec<(String, String)>,
}

/// How many definitions a listing may have, those that are none included.
pub(crate) const MOST_TOOLS: usize = 10_000;

/// A listing that is being read.
#[derive(Default)]
pub(crate) struct ListingReader {
    pub(crate) listing: Listing,
    names: HashSet<String>,
    bytes: usize,
}

impl ListingReader {
    /// Counts a page; says which limit all pages together are over.
    pub(crate) fn count(&mut self, page: &str, limit_bytes: usize) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(page.len());
        if self.bytes > limit_bytes {
            Err(format!("its tools take more than {limit_bytes} bytes"))
        } else {
            Ok(())
        }
    }

    /// Adds a definition; says which limit is reached.
    pub(crate) fn add(&mut self, server: &McpServer, text: &str) -> Result<(), String> {
        if self.listing.tools.len() + self.listing.refused.len() >= MOST_TOOLS {
            return Err(format!("it lists more than {MOST_TOOLS} tools"));
        }
        let read = ToolSchema::parse(text).map_err(|error| error.to_string());
        let tool = read.and_then(|definition| McpTool::new(server, definition));
        let tool = tool.and_then(|tool| {
            if self.names.insert(tool.origin().to_owned()) {
                Ok(tool)
            } else {
                Err(format!("a second tool of the name {:?}", tool.origin()))
            }
        });
        match tool {
            Ok(tool) => self.listing.tools.push(tool),
            Err(why) => self.listing.refused.push((text.to_owned(), why)),
        }
        Ok(())
    }
}
