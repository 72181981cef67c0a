//! The size of a context over time, in tokens.

use std::collections::HashSet;

use tract_compile::Compiled;
use tract_core::{Commit, CommitId, Kind, Op};
use tract_engine::{AnswerFacts, Repo};
use tract_providers::{PriceTable, TokenAmounts};

use crate::error::Result;

/// Maximum number of points of a chart.
const POINTS: usize = 160;

/// The parts of a context, from the bottom of the chart to its top.
pub(crate) const PARTS: [&str; 6] = ["tools", "system", "user", "assistant", "results", "other"];

/// The window of a branch over its commits.
pub(crate) struct Window {
    /// The number of commits of the whole history.
    pub(crate) commits: usize,
    pub(crate) points: Vec<WindowPoint>,
    pub(crate) marks: Vec<WindowMark>,
    /// The requests, summed up between the points of the chart.
    pub(crate) requests: Vec<RequestTokens>,
    /// Tokens that the model of the last answer accepts, if that is known.
    pub(crate) limit: Option<u64>,
    pub(crate) currency: String,
    /// The times of the oldest and the newest commit with a time.
    pub(crate) times: Option<(i64, i64)>,
}

/// A context at a commit.
pub(crate) struct WindowPoint {
    /// The number of commits up to it.
    pub(crate) place: usize,
    pub(crate) commit: CommitId,
    pub(crate) at: Option<i64>,
    /// Tokens, by [`PARTS`].
    pub(crate) tokens: [u64; PARTS.len()],
}

/// Tokens and cost of requests, as the provider reported them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestTokens {
    /// The number of commits up to the last of these answers.
    pub(crate) place: usize,
    /// Tokens read from the cache.
    pub(crate) read: u64,
    /// Tokens written to the cache.
    pub(crate) written: u64,
    /// Other input tokens.
    pub(crate) uncached: u64,
    /// The cost of the requests and their answers, at list prices.
    pub(crate) cost: f64,
}

/// A commit that changed earlier messages.
pub(crate) struct WindowMark {
    pub(crate) place: usize,
    pub(crate) commit: CommitId,
    pub(crate) kind: &'static str,
}

/// Reads the window of a head: its context at up to 160 of its commits.
pub(crate) async fn window(repo: &Repo, head: CommitId) -> Result<Window> {
    let mut commits: Vec<Commit> = Vec::new();
    let mut history = repo.history(head);
    while let Some(page) = history.next_page().await? {
        commits.extend(page);
    }
    commits.reverse();
    let step = commits.len().div_ceil(POINTS).max(1);
    let is_shown = |place: usize| (commits.len() - place).is_multiple_of(step);
    let mut points = Vec::new();
    let mut marks = Vec::new();
    let (mut requests, mut counted) = (Vec::new(), HashSet::new());
    let mut sum = RequestTokens::default();
    let prices = PriceTable::builtin();
    let mut model = None;
    let mut is_whole = true;
    for (place, commit) in (1..).zip(&commits) {
        if let Some(kind) = mark(&commit.op) {
            marks.push(WindowMark { place, commit: commit.id(), kind });
        }
        let facts = AnswerFacts::of(commit);
        // An API message can be several commits, each with its tokens.
        let is_new = facts.message_id.clone().is_none_or(|id| counted.insert(id));
        if let Some(usage) = facts.usage.filter(|_| is_new) {
            let amounts = TokenAmounts {
                input: usage.uncached().unwrap_or_default(),
                output: usage.output.unwrap_or_default(),
                cache_read: usage.cache_read.unwrap_or_default(),
                cache_write: usage.cache_write.unwrap_or_default(),
                cache_write_1h: usage.cache_write_1h.unwrap_or_default(),
                requests: 1,
            };
            let name = facts.model.as_deref();
            let cost = name.and_then(|name| prices.cost(name, &amounts, commit.created_at));
            sum.cost += cost.unwrap_or_default();
            sum.read += usage.cache_read.unwrap_or(0);
            sum.written += usage.cache_write.unwrap_or(0);
            sum.uncached += usage.uncached().unwrap_or(0);
        }
        if facts.model.as_ref().is_some_and(|model| !model.starts_with('<')) {
            model = facts.model;
        }
        if is_shown(place) && is_whole {
            requests.push(RequestTokens { place, ..std::mem::take(&mut sum) });
            // The chart ends at the first unreadable message: every point after it would read it
            // again, because a failed read is not cached.
            match repo.compile(Some(commit.id())).await {
                Ok(context) => points.push(WindowPoint {
                    place,
                    commit: commit.id(),
                    at: commit.created_at,
                    tokens: tokens(&context),
                }),
                Err(tract_engine::Error::Compile(_) | tract_engine::Error::Erased(_)) => {
                    is_whole = false;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    let mut times = commits.iter().filter_map(|commit| commit.created_at);
    let first = times.next();
    let times = first.map(|first| (first, times.next_back().unwrap_or(first)));
    let limit = model.and_then(|model: String| prices.context_window(&model));
    let currency = prices.currency().to_owned();
    Ok(Window { commits: commits.len(), points, marks, requests, limit, currency, times })
}

fn mark(op: &Op) -> Option<&'static str> {
    match op {
        Op::Edit { .. } => Some("edit"),
        Op::Annotate { .. } => Some("priority"),
        Op::Compress { .. } => Some("summary"),
        Op::Revert { .. } => Some("revert"),
        Op::Merge { .. } => Some("merge"),
        Op::Append { .. } | Op::Tools | Op::Note | Op::Unknown { .. } => None,
    }
}

fn tokens(context: &Compiled) -> [u64; PARTS.len()] {
    let [mut tools, mut system, mut user, mut assistant, mut results, mut other] = [0; PARTS.len()];
    let mut all = 0;
    for message in context.messages() {
        let part = match message.content.kind() {
            Kind::System => &mut system,
            Kind::User => &mut user,
            Kind::Assistant | Kind::Reasoning => &mut assistant,
            Kind::ToolResult => &mut results,
            Kind::Artifact | Kind::Note | Kind::Custom(_) => &mut other,
        };
        *part += message.token_count;
        all += message.token_count;
    }
    if !context.tools().is_empty() {
        tools = context.token_count().count.saturating_sub(all);
    }
    [tools, system, user, assistant, results, other]
}
