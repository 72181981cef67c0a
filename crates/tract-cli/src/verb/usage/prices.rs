//! What tokens cost: a table in a file, with its date.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use tract::import::TokenTotals;

use crate::failure::{Failure, Outcome};

/// The table that comes with the command.
const OWN: &str = include_str!("../../../prices.json");

/// Prices of models.
#[derive(Debug, Deserialize)]
pub(super) struct Prices {
    /// The day on which they were looked up.
    pub(super) date: String,
    #[serde(default = "dollars")]
    pub(super) currency: String,
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

impl Prices {
    /// Reads a table; that of the command where none is named.
    pub(super) fn read(path: Option<&Path>) -> Outcome<Self> {
        let text = match path {
            Some(path) => {
                std::fs::read_to_string(path).map_err(|error| Failure::file(path, &error))?
            }
            None => OWN.to_owned(),
        };
        serde_json::from_str(&text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            Failure::no("no_prices", format!("no table of prices: line {line}, column {column}"))
                .note(r#"expected {"date":"2026-01-31","models":{"NAME":{"input":3,"output":15}}}"#)
        })
    }

    /// What tokens of a model cost; `None` for a model that the table does not have. The name may
    /// have a provider before it and a date behind it.
    pub(super) fn cost(&self, model: &str, tokens: &TokenTotals) -> Option<f64> {
        let name = model.rsplit('/').next().unwrap_or(model);
        let price = self.models.get(name).or_else(|| self.models.get(undated(name)?))?;
        let of = |count: u64, price: f64| count as f64 * price / self.per;
        Some(
            of(tokens.input, price.input)
                + of(tokens.output, price.output)
                + of(tokens.cache_read, price.cache_read.unwrap_or(price.input))
                + of(tokens.cache_write, price.cache_write.unwrap_or(price.input)),
        )
    }
}

/// A model's name without the date of its version.
fn undated(name: &str) -> Option<&str> {
    let rest = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
    let end = name.get(rest.len()..)?;
    let digits = end.chars().filter(char::is_ascii_digit).count();
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
        if digits >= 8 && is_date {
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
        let prices = Prices::read(None).expect("it reads");
        let mut tokens = TokenTotals::default();
        tokens.input = 1_000_000;
        tokens.cache_read = 1_000_000;
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
}
