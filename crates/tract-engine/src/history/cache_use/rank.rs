//! The causes of cache misses, the most expensive first.

use std::collections::BTreeMap;

use super::{CacheUse, MissCause};

/// The misses of one cause.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RankedCause {
    /// The cause.
    pub cause: MissCause,
    /// Requests that missed the cache for it.
    pub requests: usize,
    /// Tokens that they sent again.
    pub again: u64,
    /// What these tokens cost more than from the cache, of requests with a price.
    pub cost: f64,
    /// Requests without a price.
    pub unpriced: usize,
    /// The place of the largest one in the list that was ranked.
    pub largest: usize,
}

/// Sums up misses by cause: those with the most tokens come first. `cost` is asked for each miss.
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
