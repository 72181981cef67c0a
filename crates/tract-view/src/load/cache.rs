//! The use of the prompt cache by the requests of sessions.

use std::cmp::Reverse;
use std::collections::HashMap;

use tract_core::CommitId;
use tract_engine::{CacheUse, RankedCause, Repo, cache_use, rank_misses};
use tract_import::cost_of_cache_miss;
use tract_providers::PriceTable;

use super::sessions_by_branch;
use crate::error::Result;

/// The requests of sessions, and the causes of their cache misses.
pub(crate) struct CacheReport {
    /// Oldest first within a session.
    pub(crate) requests: Vec<CacheUse>,
    /// The titles of the sessions, by branch.
    pub(crate) titles: HashMap<String, String>,
    /// The cause with the most tokens first.
    pub(crate) causes: Vec<RankedCause>,
    /// The additional cost of the misses with a price.
    pub(crate) cost: f64,
    /// Misses of models without a price.
    pub(crate) unpriced: usize,
    pub(crate) prices: PriceTable,
}

impl CacheReport {
    /// The requests that sent tokens again, the newest first.
    pub(crate) fn misses(&self) -> Vec<&CacheUse> {
        let misses = self.requests.iter().rev().filter(|request| request.miss.is_some());
        let mut misses: Vec<&CacheUse> = misses.collect();
        misses.sort_by_key(|request| Reverse(request.at));
        misses
    }

    /// The sum of a token count over all requests.
    pub(crate) fn sum(&self, of: impl Fn(&CacheUse) -> u64) -> u64 {
        self.requests.iter().map(of).fold(0, u64::saturating_add)
    }

    /// The additional cost of a miss compared with reading its tokens from the cache.
    pub(crate) fn cost_of(&self, request: &CacheUse) -> Option<f64> {
        cost_of_cache_miss(request, &self.prices)
    }
}

/// Reads the cache use of all branches.
pub(crate) async fn cache(repo: &Repo) -> Result<CacheReport> {
    let mut heads = Vec::new();
    let mut titles = HashMap::new();
    for (branch, session) in sessions_by_branch(repo).await? {
        titles.insert(branch.clone(), session.name().into_owned());
        heads.push((branch, session.head));
    }
    Ok(CacheReport { titles, ..report(repo, &heads).await? })
}

/// Reads the cache use of one branch or commit.
pub(crate) async fn session_cache(
    repo: &Repo,
    revision: &str,
    head: CommitId,
) -> Result<CacheReport> {
    report(repo, &[(revision.to_owned(), head)]).await
}

async fn report(repo: &Repo, heads: &[(String, CommitId)]) -> Result<CacheReport> {
    let prices = PriceTable::builtin();
    let requests = cache_use(repo, heads).await?;
    let causes = rank_misses(&requests, |request| cost_of_cache_miss(request, &prices));
    let cost = causes.iter().map(|cause| cause.cost).sum();
    let unpriced = causes.iter().map(|cause| cause.unpriced).sum();
    Ok(CacheReport { requests, titles: HashMap::new(), causes, cost, unpriced, prices })
}
