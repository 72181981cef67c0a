//! The listing of a server's tools.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;
use tract_core::{Limits, ToolSchema};

use crate::server::McpServer;
use crate::tool::McpTool;

/// The tools that a server listed.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The tools, in the server's order.
    pub tools: Vec<McpTool>,
    /// Invalid definitions with the reason: not canonical JSON, without a name, without a schema
    /// that calls can be checked against, or with a name listed before. They are left out, and the
    /// others work.
    pub refused: Vec<(String, String)>,
    /// Faults of the listing itself, such as a page that was listed before, or more tools than the
    /// limit. The tools listed until then are kept.
    pub warnings: Vec<String>,
}

/// A page of a listing. Its definitions are not looked into: one that is nested too deeply is left
/// out, and the others are read.
#[derive(Deserialize)]
pub(crate) struct ListedPage<'a> {
    #[serde(borrow)]
    pub(crate) tools: Vec<&'a RawValue>,
    #[serde(borrow, default, rename = "nextCursor")]
    pub(crate) next: Option<&'a RawValue>,
}

impl<'a> ListedPage<'a> {
    /// Reads the result of a server; the error describes the violation.
    pub(crate) fn read(result: &'a str) -> Result<Self, String> {
        serde_json::from_str(result)
            .map_err(|error| format!("expected an object with a list \"tools\": {error}"))
    }
}

/// Maximum number of definitions in a listing, invalid ones included.
pub(crate) const MOST_TOOLS: usize = 10_000;

/// A listing that is being read.
#[derive(Default)]
pub(crate) struct ListingReader {
    pub(crate) listing: Listing,
    names: HashSet<String>,
    bytes: usize,
}

impl ListingReader {
    /// Counts a page; the error names the limit that all pages together exceed.
    pub(crate) fn count(&mut self, page: &str, limit_bytes: usize) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(page.len());
        if self.bytes > limit_bytes {
            Err(format!("its tools take more than {limit_bytes} bytes: the others are left out"))
        } else {
            Ok(())
        }
    }

    /// Notes a fault of the listing.
    pub(crate) fn warn(&mut self, warning: String) {
        self.listing.warnings.push(warning);
    }

    /// Adds a definition; the error names the limit that was reached.
    pub(crate) fn add(&mut self, server: &McpServer, text: &str) -> Result<(), String> {
        if self.listing.tools.len() + self.listing.refused.len() >= MOST_TOOLS {
            return Err(format!("it lists more than {MOST_TOOLS} tools: the others are left out"));
        }
        let read = ToolSchema::parse(text).map_err(|error| error.to_string());
        let tool = read.and_then(|definition| McpTool::new(server, definition));
        let limits = Limits::default();
        let tool = tool.and_then(|tool| {
            // No branch can have more.
            let count = self.listing.tools.len() + 1;
            limits.check_toolset(count).map_err(|error| error.to_string())?;
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
