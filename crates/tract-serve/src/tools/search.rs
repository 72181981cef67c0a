//! `search`: messages that have words, the best first.

#![allow(clippy::too_many_arguments, reason = "each is a member of the tool's schema")]

use schemars::JsonSchema;
use serde::Serialize;
use tract_core::text::beginning;
use tract_core::time::{self, DayEdge, parse_time};
use tract_core::{CommitId, Kind, ToolContext, ToolError, ToolResult};
use tract_engine::{Branch, SearchHit, SearchOptions};
use tract_tools::{tool, tool_type};

use crate::recorded;
use crate::shared::{Shared, failed};
use crate::tools::dated;

/// Hits that can be paged through.
const MOST_HITS: usize = 1_000;

/// Characters of a hit's line.
const LINE_CHARS: usize = 300;

/// The role of the searched messages.
#[tool_type]
#[derive(Debug, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SearchRole {
    System,
    User,
    Assistant,
    Tool,
}

/// A message that was found.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundMessage {
    /// The commit of the message.
    commit: String,
    /// Branches that show it, at most three; none when it was edited, summarized or skipped.
    branches: Vec<String>,
    /// The role of the message.
    kind: String,
    /// When it was recorded: RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    /// The tools that it calls, or the one that it is a result of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<String>,
    /// The line with most of the words.
    line: String,
}

/// The best hits.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SearchHits {
    hits: Vec<FoundMessage>,
    /// The value of `offset` for the next hits.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

/// Searches recorded conversations for words, in messages, tool calls and results.
#[tool(read_only)]
pub(crate) async fn search(
    /// Words to search for, up to 1,000 characters. A message with all of them comes before one with
    /// some.
    #[schemars(length(max = 1000))]
    query: String,
    /// Only this branch; every branch unless it is given.
    branch: Option<String>,
    /// Only messages of this role.
    role: Option<SearchRole>,
    /// Only calls of this tool and its results.
    tool: Option<String>,
    /// Only messages of this time or later: such as 2026-01-31T09:30:00Z, 2026-01-31 or 2h.
    since: Option<String>,
    /// How many to return, up to 50.
    #[tool(default = 10)]
    #[schemars(range(min = 1, max = 50))]
    limit: usize,
    /// How many to pass over, from the answer before.
    #[tool(default)]
    offset: usize,
    /// Search also what was edited, summarized or skipped.
    #[tool(default)]
    hidden: bool,
    /// Branches to leave out, such as the caller's own.
    #[tool(default)]
    exclude: Vec<String>,
    /// Another repository of the same store.
    repo: Option<String>,
    context: &ToolContext,
) -> Result<ToolResult<SearchHits>, ToolError> {
    let shared = Shared::of(context)?;
    let repo = shared.repo(repo.as_deref()).await?;
    if !query.chars().any(char::is_alphanumeric) {
        return Err(ToolError::validation("the query has no word").at("query"));
    }
    let excluded = shared.excluded(&exclude);
    let branches = dated(&repo, |found: &Branch| match &branch {
        Some(only) => found.name == *only,
        None => !excluded.contains(found.name.as_str()),
    })
    .await?;
    if let (Some(name), true) = (&branch, branches.is_empty()) {
        return Err(ToolError::validation(format!("there is no branch {name:?}"))
            .at("branch")
            .note("`list` names the branches"));
    }
    let branches: Vec<Branch> = branches.into_iter().map(|(branch, _)| branch).collect();
    let since =
        since.as_deref().map(|text| parse_time(text, repo.now_us(), DayEdge::Start)).transpose();
    let since = since.map_err(|error| ToolError::validation(error.to_string()).at("since"))?;
    let options = SearchOptions {
        kinds: role.map(kind).into_iter().collect(),
        tool,
        since,
        limit: offset.saturating_add(limit).saturating_add(1).min(MOST_HITS),
        hidden,
        ..SearchOptions::default()
    };
    let heads: Vec<CommitId> = branches.iter().map(|branch| branch.head).collect();
    let report = tract_engine::search(&repo, &heads, &query, &options).await.map_err(failed)?;
    let total = report.hits.len();
    let page = report.hits.iter().skip(offset).take(limit);
    let hits: Vec<FoundMessage> = page.map(|hit| found(hit, &branches)).collect();
    let end = offset.saturating_add(hits.len());
    let hits = SearchHits { hits, next_offset: (end < total).then_some(end) };
    let text = text(&hits);
    Ok(ToolResult { message: text, exclude_value_from_context: true, ..ToolResult::ok(hits) })
}

fn kind(role: SearchRole) -> Kind {
    match role {
        SearchRole::System => Kind::System,
        SearchRole::User => Kind::User,
        SearchRole::Assistant => Kind::Assistant,
        SearchRole::Tool => Kind::ToolResult,
    }
}

fn found(hit: &SearchHit, branches: &[Branch]) -> FoundMessage {
    let (line, _) = beginning(hit.snippet.text.trim(), LINE_CHARS);
    let shown = hit.heads.iter().filter_map(|head| branches.get(*head));
    FoundMessage {
        commit: hit.commit.to_string(),
        branches: shown.take(3).map(|branch| branch.name.clone()).collect(),
        kind: recorded::line(hit.kind.as_str()),
        at: hit.created_at.and_then(time::format_rfc3339),
        tools: hit.tool_names.iter().map(|name| recorded::line(name)).collect(),
        line: line.replace('\n', " "),
    }
}

fn text(hits: &SearchHits) -> String {
    if hits.hits.is_empty() {
        return "nothing found".to_owned();
    }
    let mut text = String::new();
    for hit in &hits.hits {
        let branches = match hit.branches.as_slice() {
            [] => "hidden".to_owned(),
            branches => branches.join(" "),
        };
        let short = hit.commit.get(..8).unwrap_or(&hit.commit);
        let tools = hit.tools.join(", ");
        text.push_str(&format!("{short}  {branches}  {} {tools}\n    {}\n", hit.kind, hit.line));
    }
    if let Some(next) = hits.next_offset {
        text.push_str(&format!("more: offset {next}\n"));
    }
    text.push_str("read around a hit with open, or whole with expand");
    text
}
