//! The price table of `--prices`.

use std::path::Path;

use tract::prices::PriceTable;

use crate::failure::{Failure, Outcome};

/// Reads a table; that of the command where none is named.
pub(crate) fn read(path: Option<&Path>) -> Outcome<PriceTable> {
    let Some(path) = path else { return Ok(PriceTable::builtin()) };
    let text = std::fs::read_to_string(path).map_err(|error| Failure::file(path, &error))?;
    PriceTable::parse(&text).map_err(|error| {
        Failure::no("no_prices", error.to_string())
            .note(r#"expected {"date":"2026-01-31","models":{"NAME":{"input":3,"output":15}}}"#)
    })
}

/// Says where prices are from.
pub(crate) fn source(prices: &PriceTable) -> String {
    let (date, currency) = (prices.date(), prices.currency());
    format!("list prices of {date}, in {currency}; --prices FILE for others")
}
