//! The commits behind one or all branches, as a graph.

use std::collections::HashMap;

use tract_core::{Commit, CommitId};
use tract_engine::graph::{GraphRow, Layout};
use tract_engine::{LogLine, Repo, SessionQuery, SessionSummary, describe, log_all};

use crate::error::Result;

/// Maximum number of branches that are drawn: the ones written last.
const BRANCHES: usize = 40;

/// A page of a history, newest first.
pub(crate) struct History {
    pub(crate) entries: Vec<HistoryEntry>,
    /// Whether there are older commits.
    pub(crate) has_more: bool,
    /// The number of branches that are left out, because there are too many to draw.
    pub(crate) left_out: usize,
}

/// A commit with its drawing.
pub(crate) struct HistoryEntry {
    pub(crate) commit: Commit,
    pub(crate) line: LogLine,
    /// The branches that point to it.
    pub(crate) branches: Vec<String>,
    /// The rows of the graph: those above the commit, its own, and those below.
    pub(crate) rows: Vec<GraphRow>,
}

/// Reads `count` commits, starting at the position `from`. `head` comes first; `all` adds the other
/// branches.
pub(crate) async fn history(
    repo: &Repo,
    head: CommitId,
    all: bool,
    from: usize,
    count: usize,
) -> Result<History> {
    let mut branches: Vec<SessionSummary> =
        tract_engine::sessions(repo, &SessionQuery::default()).await?;
    let left_out = if all { branches.len().saturating_sub(BRANCHES) } else { 0 };
    let mut names: HashMap<CommitId, Vec<String>> = HashMap::new();
    for session in &branches {
        names.entry(session.head).or_default().push(session.branch.clone());
    }
    branches.truncate(if all { BRANCHES } else { 0 });
    let mut heads = vec![head];
    heads.extend(branches.iter().map(|session| session.head).filter(|other| *other != head));
    let limit = from.saturating_add(count).saturating_add(1);
    let mut commits = log_all(repo, &heads, limit).await?;
    let has_more = commits.len() == limit;
    commits.truncate(limit - 1);
    // The columns of the graph on this page depend on all rows above it.
    let mut layout = Layout::new();
    let mut rows = Vec::with_capacity(commits.len().saturating_sub(from));
    for (place, commit) in commits.iter().enumerate() {
        let drawn = layout.add(place, commit.id(), &commit.parents);
        if place >= from {
            rows.push(drawn);
        }
    }
    let shown = commits.split_off(from.min(commits.len()));
    let lines = describe(repo, &shown).await?;
    let entries = shown.into_iter().zip(lines).zip(rows).map(|((commit, line), rows)| {
        let branches = names.get(&commit.id()).cloned().unwrap_or_default();
        HistoryEntry { commit, line, branches, rows }
    });
    Ok(History { entries: entries.collect(), has_more, left_out })
}
