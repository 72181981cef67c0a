//! The page of costs.

use maud::{Markup, html};
use tract_core::text::number;

use crate::load::{UsageReport, UsageSum};
use crate::text::visible;

/// Maximum number of listed days.
const MOST: usize = 400;

/// Shows the tokens and the cost of all answers, by model and by day.
pub(crate) fn usage(report: &UsageReport) -> Markup {
    let currency = report.prices.currency();
    let head = |first: &[&str]| {
        let names = ["answers", "input", "output", "cache read", "cache write"];
        html! {
            thead { tr {
                @for name in first { th { (name) } }
                @for name in names { th .number { (name) } }
                th .number { (visible(currency)) }
            } }
        }
    };
    let unpriced: Vec<_> = report.unpriced_models.iter().map(|name| visible(name)).collect();
    html! {
        h1 { "Usage" }
        @if report.total.answers == 0 {
            p .soft { "no answer says what it cost" }
        } @else {
            h2 { "By model" }
            table {
                (head(&["model"]))
                tbody {
                    @for (model, sum) in &report.models { tr { td { (name(model.as_deref())) } (cells(sum)) } }
                    tr { td { b { "all" } } (cells(&report.total)) }
                }
            }
            h2 { "By day" }
            table {
                (head(&["day", "model"]))
                tbody {
                    @for (day, model, sum) in report.days.iter().take(MOST) {
                        tr { td .time { (name(day.as_deref())) } td { (name(model.as_deref())) } (cells(sum)) }
                    }
                }
            }
            @if report.days.len() > MOST { p .soft { (report.days.len() - MOST) " rows more: tract usage --by day" } }
            @if !unpriced.is_empty() {
                p .changed { "no price for " (unpriced.join(", ")) ": " (report.total.unpriced) " answers not in the sum" }
            }
            p .soft { "list prices of " (visible(report.prices.date())) ", in " (visible(currency)) }
        }
    }
}

fn name(name: Option<&str>) -> Markup {
    html! { (visible(name.unwrap_or("unknown"))) }
}

/// Formats a cost. It is a lower bound if some answers do not have a price.
pub(super) fn cost(sum: &UsageSum) -> String {
    match sum.unpriced {
        n if n == sum.answers => "–".to_owned(),
        0 => format!("{:.2}", sum.cost),
        _ => format!(">{:.2}", sum.cost),
    }
}

fn cells(sum: &UsageSum) -> Markup {
    let tokens = &sum.tokens;
    html! {
        td .number { (number(sum.answers as u64)) }
        @for count in [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write] {
            td .number { (number(count)) }
        }
        td .number { (cost(sum)) }
    }
}
