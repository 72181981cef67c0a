//! The cost of the answers of a repository.

use std::collections::{BTreeMap, BTreeSet};

use tract_core::time;
use tract_engine::Repo;
use tract_import::{AnswerUsage, TokenTotals};
use tract_providers::{PriceTable, TokenAmounts};

use crate::error::Result;

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

/// The usage of a repository, by model and by day.
pub(crate) struct UsageReport {
    /// The models with the most tokens come first.
    pub(crate) models: Vec<(Option<String>, UsageSum)>,
    /// By day in UTC and model, the newest first.
    pub(crate) days: Vec<(Option<String>, Option<String>, UsageSum)>,
    /// By branch. Commits shared by several branches count for the first one by name.
    pub(crate) branches: BTreeMap<String, UsageSum>,
    pub(crate) total: UsageSum,
    pub(crate) unpriced_models: BTreeSet<String>,
    pub(crate) prices: PriceTable,
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

/// Sums up the usage recorded in commits, as `tract usage` does.
pub(crate) async fn usage(repo: &Repo) -> Result<UsageReport> {
    let prices = PriceTable::builtin();
    let mut models: BTreeMap<Option<String>, UsageSum> = BTreeMap::new();
    let mut days: BTreeMap<(Option<String>, Option<String>), UsageSum> = BTreeMap::new();
    let mut branches: BTreeMap<String, UsageSum> = BTreeMap::new();
    let (mut total, mut unpriced_models) = (UsageSum::default(), BTreeSet::new());
    for answer in tract_import::usage(repo).await? {
        let TokenTotals { input, output, cache_read, cache_write, cache_write_1h, .. } =
            answer.tokens;
        let amounts = TokenAmounts {
            input,
            output,
            cache_read,
            cache_write,
            cache_write_1h,
            requests: answer.requests,
        };
        let cost = answer.model.as_ref().and_then(|model| prices.cost(model, &amounts, answer.at));
        if cost.is_none() {
            unpriced_models.insert(answer.model.clone().unwrap_or_else(|| "unknown".to_owned()));
        }
        let day = answer.at.and_then(time::format_rfc3339);
        let day = day.map(|at| at.chars().take(10).collect::<String>());
        models.entry(answer.model.clone()).or_default().add(&answer, cost);
        days.entry((day, answer.model.clone())).or_default().add(&answer, cost);
        branches.entry(answer.branch.clone()).or_default().add(&answer, cost);
        total.add(&answer, cost);
    }
    let mut models: Vec<_> = models.into_iter().collect();
    models.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.all_tokens()));
    let days = days.into_iter().rev().map(|((day, model), sum)| (day, model, sum)).collect();
    Ok(UsageReport { models, days, branches, total, unpriced_models, prices })
}
