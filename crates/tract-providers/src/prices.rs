//! What tokens cost: tables of list prices, with their date.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The table that comes with tract.
const BUILTIN: &str = include_str!("../prices.json");

/// A text that is no table of prices.
#[derive(Debug, thiserror::Error)]
#[error("no table of prices: line {line}, column {column}")]
pub struct PriceError {
    /// The line of the mistake, from 1.
    pub line: usize,
    /// Its column, from 1.
    pub column: usize,
}

/// Tokens of requests and answers, by what they cost.
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
}

/// The prices of models.
#[derive(Clone, Debug, Deserialize)]
pub struct PriceTable {
    date: String,
    #[serde(default = "dollars")]
    currency: String,
    /// Tokens that a price is for.
    #[serde(default = "million")]
    per: f64,
    models: BTreeMap<String, Price>,
}

fn dollars() -> String {
    "USD".to_owned()
}

fn million() -> f64 {
    1e6
}

/// The prices of a model. A cache that has no price of its own costs what the input does.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Price {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

impl PriceTable {
    /// Returns the table that comes with tract: list prices of the day that [`date`](Self::date) names.
    pub fn builtin() -> Self {
        Self::parse(BUILTIN).expect("what comes with tract is a table")
    }

    /// Reads a table: `{"date":"2026-01-31","models":{"NAME":{"input":3,"output":15}}}`, with
    /// `cache_read` and `cache_write` where a model has them, in `currency` per `per` tokens (USD per
    /// million).
    ///
    /// # Errors
    /// When the text is no such table.
    pub fn parse(text: &str) -> Result<Self, PriceError> {
        serde_json::from_str(text)
            .map_err(|error| PriceError { line: error.line(), column: error.column() })
    }

    /// Returns the day on which the prices were looked up.
    pub fn date(&self) -> &str {
        &self.date
    }

    /// Returns the currency.
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// Returns what tokens of a model cost; `None` for a model that the table does not have. The name
    /// may have a provider before it and a date behind it.
    pub fn cost(&self, model: &str, tokens: &TokenAmounts) -> Option<f64> {
        let price = self.price(model)?;
        Some(
            self.of(tokens.input, price.input)
                + self.of(tokens.output, price.output)
                + self.of(tokens.cache_read, price.cache_read.unwrap_or(price.input))
                + self.of(tokens.cache_write, price.cache_write.unwrap_or(price.input)),
        )
    }

    /// Returns how much more tokens cost that were sent again, as against reading them from the cache.
    /// So many of them as the request wrote to the cache cost what writing does.
    pub fn cost_of_miss(&self, model: &str, again: u64, written: u64) -> Option<f64> {
        let price = self.price(model)?;
        let written = again.min(written);
        let paid = self.of(written, price.cache_write.unwrap_or(price.input))
            + self.of(again - written, price.input);
        Some((paid - self.of(again, price.cache_read.unwrap_or(price.input))).max(0.0))
    }

    fn price(&self, model: &str) -> Option<Price> {
        let name = model.rsplit('/').next().unwrap_or(model);
        self.models.get(name).or_else(|| self.models.get(undated(name)?)).copied()
    }

    fn of(&self, count: u64, price: f64) -> f64 {
        count as f64 * price / self.per
    }
}

/// A model's name without the date of its version.
fn undated(name: &str) -> Option<&str> {
    if name.ends_with("-latest") {
        return name.strip_suffix("-latest");
    }
    // `-20250514` and `-2024-08-06`; what is left of the digits belongs to the name.
    for length in [9, 11] {
        let at = name.len().checked_sub(length)?;
        let (head, tail) = (name.get(..at)?, name.get(at..)?);
        let is_date = tail.starts_with("-20")
            && tail.chars().filter(char::is_ascii_digit).count() == 8
            && tail.chars().all(|c| c.is_ascii_digit() || c == '-');
        if is_date {
            return Some(head);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_the_price_of_its_model_and_an_unknown_model_has_none() {
        let prices = PriceTable::builtin();
        let tokens =
            TokenAmounts { input: 1_000_000, cache_read: 1_000_000, ..TokenAmounts::default() };
        let cost = |model| prices.cost(model, &tokens);
        let known = cost("claude-sonnet-4").expect("a price");
        assert!((known - 3.3).abs() < 1e-9);
        assert_eq!(cost("claude-sonnet-4-20250514"), Some(known));
        assert_eq!(cost("anthropic/claude-sonnet-4"), Some(known));
        assert_eq!(cost("gpt-4o-2024-08-06"), cost("gpt-4o"));
        assert_eq!(cost("claude-opus-4-7"), None, "a later model is not the earlier one");
        assert_eq!(cost("<synthetic>"), None);
        assert_eq!(cost(""), None);
    }

    #[test]
    fn a_miss_costs_what_writing_and_sending_cost_more_than_reading() {
        let prices = PriceTable::builtin();
        let cost = |again, written| prices.cost_of_miss("claude-sonnet-4", again, written);
        let is = |found: Option<f64>, expected: f64| {
            assert!(found.is_some_and(|found| (found - expected).abs() < 1e-9), "{found:?}");
        };
        is(cost(1_000_000, 1_000_000), 3.75 - 0.3);
        is(cost(1_000_000, 2_000_000), 3.75 - 0.3);
        is(cost(1_000_000, 0), 3.0 - 0.3);
        is(cost(0, 5), 0.0);
        assert_eq!(prices.cost_of_miss("none", 1, 1), None);
    }

    #[test]
    fn a_table_that_is_none_names_the_place() {
        let error = PriceTable::parse("{\"date\":\n 7}").expect_err("a number is no date");
        assert_eq!(error.to_string(), "no table of prices: line 2, column 2");
    }
}
