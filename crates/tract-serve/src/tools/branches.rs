//! `list`: the conversations of a repository, newest first.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use tract_core::time::{self, DayEdge, parse_time};
use tract_core::{Commit, CommitId, ToolContext, ToolError, ToolResult};
use tract_engine::{Branch, Error, Repo, SessionQuery, describe, sessions};
use tract_tools::tool;

use crate::shared::{Shared, failed};

/// A conversation.
#[derive(Debug, Serialize, JsonSchema)]
struct ListedBranch {
    /// The name of the branch.
    branch: String,
    /// The title of the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Its newest commit.
    head: String,
    /// When that commit was made: RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    /// That commit in one line.
    last: String,
}

/// Some of the conversations.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BranchList {
    branches: Vec<ListedBranch>,
    /// How many there are in all.
    total: usize,
    /// The value of `offset` for the next branches.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

/// Lists the recorded conversations (branches), the ones with the newest commits first.
#[tool(read_only)]
pub(crate) async fn list(
    /// Only branches whose name contains this text.
    name: Option<String>,
    /// Only branches with a commit at this time or later: such as 2026-01-31T09:30:00Z, 2026-01-31 or 2h.
    since: Option<String>,
    /// How many to list, up to 100.
    #[tool(default = 20)]
    #[schemars(range(min = 1, max = 100))]
    limit: usize,
    /// How many to pass over, from the answer before.
    #[tool(default)]
    offset: usize,
    /// Branches to leave out.
    #[tool(default)]
    exclude: Vec<String>,
    /// Another repository of the same store.
    repo: Option<String>,
    context: &ToolContext,
) -> Result<ToolResult<BranchList>, ToolError> {
    let shared = Shared::of(context)?;
    let repo = shared.repo(repo.as_deref()).await?;
    let since =
        since.as_deref().map(|text| parse_time(text, repo.now_us(), DayEdge::Start)).transpose();
    let since = since.map_err(|error| ToolError::validation(error.to_string()).at("since"))?;
    let excluded = shared.excluded(&exclude);
    let wanted = |branch: &Branch| {
        !excluded.contains(branch.name.as_str())
            && name.as_ref().is_none_or(|name| branch.name.contains(name.as_str()))
    };
    let mut branches = dated(&repo, wanted).await?;
    branches.retain(|(_, commit)| since.is_none_or(|since| commit.created_at >= Some(since)));
    let total = branches.len();
    let page: Vec<(Branch, Commit)> = branches.into_iter().skip(offset).take(limit).collect();
    let commits: Vec<Commit> = page.iter().map(|(_, commit)| commit.clone()).collect();
    let lines = describe(&repo, &commits).await.map_err(failed)?;
    let sessions = sessions(&repo, &SessionQuery::default()).await.map_err(failed)?;
    let mut titles: HashMap<String, Option<String>> =
        sessions.into_iter().map(|session| (session.branch, session.title)).collect();
    let listed: Vec<ListedBranch> = page
        .into_iter()
        .zip(lines)
        .map(|((branch, commit), line)| ListedBranch {
            title: titles.remove(&branch.name).flatten(),
            branch: branch.name,
            head: branch.head.to_string(),
            at: commit.created_at.and_then(time::format_rfc3339),
            last: line.text.replace('\n', " "),
        })
        .collect();
    let end = offset.saturating_add(listed.len());
    let list = BranchList { next_offset: (end < total).then_some(end), branches: listed, total };
    let text = text(&list);
    Ok(ToolResult { message: text, exclude_value_from_context: true, ..ToolResult::ok(list) })
}

/// Returns branches with their newest commits, newest first.
pub(crate) async fn dated(
    repo: &Repo,
    wanted: impl Fn(&Branch) -> bool,
) -> Result<Vec<(Branch, Commit)>, ToolError> {
    let branches = repo.branches().await.map_err(failed)?;
    let branches: Vec<Branch> = branches.into_iter().filter(wanted).collect();
    let heads: Vec<CommitId> = branches.iter().map(|branch| branch.head).collect();
    let commits = repo.store().commits(repo.name(), &heads).await.map_err(Error::from);
    let commits = commits.map_err(failed)?;
    let mut dated: Vec<(Branch, Commit)> =
        branches.into_iter().zip(commits).filter_map(|(b, commit)| Some((b, commit?))).collect();
    // The sort is stable: branches of one time stay in the order of their names.
    dated.sort_by_key(|(_, commit)| std::cmp::Reverse(commit.created_at));
    Ok(dated)
}

fn text(list: &BranchList) -> String {
    if list.branches.is_empty() {
        return "no conversations match".to_owned();
    }
    let mut text = String::new();
    for branch in &list.branches {
        let at = branch.at.as_deref().unwrap_or("no time");
        let title = branch.title.as_ref().unwrap_or(&branch.last);
        text.push_str(&format!("{}  {at}  {title}\n", branch.branch));
    }
    let (shown, total) = (list.branches.len(), list.total);
    match list.next_offset {
        Some(next) => text.push_str(&format!("{shown} of {total}; more: offset {next}")),
        None => text.push_str(&format!("{shown} of {total}")),
    }
    text
}
