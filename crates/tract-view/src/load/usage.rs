//! The cost of the answers of a repository.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tract_core::CommitId;
use tract_engine::{Repo, SessionSummary, ToolCost};
use tract_import::{AnswerUsage, TokenTotals};
use tract_providers::{PriceTable, TokenAmounts};

use super::sessions_by_branch;
use crate::error::Result;
use crate::times;

/// A sum of answers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UsageSum {
    pub(crate) answers: usize,
    pub(crate) tokens: TokenAmounts,
    /// The cost of the answers with a price.
    pub(crate) cost: f64,
    /// Answers of models without a price.
    pub(crate) unpriced: usize,
}

/// A group of answers; `None` if its key is not recorded.
pub(crate) type UsageGroup = (Option<String>, UsageSum);

/// The usage of a repository or a session, each answer once.
pub(crate) struct UsageReport {
    /// By model, the most tokens first.
    pub(crate) models: Vec<UsageGroup>,
    /// By the folder of the session, the most tokens first.
    pub(crate) projects: Vec<UsageGroup>,
    /// By the tool that recorded the session, the most tokens first.
    pub(crate) tools: Vec<UsageGroup>,
    /// By local day, the oldest first.
    pub(crate) days: Vec<UsageGroup>,
    pub(crate) total: UsageSum,
    pub(crate) unpriced_models: BTreeSet<String>,
    pub(crate) prices: PriceTable,
    /// The share of tool definitions in the requests, or the reason why it cannot be read.
    pub(crate) tool_costs: std::result::Result<Vec<ToolCost>, String>,
}

impl UsageSum {
    fn add(&mut self, answer: &AnswerUsage, cost: Option<f64>) {
        let requests = usize::try_from(answer.requests).unwrap_or(usize::MAX);
        self.answers = self.answers.saturating_add(requests);
        let (all, one) = (&mut self.tokens, &answer.tokens);
        for (sum, more) in [
            (&mut all.input, one.input),
            (&mut all.output, one.output),
            (&mut all.cache_read, one.cache_read),
            (&mut all.cache_write, one.cache_write),
            (&mut all.cache_write_1h, one.cache_write_1h),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.cost += cost.unwrap_or_default();
        let unpriced = if cost.is_none() { requests } else { 0 };
        self.unpriced = self.unpriced.saturating_add(unpriced);
    }

    pub(crate) fn all_tokens(&self) -> u64 {
        let TokenAmounts { input, output, cache_read, cache_write, .. } = self.tokens;
        [output, cache_read, cache_write].into_iter().fold(input, u64::saturating_add)
    }
}

/// Sums up the usage of all branches, as `tract usage` does.
pub(crate) async fn usage(repo: &Repo) -> Result<UsageReport> {
    let answers = tract_import::usage(repo).await?;
    let sessions = sessions_by_branch(repo).await?;
    let heads: Vec<CommitId> = sessions.values().map(|session| session.head).collect();
    Ok(report(&answers, &sessions, tool_costs(repo, &heads).await))
}

/// Sums up the usage of one branch or commit.
pub(crate) async fn session_usage(
    repo: &Repo,
    revision: &str,
    head: CommitId,
) -> Result<UsageReport> {
    let names = HashSet::from([revision.to_owned()]);
    let answers = tract_import::branch_usage(repo, &names).await?;
    Ok(report(&answers, &BTreeMap::new(), tool_costs(repo, &[head]).await))
}

/// A damaged message does not hide the costs, which are in the commits.
async fn tool_costs(repo: &Repo, heads: &[CommitId]) -> std::result::Result<Vec<ToolCost>, String> {
    tract_engine::tool_costs(repo, heads).await.map_err(|error| error.to_string())
}

fn report(
    answers: &[AnswerUsage],
    sessions: &BTreeMap<String, SessionSummary>,
    tool_costs: std::result::Result<Vec<ToolCost>, String>,
) -> UsageReport {
    let prices = PriceTable::builtin();
    let mut models: BTreeMap<Option<String>, UsageSum> = BTreeMap::new();
    let mut projects = models.clone();
    let mut tools = models.clone();
    let mut days = models.clone();
    let (mut total, mut unpriced_models) = (UsageSum::default(), BTreeSet::new());
    for answer in answers {
        let TokenTotals { input, output, cache_read, cache_write, cache_write_1h, .. } =
            answer.tokens;
        let requests = answer.requests;
        let amounts =
            TokenAmounts { input, output, cache_read, cache_write, cache_write_1h, requests };
        let cost = answer.model.as_ref().and_then(|model| prices.cost(model, &amounts, answer.at));
        if cost.is_none() {
            unpriced_models.insert(answer.model.clone().unwrap_or_else(|| "unknown".to_owned()));
        }
        let session = sessions.get(&answer.branch);
        let project = session.and_then(|session| session.project.clone());
        let tool = session.and_then(|session| session.tool.clone());
        let day = answer.at.and_then(|at| times::local(at, "%Y-%m-%d"));
        for (groups, key) in [
            (&mut models, answer.model.clone()),
            (&mut projects, project),
            (&mut tools, tool),
            (&mut days, day),
        ] {
            groups.entry(key).or_default().add(answer, cost);
        }
        total.add(answer, cost);
    }
    let by_size = |groups: BTreeMap<Option<String>, UsageSum>| {
        let mut groups: Vec<UsageGroup> = groups.into_iter().collect();
        groups.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.all_tokens()));
        groups
    };
    UsageReport {
        models: by_size(models),
        projects: by_size(projects),
        tools: by_size(tools),
        days: days.into_iter().collect(),
        total,
        unpriced_models,
        prices,
        tool_costs,
    }
}
