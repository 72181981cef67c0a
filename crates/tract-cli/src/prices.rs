//! The price table of `--prices`.

use std::path::Path;

use tract::prices::PriceTable;

use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::style::{Styled, WARN};

/// Reads a table; the built-in one without a path.
pub(crate) fn read(path: Option<&Path>) -> Outcome<PriceTable> {
    let Some(path) = path else { return Ok(PriceTable::builtin()) };
    let text = std::fs::read_to_string(path).map_err(|error| Failure::file(path, &error))?;
    PriceTable::parse(&text).map_err(|error| {
        Failure::no("no_prices", error.to_string())
            .note(r#"expected {"date":"2026-01-31","models":{"NAME":{"input":3,"output":15}}} or LiteLLM's table"#)
    })
}

/// Describes the source of the prices.
pub(crate) fn source(prices: &PriceTable) -> String {
    let (date, currency) = (prices.date(), prices.currency());
    format!("list prices as of {date}, in {currency}; --prices FILE for others")
}

/// Returns a warning with the models without a price, and the things whose cost is missing in the
/// sum.
pub(crate) fn unpriced(models: &[&str], things: &str) -> Styled<String> {
    let names: Vec<_> = models.iter().map(|name| escape::line(name)).collect();
    Styled(WARN, format!("no price for {}: {things} not in the sum", names.join(", ")))
}

/// Formats a sum of which some answers may be unpriced.
pub(crate) fn shown(cost: f64, unpriced: usize, all: usize, decimals: usize) -> String {
    match unpriced {
        n if n == all => "-".to_owned(),
        0 => format!("{cost:.decimals$}"),
        _ => format!(">{cost:.decimals$}"),
    }
}

/// Rounds a sum for scripts to a millionth.
pub(crate) fn rounded(cost: f64) -> f64 {
    (cost * 1e6).round() / 1e6
}
