//! Costs of tokens: tables of list prices, with their date.

mod names;
mod table;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use self::table::{History, Models, Parsed, Price};

/// The built-in table, written by `prices/update.py`.
const BUILTIN: &str = include_str!("../prices/prices.json");

/// Maximum number of cached lookups.
const MAX_LOOKUPS: usize = 4096;

/// An invalid table of prices.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PriceError {
    /// The text is not a table of prices.
    #[error("no table of prices: line {line}, column {column}")]
    Syntax {
        /// The line of the error, from 1.
        line: usize,
        /// Its column, from 1.
        column: usize,
    },
    /// A price is negative or not finite.
    #[error("invalid price of {model:?}: {price} (expected 0 or more)")]
    Price {
        /// The model.
        model: String,
        /// The price.
        price: f64,
    },
    /// The number of tokens per price is not positive.
    #[error("invalid number of tokens per price: {per} (expected more than 0)")]
    Unit {
        /// The number of tokens.
        per: f64,
    },
}

impl PriceError {
    fn syntax(error: &serde_json::Error) -> Self {
        Self::Syntax { line: error.line(), column: error.column() }
    }
}

/// Tokens of requests and answers, by price class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenAmounts {
    /// Tokens of requests that were neither read from a prompt cache nor written to it.
    pub input: u64,
    /// Tokens of answers.
    pub output: u64,
    /// Tokens read from a prompt cache.
    pub cache_read: u64,
    /// Tokens written to a prompt cache.
    pub cache_write: u64,
    /// The part of `cache_write` that was written for an hour; the rest is for five minutes.
    pub cache_write_1h: u64,
    /// The number of requests; 0 counts as one.
    pub requests: u64,
}

impl TokenAmounts {
    /// Returns the average size of a request in tokens.
    fn request(&self) -> u64 {
        let all = self.input.saturating_add(self.cache_read).saturating_add(self.cache_write);
        all / self.requests.max(1)
    }
}

/// The facts by which a price is selected: the request and its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriceBasis {
    /// Time of the answer: microseconds since 1970, UTC. `None` selects the prices on the day of
    /// the table.
    pub at: Option<i64>,
    /// Tokens of the whole request.
    pub request: u64,
}

/// The prices of models.
#[derive(Clone, Debug)]
pub struct PriceTable {
    date: String,
    currency: String,
    /// The number of tokens per price.
    per: f64,
    models: Arc<Models>,
    /// Cache of lookups: a name occurs in many answers of a store. Recordings contain any names, so
    /// it is emptied when it is full.
    found: Arc<Mutex<HashMap<String, Option<History>>>>,
}

impl PriceTable {
    /// Returns the built-in table: list prices of the day returned by [`date`](Self::date).
    pub fn builtin() -> Self {
        Self::of(table::builtin(BUILTIN).expect("the table that comes with tract is readable"))
    }

    /// Reads a table: `{"date":"2026-01-31","models":{"NAME":{"input":3,"output":15}}}`, with
    /// `cache_read`, `cache_write`, `cache_write_1h` and `context_window` where a model has them, in
    /// `currency` per `per` tokens (USD per million); or LiteLLM's `model_prices_and_context_window.json`.
    ///
    /// # Errors
    /// If the text is not such a table.
    pub fn parse(text: &str) -> Result<Self, PriceError> {
        table::parse(text).map(Self::of)
    }

    fn of(parsed: Parsed) -> Self {
        let Parsed { date, currency, per, models } = parsed;
        Self { date, currency, per, models: Arc::new(models), found: Arc::default() }
    }

    /// Returns the day on which the prices were looked up; `LiteLLM` for a table of LiteLLM, which
    /// has no date.
    pub fn date(&self) -> &str {
        &self.date
    }

    /// Returns the currency.
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// Returns the cost of an answer at its time; `None` for a model that is not in the table. The
    /// name may have a host, a region or a company before it, and a version or a date after it, as
    /// in Bedrock, Vertex and OpenRouter.
    pub fn cost(&self, model: &str, tokens: &TokenAmounts, at: Option<i64>) -> Option<f64> {
        let price = self.price(model, PriceBasis { at, request: tokens.request() })?;
        let hour = tokens.cache_write_1h.min(tokens.cache_write);
        Some(
            self.of_tokens(tokens.input, price.input)
                + self.of_tokens(tokens.output, price.output)
                + self.of_tokens(tokens.cache_read, price.cache_read)
                + self.of_tokens(tokens.cache_write - hour, price.cache_write)
                + self.of_tokens(hour, price.cache_write_1h),
        )
    }

    /// Returns the extra cost of `again` tokens that were sent again, compared with reading them
    /// from the cache. Tokens that the request wrote to the cache are charged at the price of
    /// writing, those for an hour first, because they come first in a request.
    pub fn cost_of_miss(
        &self,
        model: &str,
        again: u64,
        written: &TokenAmounts,
        basis: PriceBasis,
    ) -> Option<f64> {
        let price = self.price(model, basis)?;
        let all = again.min(written.cache_write);
        let hour = all.min(written.cache_write_1h);
        let paid = self.of_tokens(hour, price.cache_write_1h)
            + self.of_tokens(all - hour, price.cache_write)
            + self.of_tokens(again - all, price.input);
        Some((paid - self.of_tokens(again, price.cache_read)).max(0.0))
    }

    /// Returns the maximum number of tokens of a request to a model and its answer; `None` if the
    /// table does not have it.
    pub fn context_window(&self, model: &str) -> Option<u64> {
        self.models.find(&names::lower(model))?.context_window
    }

    fn price(&self, model: &str, basis: PriceBasis) -> Option<Price> {
        let at = basis.at.or_else(|| table::day(&self.date)).unwrap_or(i64::MAX);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if !found.contains_key(model) {
            if found.len() >= MAX_LOOKUPS {
                found.clear();
            }
            let prices = self.models.find(&names::lower(model)).cloned();
            found.insert(model.to_owned(), prices);
        }
        found.get(model)?.as_ref()?.at(at, basis.request)
    }

    fn of_tokens(&self, count: u64, price: f64) -> f64 {
        count as f64 * price / self.per
    }
}

#[cfg(test)]
mod tests;
