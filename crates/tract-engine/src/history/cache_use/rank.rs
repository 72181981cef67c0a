//! Ranks the causes of cache misses by cost.

use std::collections::BTreeMap;

use super::{CacheUse, MissCause};

/// The misses of one cause.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedCause {
    /// The cause.
    pub cause: MissCause,
    /// Number of requests that missed the cache for this cause.
    pub requests: usize,
    /// Number of tokens that they sent again.
    pub again: u64,
    /// Additional cost of these tokens compared with reading them from the cache, for requests with
    /// a price.
    pub cost: f64,
    /// Number of requests without a price.
    pub unpriced: usize,
    /// Index of the largest miss in the ranked list.
    pub largest: usize,
}

/// Sums up misses by cause, those with the most tokens first. `cost` is called for each miss.
pub fn rank_misses(
    requests: &[CacheUse],
    cost: impl Fn(&CacheUse) -> Option<f64>,
) -> Vec<RankedCause> {
    let mut causes: BTreeMap<MissCause, RankedCause> = BTreeMap::new();
    for (place, request) in requests.iter().enumerate() {
        let Some(miss) = &request.miss else { continue };
        let cause = miss.cause;
        let new =
            RankedCause { cause, requests: 0, again: 0, cost: 0.0, unpriced: 0, largest: place };
        let ranked = causes.entry(cause).or_insert(new);
        ranked.requests += 1;
        ranked.again = ranked.again.saturating_add(request.again);
        match cost(request) {
            Some(cost) => ranked.cost += cost,
            None => ranked.unpriced += 1,
        }
        if requests.get(ranked.largest).is_some_and(|largest| largest.again < request.again) {
            ranked.largest = place;
        }
    }
    let mut ranked: Vec<RankedCause> = causes.into_values().collect();
    ranked.sort_by_key(|ranked| std::cmp::Reverse(ranked.again));
    ranked
}
