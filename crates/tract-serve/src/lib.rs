//! tract as an MCP server: what agents may search, read and write of recorded conversations.
//!
//! Answers are short texts first, with the same as structured content; each is bounded, and says how
//! to read on. Nothing can be deleted, and nothing is written unless [`ServeOptions::write`] allows it.
//!
//! ```no_run
//! # async fn example(repo: tract_engine::Repo) -> tract_mcp::Result<()> {
//! use tract_serve::{ServeOptions, host};
//! host(repo, ServeOptions::new()).serve_stdio().await
//! # }
//! ```
#![forbid(unsafe_code)]

mod documents;
mod shared;
mod shown;
mod tools;

use std::sync::Arc;

use tract_core::{DynTool, ToolContext};
use tract_engine::Repo;
use tract_mcp::McpHost;

use crate::documents::Documents;
use crate::shared::Shared;

/// What clients of the server may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServeOptions {
    /// Whether clients may make branches, notes and messages; not by default.
    pub write: bool,
    /// Branches that no tool lists or searches, such as the caller's own conversation.
    pub exclude: Vec<String>,
}

impl ServeOptions {
    /// Starts from the defaults: reading alone, every branch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether clients may make branches, notes and messages.
    #[must_use]
    pub fn write(mut self, write: bool) -> Self {
        self.write = write;
        self
    }

    /// Leaves branches out of lists and searches.
    #[must_use]
    pub fn exclude(mut self, branches: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.exclude.extend(branches.into_iter().map(Into::into));
        self
    }
}

const READING: &str = "\
Conversations of agents under version control. A branch is a conversation; a revision is a branch, a tag, a commit id, \
or BRANCH#N for its N-th message. Start with `search` or `list`, read with `open`, and read what was cut or summarized \
with `expand`.";

const WRITING: &str = " `branch`, `note` and `commit` write; nothing is ever deleted.";

/// Makes the server of a repository and of the others in its store.
///
/// # Behavior
/// - Reads `repo` unless a call names another repository of the store.
/// - Sees what is committed while it runs.
pub fn host(repo: Repo, options: ServeOptions) -> McpHost {
    let mut tools: Vec<Arc<dyn DynTool>> = tools::reading();
    let mut instructions = READING.to_owned();
    if options.write {
        tools.extend(tools::writing());
        instructions.push_str(WRITING);
    }
    let shared = Arc::new(Shared::new(repo, options));
    let documents = Arc::new(Documents::new(Arc::clone(&shared)));
    let context = ToolContext::new("mcp").with_resource(shared);
    let host = McpHost::new("tract", env!("CARGO_PKG_VERSION"));
    let host = host.instructions(instructions).context(context).documents(documents);
    tools.into_iter().fold(host, McpHost::tool)
}
